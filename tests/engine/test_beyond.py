"""Beyond one cache: latents, a state, chosen keys; O is that of float64, counts are those of plain loops."""

import json
from dataclasses import replace

import numpy as np
import pytest

from engine import Experiment, simulate
from engine.problem.hardware import GPUS
from engine.problem.heads import Heads, keep
from engine.problem.inputs import make_inputs
from engine.small.model import small, weights_of
from engine.small.tokens import BEGIN
from engine.studies import latents
from engine.studies import linear_attention as linear
from engine.studies import selected_keys as selected
from engine.studies.beyond import CARD
from engine.studies.block_scales import E4M3
from engine.studies.latents import ABSORBED, HEADS, PROJECTED, WAYS, Sizes
from engine.studies.selected_keys import ALL, BEST, INDEXER, MEANS, RULES, TOKENS, WINDOW
from engine.trace.dense import exact_tiles
from engine.trace.execute import execute
from tests.engine.strategies import softmax

SIZES = Sizes(heads=3, latent=40, rotary=6, plain=10, v_dim=14)
SMALL = Experiment.of(seq=96, head_dim=16, heads=4, kv_heads=2, causal=True)


@pytest.mark.parametrize(("queries", "keys"), [(1, 100), (5, 64), (3, 17)])
def test_all_three_ways_cost_what_is_counted_and_absorbing_is_attention(queries, keys):
    """Token by token; of the latent also by the scheduler, on numbers, whose tile has all rows of queries."""
    moved, pairs = {way: latents.cost(way, queries, keys, SIZES).moved for way in WAYS}, 3 * queries * keys
    lifted = {PROJECTED: keys, ABSORBED: queries, HEADS: 0}  # rows, of 40 numbers to 10 and 14 a head
    for way in WAYS:
        wide = 46 + 40 if way == ABSORBED else 16 + 14  # numbers of K and of V
        flops = 2 * pairs * wide + 3 * 2 * lifted[way] * 40 * (10 + 14)
        assert latents.cost(way, queries, keys, SIZES).flops == flops
    # K of 16 and V of 14 numbers a head; 46 of a latent; 24 made of it, written and read, and 6 rotated ones
    assert moved[HEADS] == sum(2 * 3 * (16 + 14) for _ in range(keys))
    assert moved[PROJECTED] == keys * 2 * (46 + 3 * 24 + 6) + keys * 2 * 3 * 24
    values = {"heads": 1, "seq": 3 * queries, "seq_kv": keys, "head_dim": 46, "head_dim_v": 40}
    one = Experiment.of(**values, latent=True, dtype="bfloat16", block_q=16, block_kv=16)
    given = [each[0] for each in make_inputs(one.problem)]
    found = execute(one, *given)
    np.testing.assert_allclose(found.out, exact_tiles(one, *given).out, atol=0.03)
    read = sum(amount for tensor, amount in found.counted.read.items() if tensor.name in "KV")
    assert read == moved[ABSORBED] == keys * 46 * 2


def test_the_cache_is_that_of_published_figures():
    """DeepSeek-V2, section 2.1.4: equal to grouped heads with 2.25 groups; 576 numbers of a token.

    And those that the instrumented scheduler requests for 128 heads on one key head.
    """
    assert Sizes().groups == 2.25
    assert latents.cost(ABSORBED, 1, 1).moved == 1152
    assert latents.cost(ABSORBED, 1, 1).kept == latents.grouped(2.25, 1, 1).kept
    values = {"algorithm": "split_kv", "seq": 1, "seq_kv": 8192, "heads": 128, "kv_heads": 1, "splits": 8}
    values |= {"head_dim": 576, "head_dim_v": 512, "latent": True, "dtype": "bfloat16"}
    requested = simulate(Experiment.of(**values)).traffic.requested
    read = sum(amount for tensor, amount in requested.read.items() if tensor.name in "KV")
    blocks = read / latents.cost(ABSORBED, 1, 8192).moved  # of rows, each of which reads the latent
    assert blocks == int(blocks) >= 1


@pytest.mark.parametrize("keys", [4096, 2**20])
def test_from_so_many_queries_on_projecting_takes_fewer_flops(keys):
    at = latents.projecting_pays_from(keys=keys)
    for queries in (int(at), int(at) + 1):
        projected, absorbed = (latents.cost(way, queries, keys).flops for way in (PROJECTED, ABSORBED))
        assert (projected < absorbed) == (queries > at)
    assert latents.projecting_pays_from() == pytest.approx(512 * 256 / 768)


@pytest.mark.parametrize("key", ["h200", "a100", "b200"])
def test_grouped_heads_take_as_long_where_it_is_said(key):
    gpu, keys = GPUS[key], 2**26
    groups = latents.groups_as_fast(gpu)
    latent = latents.cost(ABSORBED, 1, keys).seconds(gpu)
    assert latents.grouped(groups, 1, keys).seconds(gpu) == pytest.approx(latent, rel=1e-4)
    assert groups >= 2.25


def test_a_rotation_between_them_cannot_be_absorbed():
    assert latents.rotary_apart(SIZES, 2, 60) > 0.3
    draw = np.random.default_rng(0).standard_normal
    q, k = (latents.rotated(np.tile(vector, (1, 3, 1)), 10000.0)[0] for vector in np.eye(10)[[0, 3]])
    assert q[0] @ k[1] == pytest.approx(q[1] @ k[2])  # by the distance alone
    queries, up, cached = draw((2, 3, 10)), draw((3, 40, 10)), draw((60, 40))
    lifted, made = np.einsum("qhd,hcd->qhc", queries, up), np.einsum("nc,hcd->nhd", cached, up)
    left, right = np.einsum("qhc,nc->hqn", lifted, cached), np.einsum("qhd,nhd->hqn", queries, made)
    np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-4)  # without one, absorbing changes nothing


def drawn(tokens: int, dim: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """q, k and v [tokens, dim] of unit spread, q scaled, and the logarithms of gates [tokens]: float32."""
    generator = np.random.Generator(np.random.PCG64(seed))
    q, k, v = (generator.standard_normal((tokens, dim), np.float32) for _ in range(3))
    gates = generator.random(tokens, np.float32) * np.float32(0.2)
    return q * np.float32(dim**-0.5), k, v, -gates


@pytest.mark.parametrize(("tokens", "dim", "chunk"), [(1, 8, 16), (64, 16, 16), (100, 24, 32), (37, 5, 64)])
def test_chunks_are_the_recurrence_and_move_every_tensor_once(tokens, dim, chunk):
    given = drawn(tokens, dim)
    found, _ = linear.execute(*given, chunk)
    np.testing.assert_allclose(found.arrays["O"], linear.recurrent(*given), rtol=2e-3, atol=2e-4)
    q, k, v, gates = (each.astype(float) for each in given)
    dense = np.zeros((tokens, dim))  # every pair of tokens by itself
    for query in range(tokens):
        for key in range(query + 1):
            dense[query] += q[query] @ k[key] * np.exp(gates[key + 1 : query + 1].sum()) * v[key]
    np.testing.assert_allclose(found.arrays["O"], dense, rtol=2e-3, atol=2e-4)
    read = {name: amount for name, amount in found.read.items() if amount}
    assert read == dict.fromkeys("QKV", 2 * tokens * dim) | {"gates": 2 * tokens}
    assert found.written["O"] == 2 * tokens * dim
    moved = sum(found.read.values()) + sum(found.written.values())
    assert moved == linear.prompt(tokens, True, dim, chunk).moved


def test_a_gate_of_one_forgets_nothing_and_of_nothing_all():
    q, k, v, gates = drawn(40, 8)
    _, kept = linear.execute(q, k, v, 0 * gates, 8)
    np.testing.assert_allclose(kept, k.T.astype(float) @ v.astype(float), rtol=1e-3, atol=1e-4)
    gone, _ = linear.execute(q, k, v, 0 * gates - 60, 8)
    np.testing.assert_allclose(gone.arrays["O"], (q * k).sum(1)[:, None] * v, rtol=2e-3, atol=1e-4)


def test_flops_and_bytes_are_those_of_the_products():
    chunk = 2 * (64 * 64 * 128 + 64 * 64 * 128 + 64 * 128 * 128 + 128 * 128 * 64)
    assert linear.prompt(200, True).flops == 4 * chunk  # of 64: Q K^T and its product with V, Q S, K^T V
    assert linear.prompt(200, False).flops == sum(4 * 128 * (query + 1) for query in range(200))
    assert linear.decoded(5000, True).kept == linear.decoded(9, True).kept == 128 * 128 * 4
    assert linear.decoded(5000, False).moved == 5000 * 128 * 2 * 2
    assert linear.decoded(5000, False, 8).moved * 8 == linear.decoded(5000, False).moved


@pytest.mark.parametrize("key", ["h200", "b200"])
@pytest.mark.parametrize("group", [None, 1, 8])
def test_they_meet_where_it_is_said_and_not_before(key, group):
    gpu, at = GPUS[key], linear.meets(GPUS[key], group)

    def faster(tokens):
        cost = linear.prompt if group is None else lambda *given: linear.decoded(*given, group)
        return cost(tokens, True).seconds(gpu) < cost(tokens, False).seconds(gpu)

    assert [faster(at - 1), faster(at)] == [False, True]
    if group:  # the state of 128 x 128 in 4 bytes, read and written, over K and V of a token
        assert at == 2 * 128 * 128 * 4 * group // (2 * 128 * 2) + 1


def test_a_state_gives_back_less_the_more_it_holds():
    state, attention = ([*each.values()] for each in linear.recalled().values())
    assert state == sorted(state)
    for count, off in list(zip(linear.STORED, state, strict=True))[3:]:
        assert off == pytest.approx(np.sqrt((count - 1) / 128), rel=0.2)  # as random keys overlap by 1 in √d
    assert max(attention) < 0.1


def dense(numbers):
    """[heads, keys, keys] float64."""
    scores = np.einsum("hqd,kd->hqk", numbers.q.astype(float), numbers.k.astype(float))
    return softmax(np.where(np.tri(len(numbers.k), dtype=bool), scores, -np.inf))


def test_lost_weight_is_what_is_not_visited():
    numbers = selected.subject(SMALL)
    whole, rows = dense(numbers), numbers.rows
    for rule in RULES:
        found = selected.lost(SMALL, rule)
        assert list(found) == [3, 6, 12, 24, 48, 96]
        for keys, share in found.items():
            visited = selected.chosen(numbers, rule, keys)
            assert share == pytest.approx(1 - (whole[:, rows] * visited).sum(2).mean(), abs=1e-6)
        assert found[96] == pytest.approx(0, abs=1e-9)
        assert found[12] >= selected.lost(SMALL, TOKENS)[12] - 1e-9  # the best that there is
    assert selected.lost(SMALL, BEST)[12] <= selected.lost(SMALL, MEANS)[12]


def test_a_choice_has_the_first_block_and_the_own_and_the_means_of_most_weight():
    """NSA, equations 8 and 10: a softmax over one key a block, added up over the heads of the group."""
    numbers = selected.subject(SMALL)
    for rule in (MEANS, BEST):
        for row, seen in zip(numbers.rows, selected.chosen(numbers, rule, 6), strict=True):
            assert {int(key) // 3 for key in np.flatnonzero(seen)} == {0, int(row) // 3}
    assert not (selected.chosen(numbers, INDEXER, 96) & (np.arange(96) > numbers.rows[:, None])).any()
    means = np.array([numbers.k[3 * block : 3 * block + 3].mean(0) for block in range(21)], float)
    total = sum(softmax(means @ q[numbers.rows[20]]) for q in numbers.q.astype(float))
    found = selected.importance(numbers, MEANS)[20]
    np.testing.assert_allclose(found[1:20], total[1:20], rtol=1e-5)
    assert np.isinf(found[[0, 20, 21]]).all()


def test_tokens_read_by_neighbours_together_are_those_that_any_of_them_names():
    numbers = selected.subject(SMALL)
    every = replace(numbers, every=True)
    visited = selected.chosen(every, MEANS, 12)
    named = [
        {int(key) // 3 for query in range(first, first + 32) for key in np.flatnonzero(visited[query])}
        for first in (0, 32, 64)
    ]
    assert selected.shared(numbers, 12, 32) == (pytest.approx(np.mean([len(each) for each in named])), 4)


@pytest.mark.parametrize("length", [64, 1000, 1024, 3000])
def test_what_moves_is_counted_query_by_query(length):
    read = {ALL: 0, BEST: 0, MEANS: 0}
    scores = 0
    for query in range(length):
        scores += selected.GROUP * (query + 1)
        own = query % 64 + 1
        chosen = min(query // 64, 15) * 64 + own
        read[BEST] += chosen
        read[MEANS] += chosen + (query + 1) // 64 + min(512, query + 1)
        if query % 128 == 0:  # a tile begins, of each head: up to the last key that one of its queries sees
            read[ALL] += selected.GROUP * min(length, query + 128)
    assert {way: selected.moved(way, length)["read"] * length for way in read} == pytest.approx(read)
    assert selected.moved(ALL, length)["scores"] * length == pytest.approx(scores)
    assert selected.moved(BEST, length)["scores"] * length == pytest.approx(16 * read[BEST])


def test_an_indexer_scores_every_key_and_attention_few():
    whole, index, few = selected.dsa_flops(131_072)
    assert whole == 131_072 * 2 * 128 * (512 + 64 + 512)
    assert index == 131_072 * 2 * 64 * 128
    assert few == 2048 * 2 * 128 * 1088
    assert selected.dsa_flops(1000)[0] == selected.dsa_flops(1000)[2]


def test_a_files_heads_choose_as_their_own_key_head_has_it():
    draw = np.random.Generator(np.random.PCG64(3)).standard_normal
    heads = Heads.of(draw((6, 64, 8)), draw((2, 64, 8)), draw((2, 64, 8)))
    values = heads.values() | {"causal": True, "inputs": f"{keep(heads)}:4", "dtype": "float32"}
    numbers = selected.subject(Experiment.of(**values))
    assert numbers.real
    assert len(numbers.q) == 2  # heads 4 and 5 share key head 1
    np.testing.assert_allclose(numbers.k, heads.k[1], rtol=1e-6)
    q, _, _ = make_inputs(Experiment.of(**values).problem, heads=1)
    np.testing.assert_allclose(numbers.q[0], q[0] * 8**-0.5, rtol=1e-6)


def test_a_models_heads_are_those_that_it_runs_on_its_passage():
    """Each by the model's own weights: half of a row's weight, and what a window leaves out."""
    model = small()
    passage = json.loads(CARD.read_text())["passage"]
    halves, windows = [], []
    for layer, (q, k, _) in enumerate(model.run([BEGIN, *passage])[1]):
        if model.shape.window_of(layer) is None:
            rows = weights_of(q, k, None)[:, 1:, 1:]  # 512 of 513 tokens
            rows = rows / rows.sum(2, keepdims=True)
            for row in rows[:, -1]:
                halves.append(next(n for n in range(1, 513) if np.sort(row)[::-1][:n].sum() >= 0.5))
            ends = np.arange(15, 512, 16)
            windows += [1 - rows[:, end, max(0, end - 127) : end + 1].sum(1).mean() for end in ends]
    assert selected.half_weight() == (pytest.approx(np.mean(halves)), 512)
    assert selected.lost(None, WINDOW)[128] == pytest.approx(np.mean(windows), abs=1e-5)


def test_an_indexer_adds_up_positive_products_of_heads_in_eight_bits():
    numbers = selected.subject(SMALL)
    project = np.random.Generator(np.random.PCG64(7)).standard_normal((16, 16)) / 4
    found, rows = selected.importance(numbers, INDEXER), numbers.rows
    for at, key in ((5, 0), (20, 33), (31, 95)):
        total = 0.0
        small_key = E4M3.rounded((numbers.k[key] @ project).astype(np.float32)).astype(float)
        for q in numbers.q:
            small = E4M3.rounded((q[rows[at]] @ project * 4).astype(np.float32)).astype(float)
            total += max(0.0, float(small @ small_key))
        assert found[at, key] == pytest.approx(total)
    assert found[:, 0].min() >= 0

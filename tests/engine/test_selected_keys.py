"""Chosen keys: the same O as float64's over the same keys, and every count made again by plain loops."""

import json
from dataclasses import replace

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.problem.heads import Heads, keep
from engine.problem.inputs import make_inputs
from engine.small.model import small, weights_of
from engine.small.tokens import BEGIN
from engine.studies import selected_keys as studies
from engine.studies.beyond import CARD
from engine.studies.block_scales import E4M3
from engine.studies.selected_keys import ALL, BEST, INDEXER, MEANS, RULES, TOKENS, WINDOW

SMALL = Experiment.of(seq=96, head_dim=16, heads=4, kv_heads=2, causal=True)


def dense(numbers):
    """[heads, keys, keys] float64, a query at a time."""
    found = np.zeros((len(numbers.q), len(numbers.k), len(numbers.k)))
    for head, query in np.ndindex(found.shape[:2]):
        scores = numbers.k[: query + 1].astype(float) @ numbers.q[head, query].astype(float)
        found[head, query, : query + 1] = np.exp(scores - scores.max())
    return found / found.sum(2, keepdims=True)


@pytest.mark.parametrize("rule", [WINDOW, MEANS, BEST])
@pytest.mark.parametrize("keys", [3, 12, 96])
def test_visited_blocks_are_attention_over_them_and_move_what_a_loop_counts(rule, keys):
    numbers = studies.subject(SMALL)
    every = replace(numbers, every=True)
    visited = studies.chosen(every, rule, keys)
    found = studies.execute(numbers.q, numbers.k, numbers.v, studies.named(visited, numbers.block), 3)
    weights = dense(numbers) * visited
    exact = (weights / weights.sum(2, keepdims=True)) @ numbers.v.astype(float)
    np.testing.assert_allclose(found.out, exact, rtol=2e-4, atol=2e-5)
    read = 0
    for query in range(96):
        for key in range(96):
            read += bool(visited[query, key])
    assert found.read == {"K": 2 * 16 * read, "V": 2 * 16 * read, "Q": 2 * 16 * 96 * 2}


def test_lost_weight_is_what_is_not_visited():
    numbers = studies.subject(SMALL)
    whole, rows = dense(numbers), numbers.rows
    for rule in RULES:
        found = studies.lost(SMALL, rule)
        assert list(found) == [3, 6, 12, 24, 48, 96]
        for keys, share in found.items():
            visited = studies.chosen(numbers, rule, keys)
            assert share == pytest.approx(1 - (whole[:, rows] * visited).sum(2).mean(), abs=1e-6)
        assert found[96] == pytest.approx(0, abs=1e-9)
        assert found[12] >= studies.lost(SMALL, TOKENS)[12] - 1e-9  # the best that there is
    assert studies.lost(SMALL, BEST)[12] <= studies.lost(SMALL, MEANS)[12]


def test_a_choice_has_the_first_block_and_the_own_and_none_behind_the_query():
    numbers = studies.subject(SMALL)
    for rule in (MEANS, BEST):
        visited = studies.chosen(numbers, rule, 6)
        for row, seen in zip(numbers.rows, visited, strict=True):
            blocks = {int(key) // 3 for key in np.flatnonzero(seen)}
            assert blocks == {0, int(row) // 3}
    assert not (studies.chosen(numbers, INDEXER, 96) & (np.arange(96) > numbers.rows[:, None])).any()


def test_the_means_are_chosen_by_the_weights_on_compressed_keys():
    """NSA, equations 8 and 10: a softmax over one key a block, added up over the heads of the group."""
    numbers = studies.subject(SMALL)
    row, at = numbers.rows[20], 20
    means = [numbers.k[3 * block : 3 * block + 3].mean(0) for block in range(21)]
    total = sum(
        np.exp(s := np.array(means, float) @ q[row]) / np.exp(s).sum() for q in numbers.q.astype(float)
    )
    found = studies.importance(numbers, MEANS)[at]
    np.testing.assert_allclose(found[1:20], total[1:20], rtol=1e-5)
    assert np.isinf(found[[0, 20, 21]]).all()


def test_tokens_read_by_neighbours_together_are_those_that_any_of_them_names():
    numbers = studies.subject(SMALL)
    every = replace(numbers, every=True)
    visited = studies.chosen(every, MEANS, 12)
    named = [
        {int(key) // 3 for query in range(first, first + 32) for key in np.flatnonzero(visited[query])}
        for first in (0, 32, 64)
    ]
    assert studies.shared(numbers, 12, 32) == (pytest.approx(np.mean([len(each) for each in named])), 4)


@pytest.mark.parametrize("length", [64, 1000, 1024, 3000])
def test_what_moves_is_counted_query_by_query(length):
    read = {ALL: 0, BEST: 0, MEANS: 0}
    scores = 0
    for query in range(length):
        scores += studies.GROUP * (query + 1)
        own = query % 64 + 1
        chosen = min(query // 64, 15) * 64 + own
        read[BEST] += chosen
        read[MEANS] += chosen + (query + 1) // 64 + min(512, query + 1)
        if query % 128 == 0:  # a tile begins, of each head: up to the last key that one of its queries sees
            read[ALL] += studies.GROUP * min(length, query + 128)
    assert {way: studies.moved(way, length)["read"] * length for way in read} == pytest.approx(read)
    assert studies.moved(ALL, length)["scores"] * length == pytest.approx(scores)
    assert studies.moved(BEST, length)["scores"] * length == pytest.approx(16 * read[BEST])


def test_an_indexer_scores_every_key_and_attention_few():
    whole, index, few = studies.dsa_flops(131_072)
    assert whole == 131_072 * 2 * 128 * (512 + 64 + 512)
    assert index == 131_072 * 2 * 64 * 128
    assert few == 2048 * 2 * 128 * 1088
    assert studies.dsa_flops(1000)[0] == studies.dsa_flops(1000)[2]


def test_a_files_heads_choose_as_their_own_key_head_has_it():
    draw = np.random.Generator(np.random.PCG64(3)).standard_normal
    heads = Heads.of(draw((6, 64, 8)), draw((2, 64, 8)), draw((2, 64, 8)))
    values = heads.values() | {"causal": True, "inputs": f"{keep(heads)}:4", "dtype": "float32"}
    numbers = studies.subject(Experiment.of(**values))
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
    assert studies.half_weight() == (pytest.approx(np.mean(halves)), 512)
    assert studies.lost(None, WINDOW)[128] == pytest.approx(np.mean(windows), abs=1e-5)


def test_an_indexer_adds_up_positive_products_of_heads_in_eight_bits():
    numbers = studies.subject(SMALL)
    project = np.random.Generator(np.random.PCG64(7)).standard_normal((16, 16)) / 4
    found, rows = studies.importance(numbers, INDEXER), numbers.rows
    for at, key in ((5, 0), (20, 33), (31, 95)):
        total = 0.0
        small_key = E4M3.rounded((numbers.k[key] @ project).astype(np.float32)).astype(float)
        for q in numbers.q:
            small = E4M3.rounded((q[rows[at]] @ project * 4).astype(np.float32)).astype(float)
            total += max(0.0, float(small @ small_key))
        assert found[at, key] == pytest.approx(total)
    assert found[:, 0].min() >= 0

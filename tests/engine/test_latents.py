"""A latent three ways: the same O as float64's, and bytes, FLOPs and crossings counted by other means."""

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.problem.hardware import GPUS
from engine.studies import latents
from engine.studies.latents import ABSORBED, HEADS, PROJECTED, WAYS, Numbers, Sizes

SMALL = Sizes(heads=3, latent=40, rotary=6, plain=10, v_dim=14)


def dense(numbers):
    """float64, a head and a query at a time, K and V of every head laid out whole."""
    each = {name: array.astype(float) for name, array in vars(numbers).items()}
    out = np.zeros((*numbers.q.shape[:2], numbers.up_v.shape[2]))
    for query, head in np.ndindex(*numbers.q.shape[:2]):
        k = np.c_[each["latents"] @ each["up_k"][head], each["rotated"]]
        scores = k @ np.r_[each["q"][query, head], each["q_rotated"][query, head]] * 16**-0.5
        weights = np.exp(scores - scores.max())
        out[query, head] = weights / weights.sum() @ (each["latents"] @ each["up_v"][head])
    return out


@pytest.mark.parametrize(("queries", "keys", "block"), [(1, 100, 32), (5, 64, 64), (3, 17, 5)])
def test_all_three_ways_are_attention_and_move_what_is_counted(queries, keys, block):
    numbers = Numbers.drawn(queries, keys, SMALL)
    moved = {}
    for way in WAYS:
        found = latents.execute(way, numbers, block)
        np.testing.assert_allclose(found.out, dense(numbers), rtol=2e-4, atol=2e-5)
        cost = latents.cost(way, queries, keys, SMALL)
        moved[way] = sum(found.read.values()), sum(found.written.values())
        assert sum(moved[way]) == cost.moved
    # token by token: K of 16 and V of 14 numbers a head; 46 of a latent; 24 made of it and 6 rotated ones
    assert moved[HEADS] == (sum(2 * 3 * (16 + 14) for _ in range(keys)), 0)
    assert moved[ABSORBED] == (keys * 46 * 2, 0)
    assert moved[PROJECTED] == (keys * 2 * (46 + 3 * 24 + 6), keys * 2 * 3 * 24)


def test_flops_are_those_of_the_products_that_are_made(monkeypatch):
    """Those of attention by the shapes that are multiplied; of lifting head by head."""
    counted = []
    queries, keys = 4, 48
    numbers = Numbers.drawn(queries, keys, SMALL)
    plain = latents.streamed

    def streamed(q, scale, tiles, v_dim):
        k, v = (np.concatenate(each) for each in zip(*((k, v) for k, v, _ in tiles), strict=True))
        counted.append(2 * q.size * len(k) + 2 * len(q) * v.size)
        return plain(q, scale, [(k, v, True)], v_dim)

    monkeypatch.setattr(latents, "streamed", streamed)
    extra = {
        HEADS: 0,
        PROJECTED: sum(2 * keys * 40 * wide for _ in range(3) for wide in (10, 14)),
        ABSORBED: sum(2 * queries * 40 * wide for _ in range(3) for wide in (10, 14)),
    }
    for way in WAYS:
        counted.clear()
        latents.execute(way, numbers, keys)
        assert sum(counted) + extra[way] == latents.cost(way, queries, keys, SMALL).flops


def test_the_cache_is_that_of_published_figures():
    """DeepSeek-V2, section 2.1.4: equal to grouped heads with 2.25 groups; 576 numbers of a token."""
    assert Sizes().groups == 2.25
    assert latents.cost(ABSORBED, 1, 1).moved == 1152
    assert latents.cost(ABSORBED, 1, 1).kept == latents.grouped(2.25, 1, 1).kept


def test_counted_by_the_schedule_of_split_keys_too():
    """The latent's bytes as the instrumented scheduler requests them for 128 heads on one key head."""
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
    assert latents.rotary_apart(SMALL, 2, 60) > 0.3
    drawn = Numbers.drawn(2, 60, SMALL)
    q, k = (latents.rotated(np.tile(vector, (1, 3, 1)), 10000.0)[0] for vector in np.eye(10)[[0, 3]])
    assert q[0] @ k[1] == pytest.approx(q[1] @ k[2])  # by the distance alone
    lifted = np.einsum("qhd,hcd->qhc", drawn.q, drawn.up_k)
    made = np.einsum("nc,hcd->nhd", drawn.latents, drawn.up_k)
    left, right = np.einsum("qhc,nc->hqn", lifted, drawn.latents), np.einsum("qhd,nhd->hqn", drawn.q, made)
    np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-4)  # without one, absorbing changes nothing

"""The score that the zoom ends at, held against plain loops, and the warps that share its tile."""

import json
import math

import numpy as np
import pytest

from app.zoom import payload
from engine.experiment import Experiment
from engine.problem.inputs import make_inputs
from engine.studies.zoom import warp_pieces, zoom

CALLS = (
    {"seq": 512, "head_dim": 64},
    {"seq": 300, "head_dim": 32, "block_q": 128, "block_kv": 64, "causal": True},
    {"algorithm": "flash3", "seq": 512, "head_dim": 128, "block_q": 128, "block_kv": 128, "causal": True},
    {"algorithm": "standard", "seq": 256, "head_dim": 16},
    {"algorithm": "split_kv", "seq": 1, "seq_kv": 700, "head_dim": 64, "splits": 4, "block_q": 16},
    {"seq": 300, "seq_kv": 17, "causal": True, "block_q": 16},
    {"seq": 256, "softcap": 5, "sinks": True, "slopes": True},
)


def in_a_loop(experiment: Experiment, row: int, key_block: int):
    """m, l and alpha of a row before and after a key block, one score after another in float64."""
    problem, width = experiment.problem, experiment.tiling.block_kv
    q, k, _ = (each[0].astype(float) for each in make_inputs(problem))
    order = range(-(-problem.seq_kv // width))
    m, total = -math.inf, 0.0
    for j in reversed(order) if experiment.algorithm == "flash3" else order:
        keys = range(j * width, min((j + 1) * width, problem.seq_kv))
        last = row + problem.seq_kv - problem.seq_q if problem.mask.causal else problem.seq_kv
        scores = [sum(q[row] * k[key]) / math.sqrt(problem.head_dim) for key in keys if key <= last]
        if not scores:
            continue
        before, m_before = total, m
        m = max(m, *scores)
        alpha = math.exp(m_before - m)
        total = alpha * total + sum(math.exp(score - m) for score in scores)
        if j == key_block:
            return (m_before, m), (before, total), alpha, max(scores)
    raise AssertionError("the row does not see that block")


@pytest.mark.parametrize("values", CALLS, ids=lambda values: "-".join(map(str, values.values())))
def test_the_score_and_its_row_are_those_of_a_plain_loop(values):
    found = zoom(Experiment.of(**values))
    one = found.experiment.changed(heads=1, kv_heads=1)
    m, total, alpha, largest = in_a_loop(one, found.row, found.tile[1])
    assert (found.m, found.l, found.alpha) == (
        pytest.approx(m, rel=1e-5),
        pytest.approx(total, rel=1e-5),
        pytest.approx(alpha, rel=1e-4),
    )
    assert found.score == pytest.approx(largest, rel=1e-5)
    assert found.score == pytest.approx(float(found.q @ found.k) / math.sqrt(len(found.q)), rel=1e-5)
    i, j = found.tile
    assert (
        found.scores[found.row - i * one.tiling.block_q, found.key - j * one.tiling.block_kv] == found.score
    )


@pytest.mark.parametrize(("rows", "keys", "warps"), [(128, 64, 8), (64, 64, 4), (256, 128, 8), (16, 64, 4)])
def test_warps_share_a_tile_out_and_none_has_a_score_twice(rows, keys, warps):
    taken = np.zeros((rows, keys), int)
    pieces = warp_pieces(rows, keys, warps)
    for again in range(0, rows, int(pieces[-1, 1])):
        for low, stop, first, last in pieces:
            taken[low + again : stop + again, first:last] += 1
    assert (taken == 1).all()


def test_every_depth_lies_within_the_one_before_and_its_numbers_are_the_scenarios():
    experiment = Experiment.of(seq=1024, head_dim=128, heads=4, block_q=128, block_kv=64, causal=True)
    packed = payload(experiment)
    header = json.loads(packed[4 : 4 + int.from_bytes(packed[:4], "little")])
    for outer, inner in zip(header["levels"], header["levels"][1:], strict=False):
        for side in "xy":
            assert outer[side][0] - 1e-9 <= inner[side][0] < inner[side][1] <= outer[side][1] + 1e-9
    told = {name: words for frame in header["frames"] for name, words, _ in frame["facts"]}
    assert told["scores"] == "4,194,304"  # 4 heads of 1024²
    assert told["tiles visited"] == "72 of 128"  # 2 + 4 + ... + 16 in 8 rows of 16
    assert told["thread blocks"] == "32"
    assert (told["scores of a tile"], told["its scores"], told["scores of a thread"]) == (
        "8,192",
        "1,024",
        "32",
    )
    assert told["its rows of Q"] == told["its rows of K and V"] == "32.8 kB"

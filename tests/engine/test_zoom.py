"""The score that the zoom ends at, held against plain loops, and the warps that share its tile."""

import json
import math

import numpy as np
import pytest

from app.zoom import payload
from engine.experiment import Experiment
from engine.studies.zoom import WARPS, partitions, warp_pieces, zoom
from tests.engine.strategies import one_head, online

CALLS = (
    {"seq": 512, "head_dim": 64},
    {"seq": 300, "head_dim": 32, "block_q": 128, "block_kv": 64, "causal": True},
    {"algorithm": "flash3", "seq": 512, "head_dim": 128, "block_q": 128, "block_kv": 128, "causal": True},
    {"algorithm": "standard", "seq": 256, "head_dim": 16},
    {"algorithm": "split_kv", "seq": 1, "seq_kv": 700, "head_dim": 64, "splits": 4, "block_q": 16},
    {"seq": 300, "seq_kv": 17, "causal": True, "block_q": 16},
    {"seq": 256, "softcap": 5, "sinks": True, "slopes": True},
)


@pytest.mark.parametrize("values", CALLS, ids=lambda values: "-".join(map(str, values.values())))
def test_the_score_and_its_row_are_those_of_a_plain_loop(values):
    found = zoom(Experiment.of(**values))
    one = found.experiment.changed(heads=1, kv_heads=1)
    i, j = found.tile
    visit = online(one, one_head(one), found.row)[j]
    assert (found.m, found.l) == (
        pytest.approx((visit.before, visit.m), rel=1e-5),
        pytest.approx((visit.sum_before, visit.sum), rel=1e-5),
    )
    assert found.alpha == pytest.approx(visit.alpha, rel=1e-4)
    assert found.score == pytest.approx(visit.largest, rel=1e-5)
    assert found.score == pytest.approx(float(found.q @ found.k) / math.sqrt(len(found.q)), rel=1e-5)
    at = found.row - i * one.tiling.block_q, found.key - j * one.tiling.block_kv
    assert found.scores[at] == found.score


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


@pytest.mark.parametrize(("rows", "keys", "dim"), [(64, 64, 64), (128, 64, 128), (128, 32, 40), (16, 16, 8)])
def test_only_warps_that_cut_the_keys_exchange_what_each_leaves_for_every_other(rows, keys, dim):
    found = partitions(Experiment.of(seq=512, head_dim=dim, block_q=rows, block_kv=keys))
    shares, passed = np.array_split(np.zeros((rows, dim + 1), np.float32), WARPS), [0, 0]
    for writer, reader in np.ndindex(WARPS, WARPS):
        if writer != reader:  # its maxima of all rows; its part of O and l of the reader's
            passed[0] += 2 * np.zeros(rows, np.float32).nbytes
            passed[1] += 2 * shares[reader].nbytes
    assert all(each.visits == -(-512 // rows) * -(-512 // keys) for each in found.values())
    assert found["keys"].passed == (0, 0, *[passed[0]] * 3, sum(passed))
    assert found["keys"].waits[-1] == 2
    assert not any((*found["queries"].passed, *found["queries"].waits))

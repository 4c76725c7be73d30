"""What comes from L2: the model of L1 against an H200's counters of calls that are in no recording.

Counted with Nsight Compute at torch 2.11, Triton 3.6, float16: l1tex__m_xbar2l1tex_read_bytes.sum, and of
what is asked for what `engine.measuring.counters` reads.
"""

from __future__ import annotations

import math
import random

import pytest

from engine import Experiment, simulate
from engine.model.l1 import SECTOR, _beyond, _followed, l1_bytes, requested_by_warps
from engine.model.launch import launch
from engine.problem.hardware import GPUS, KIB
from engine.schedule.step import Tensor

# flash1, no mask: heads, queries and keys, head dim, block rows: the share of rows that come back found in L1
SHARES = [
    (16, 256, 64, 64, 64, 1.0),
    (8, 390, 64, 64, 64, 0.989),
    (16, 512, 64, 64, 64, 0.865),
    (16, 512, 64, 64, 64, 0.794),  # the same call in another session; in a third 0.733
    (8, 601, 64, 64, 64, 0.638),
    (8, 777, 64, 64, 64, 0.350),
    (16, 1152, 64, 64, 64, 0.132),
    (16, 2048, 64, 64, 64, 0.002),
    (264, 384, 64, 64, 64, 0.351),
    (200, 512, 64, 64, 64, 0.411),
    (300, 512, 64, 64, 64, 0.309),  # 264 in pairs on an SM, then 36 alone
    (16, 768, 64, 128, 32, 0.900),
    (16, 768, 64, 32, 32, 0.208),
    (16, 384, 128, 64, 64, 0.231),
    (16, 512, 128, 128, 64, 0.0),
]
# the same of causal calls in 64 x 64: tokens
CAUSAL = {1024: 0.350, 1536: 0.190, 2048: 0.107, 4096: 0.026}
# flash1: head dim, block rows: KiB of shared memory that the driver sets aside
CARVED = {
    (64, 64, 64): 100, (64, 32, 32): 132, (64, 64, 32): 132, (64, 32, 64): 132, (64, 128, 64): 64,
    (64, 128, 32): 32, (64, 64, 128): 132, (128, 64, 64): 132, (128, 64, 32): 132, (128, 32, 64): 132,
    (128, 128, 64): 228, (32, 64, 64): 100, (32, 32, 32): 64, (256, 32, 32): 132,
}  # fmt: skip
# flash2 in its own blocks, 8 x 16 heads: head dim, queries, keys, causal, window
OWN = {
    (64, 65, 65, False, None): 9_453_568, (64, 300, 300, False, None): 67_829_760,
    (64, 100, 1000, False, None): 68_747_264, (64, 1000, 1000, True, 300): 213_516_288,
    (128, 65, 65, False, None): 18_907_136, (128, 1100, 1100, False, None): 715_522_048,
    (128, 1000, 1000, True, None): 603_193_344, (256, 300, 300, False, None): 145_489_920,
}  # fmt: skip
# unfused, d 128 in 128 x 64: heads, tokens: bytes of the kernels of S, of the softmax and of O
UNFUSED = {
    (16, 1000): (98_142_464, 32_000_000, 68_160_320),
    (16, 1001): (98_245_248, 32_288_288, 71_465_376),
    (16, 1008): (98_892_032, 32_514_048, 65_544_192),
    (8, 2050): (206_606_208, 67_699_136, 151_792_928),
    (4, 6144): (854_592_384, 301_989_888, 603_979_776),
}
# what warps ask for, by the counters of loads, of copies into shared memory, and of TMA: algorithm, heads and
# those of keys, tokens, head dim, blocks, causal. Of rows of fewer than 64 all four warps ask for m and l
ASKED = {
    ("flash1", 64, 64, 411, 64, 64, 32, False): (97_009_152, 0, 0),
    ("flash1", 8, 8, 329, 64, 32, 64, True): (3_010_048, 0, 0),
    ("flash1", 8, 8, 2034, 128, 32, 64, True): (153_444_352, 0, 0),
    ("flash1", 2, 2, 773, 64, 32, 32, False): (11_526_976, 0, 0),
    ("flash2", 16, 16, 776, 96, 64, 64, True): (2_383_872, 35_438_592, 0),
    ("flash2", 1, 1, 22_352, 256, 64, 64, True): (11_444_224, 4_025_499_648, 0),  # what spills is not in it
    ("flash2", 1, 1, 65_871, 256, 128, 128, True): (17_449_212_416, 0, 0),  # nor here
    ("flash3", 16, 4, 3801, 128, 128, 64, False): (0, 0, 959_447_040),
    ("standard", 32, 32, 1861, 96, 128, 64, False): (957_834_368, 171_509_760, 0),
}


def of(algorithm: str, hardware: str = "h200", **values):
    return simulate(Experiment.of(algorithm=algorithm, hardware=hardware, **values))


@pytest.mark.parametrize(("heads", "seq", "head_dim", "rows", "keys", "counted"), SHARES)
def test_rows_that_come_back_are_found_as_often_as_the_chip_finds_them(
    heads, seq, head_dim, rows, keys, counted
):
    blocks = {"block_q": rows, "block_kv": keys}
    found = of("flash1", heads=heads, seq=seq, head_dim=head_dim, **blocks)
    again = found.traffic.requested.total_read - found.traffic.compulsory.total_read
    assert (found.traffic.requested.total_read - found.from_l2) / again == pytest.approx(counted, abs=0.08)


@pytest.mark.parametrize(("seq", "counted"), CAUSAL.items())
def test_later_key_blocks_walk_over_fewer_rows_which_are_found_more_often(seq, counted):
    found = of("flash1", seq=seq, causal=True)
    again = found.traffic.requested.total_read - found.traffic.compulsory.total_read
    assert (found.traffic.requested.total_read - found.from_l2) / again == pytest.approx(counted, abs=0.03)


def test_what_is_walked_over_lasts_as_in_a_cache_that_replaces_at_random():
    """A twin that holds lines; the share of a cyclic walk solves h = exp(-(1 - h) W / C)."""
    lines, draw = 400, random.Random(1)
    for walk in (300, 500, 800, 1200):
        places, where, hits = [None] * lines, {}, 0
        for step in range(24 * walk):
            line = step % walk
            if line in where:
                hits += step >= 12 * walk
                continue
            free = len(where) if len(where) < lines else draw.randrange(lines)
            where.pop(places[free], None)
            places[free], where[line] = line, free
        *_, modelled = _followed([(0, walk)] * 24, 1, 1, lines, 0.0)
        share = modelled / walk
        assert share == pytest.approx(hits / 12 / walk, abs=0.03)
        assert share == pytest.approx(math.exp(-(1 - share) * walk / lines), abs=0.02)


@pytest.mark.parametrize(("taken", "carved"), CARVED.items())
def test_shared_memory_leaves_l1_what_the_driver_leaves_it(taken, carved):
    head_dim, rows, keys = taken
    run = launch(
        Experiment.of(algorithm="flash1", head_dim=head_dim, block_q=rows, block_kv=keys, hardware="h200")
    )
    assert l1_bytes(run, run.kernels[0]) == (256 - carved) * KIB


@pytest.mark.parametrize(("taken", "counted"), OWN.items())
def test_flash2_asks_for_the_whole_boxes_of_its_own_tiling(taken, counted):
    """To the byte, over the end of keys and queries: K and V come by TMA, Q does not."""
    head_dim, seq, seq_kv, causal, window = taken
    values = {"head_dim": head_dim, "seq": seq, "seq_kv": seq_kv, "causal": causal, "window": window}
    own = Experiment.of(batch=8, heads=16, hardware="h200", **values).in_own_tiling()
    found = simulate(own)
    assert found.from_l2 == found.traffic.requested.total_read == counted
    visits = found.traffic.tiles_visited
    assert counted == 128 * seq * head_dim * 2 + visits * 2 * own.tiling.block_kv * head_dim * 2


@pytest.mark.parametrize(("taken", "counted"), ASKED.items())
def test_warps_ask_for_what_the_schedule_says_whoever_answers(taken, counted):
    """To the byte: 6.9% more than the schedule where four warps ask for m and l of rows in blocks of 32."""
    algorithm, heads, kv_heads, seq, head_dim, block_q, block_kv, causal = taken
    values = {"heads": heads, "kv_heads": kv_heads, "seq": seq, "head_dim": head_dim, "causal": causal}
    found = of(algorithm, **values, block_q=block_q, block_kv=block_kv)
    assert requested_by_warps(found.launch, found.traffic.requested) == sum(counted)


@pytest.mark.parametrize(("taken", "counted"), UNFUSED.items())
def test_rows_that_begin_within_a_sector_bring_more_than_was_asked(taken, counted):
    heads, seq = taken
    found = of("standard", heads=heads, seq=seq, head_dim=128, block_q=128)
    assert found.from_l2 == pytest.approx(sum(counted), rel=0.0075)
    asked = found.traffic.requested.read
    assert asked[Tensor.S] == pytest.approx(counted[1], rel=0.008)
    assert counted[1] >= asked[Tensor.S]


def test_where_o_and_s_fill_the_registers_words_of_ragged_calls_are_loaded_at_every_visit():
    """8 heads of 22,621 tokens, d 256, in 128 x 128: L1 answered a tenth of what spilled."""
    values = {"heads": 8, "head_dim": 256, "block_q": 128, "block_kv": 128}
    ragged, even = (of("flash2", seq=seq, **values) for seq in (22_621, 22_528))
    assert ragged.from_l2 == pytest.approx(50_293_377_792, rel=0.03)
    assert even.from_l2 == even.traffic.requested.total_read < ragged.from_l2 / 1.5
    small = of("flash2", seq=22_621, **values | {"block_kv": 64})
    assert small.from_l2 == small.traffic.requested.total_read


@pytest.mark.parametrize("length", [32, 40, 1001 * 2, 2002 * 2, 1004 * 2, 1003 * 4])
def test_a_run_brings_the_sectors_that_it_touches(length):
    touched = [
        len({byte // SECTOR for byte in range(start, start + length)})
        for start in range(0, SECTOR * length, length)
    ]
    assert _beyond(length) == SECTOR * sum(touched) / len(touched) - length


@pytest.mark.parametrize("hardware", GPUS)
@pytest.mark.parametrize("algorithm", ["flash1", "flash2", "flash3", "standard", "split_kv", "backward"])
def test_at_least_the_compulsory_bytes_come_and_no_more_than_whole_sectors(algorithm, hardware):
    for values in ({"seq": 500, "causal": True}, {"seq": 700, "window": 100}, {"seq": 96, "heads": 600}):
        found = simulate(Experiment.of(algorithm=algorithm, hardware=hardware, **values))
        asked = found.traffic.requested.total_read
        assert found.traffic.compulsory.total_read <= found.from_l2 <= 1.3 * asked
        if algorithm not in ("flash1", "standard"):
            assert found.from_l2 == asked

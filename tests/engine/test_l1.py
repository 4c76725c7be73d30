"""What comes from L2: the model of L1 against an H200's counters of calls that are in no recording.

Counted with Nsight Compute at torch 2.11, Triton 3.6, float16: l1tex__m_xbar2l1tex_read_bytes.sum, and of
what is asked for what `engine.measuring.counters` reads.
"""

import math
import random

import pytest

from engine import Experiment, simulate
from engine.model.l1 import SECTOR, _beyond, _followed, l1_bytes, requested_by_warps
from engine.model.launch import launch
from engine.problem.hardware import GPUS, KIB
from engine.schedule.step import Tensor
from tests.engine.readings import experiment_of, for_each


def of(algorithm: str, hardware: str = "h200", **values):
    return simulate(Experiment.of(algorithm=algorithm, hardware=hardware, **values))


@for_each("rows found in L1")
def test_rows_that_come_back_are_found_as_often_as_the_chip_finds_them(values, read):
    """Of causal calls later key blocks walk over fewer rows, which are found more often."""
    found = of("flash1", **values)
    again = found.traffic.requested.total_read - found.traffic.compulsory.total_read
    near = pytest.approx(read, abs=0.03 if values["causal"] else 0.08)
    assert (found.traffic.requested.total_read - found.from_l2) / again == near


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


@for_each("set aside of L1")
def test_shared_memory_leaves_l1_what_the_driver_leaves_it(values, read):
    run = launch(experiment_of(values, algorithm="flash1"))
    assert l1_bytes(run, run.kernels[0]) == (256 - read) * KIB


@for_each("boxes of flash2")
def test_flash2_asks_for_the_whole_boxes_of_its_own_tiling(values, read):
    """To the byte, over the end of keys and queries: K and V come by TMA, Q does not."""
    own = experiment_of(values, batch=8, heads=16).in_own_tiling()
    found = simulate(own)
    assert found.from_l2 == found.traffic.requested.total_read == read
    row, keys = values["head_dim"] * 2, 2 * found.traffic.tiles_visited * own.tiling.block_kv
    assert read == (128 * values["seq"] + keys) * row


@for_each("asked by warps")
def test_warps_ask_for_what_the_schedule_says_whoever_answers(values, read):
    """To the byte: 6.9% more than the schedule where four warps ask for m and l of rows in blocks of 32."""
    found = of(**values)
    assert requested_by_warps(found.launch, found.traffic.requested) == sum(read)


@for_each("unfused from L2")
def test_rows_that_begin_within_a_sector_bring_more_than_was_asked(values, read):
    found = of("standard", **values, head_dim=128, block_q=128)
    assert found.from_l2 == pytest.approx(sum(read), rel=0.0075)
    asked = found.traffic.requested.read
    assert asked[Tensor.S] == pytest.approx(read[1], rel=0.008)
    assert read[1] >= asked[Tensor.S]


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

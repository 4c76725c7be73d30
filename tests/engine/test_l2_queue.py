"""What L2 loses of rows that flash1 rewrites: against an H200's counters, and against a queue of blocks."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Experiment, simulate
from engine.model import l2_queue
from engine.model.l2_queue import rewritten
from engine.model.l2_range import is_wide
from engine.model.launch import launch
from engine.problem.hardware import GPUS
from engine.schedule.step import Tensor

# flash1 in 64 x 64: heads, tokens, head dim, causal: MB that DRAM delivered in sessions of an H200
COUNTED = {
    (16, 4096, 64, False): (34.11, 34.11),
    (4, 16384, 64, False): (34.30, 34.19),
    (64, 1024, 64, False): (34.10, 34.10),
    (64, 2048, 64, True): (70.25, 71.80),
    (64, 2048, 128, False): (2248.17, 2248.24),
}
ONE_PARTITION = replace(GPUS["t4"], sms=4, l2_bytes=96 * 1024, l2_effective_bytes=96 * 1024)


def call(heads: int, seq: int, head_dim: int, causal: bool = False) -> Experiment:
    """One in 64 x 64 blocks on an H200."""
    return Experiment.of(
        algorithm="flash1", heads=heads, seq=seq, head_dim=head_dim, causal=causal, hardware="h200"
    )


@pytest.mark.parametrize(("taken", "counted"), COUNTED.items())
def test_rows_leave_l2_as_an_h200_counts(taken, counted):
    one = call(*taken)
    read = (simulate(one).traffic.dram.total_read + one.record.code) / 1e6
    for found in counted:
        assert read == pytest.approx(found, rel=0.037 if taken[3] else 0.011)


def test_keys_push_out_rows_of_far_less_than_l2():
    """8 heads of 5,726 queries, d 128: drawn by lot. Rows of 0.38 of L2, of which DRAM read 10.0 MB again."""
    one = call(8, 5726, 128)
    moved = simulate(one).traffic
    assert moved.dram.total_read + one.record.code == pytest.approx(57.27e6, rel=0.04)
    low, high = simulate(one).dram_range
    assert is_wide(low, high)
    assert low.total_read < 57.25e6 < high.total_read


def test_where_all_fits_nothing_is_lost():
    one = call(8, 2048, 128)
    moved = simulate(one).traffic
    assert moved.dram == moved.compulsory
    assert not is_wide(*simulate(one).dram_range)


def test_two_copies_of_half_of_the_lines_take_room():
    gpu = GPUS["h200"]
    assert gpu.l2_partitions == 2
    assert [gpu.l2_copies(sms) for sms in (0, 1, 2)] == [1, 1.5, 1.75]
    assert gpu.l2_copies(132) == pytest.approx(2)
    assert GPUS["t4"].l2_copies(1) == GPUS["t4"].l2_copies(40) == 1


def in_a_queue(run, room: float) -> float:
    """Share of the rows that come back of which a block has left a queue of so many bytes; one partition."""
    schedule, (kernel,) = run.schedule, run.kernels
    heads, phase, problem = kernel.heads, kernel.phase, run.problem
    row = schedule.amounts[Tensor.Q].factor + schedule.amounts[Tensor.O].factor
    row += schedule.amounts[Tensor.STATISTICS].factor
    keys = heads / problem.group * 2 * schedule.amounts[Tensor.K].of(0, run.tiling.block_kv)
    queue, came, total, lost, again, seen = deque(), {}, 0.0, 0.0, 0.0, set()

    def insert(name, size):
        nonlocal total
        queue.append((name, total))
        came[name] = total
        total += size
        while queue and total - queue[0][1] >= room:
            gone, at = queue.popleft()
            if came[gone] == at:
                del came[gone]

    for visit, (first, stop) in enumerate(zip(phase.first.tolist(), phase.stop.tolist(), strict=True)):
        insert(("keys", visit), keys)
        for block in range(first, stop):
            size = heads * float(schedule.query_rows[block]) * row
            again += size * (block in seen)
            lost += size * (block in seen and block not in came)
            if block not in came:
                insert(block, size)
            seen.add(block)
    return lost / again if again else 0.0


@given(
    st.integers(1, 4), st.integers(20, 700), st.sampled_from([None, 90, 300]), st.booleans(),
    st.floats(0.3, 3.0),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_shares_are_those_of_a_queue_of_blocks(heads, seq, window, causal, room):
    """Where one kind of set stands for all: to the block that is going as its pass begins."""
    one = Experiment.of(
        algorithm="flash1", heads=heads, seq=seq, head_dim=16, block_q=16, block_kv=16,
        causal=causal or window is not None, window=window,
    )  # fmt: skip
    run = replace(launch(one), gpu=ONE_PARTITION)
    room *= 16 * seq * heads
    with patch.object(l2_queue, "UNEVEN", 1e-9):
        again, _ = rewritten(run, run.kernels[0], room)
    passed = float(run.schedule.rows_passed(run.kernels[0].phase)[1:].sum()) * heads
    row = sum(run.schedule.amounts[tensor].factor for tensor in again)
    share = sum(again.values()) / max(1.0, passed * row)
    blocks = len(run.schedule.query_rows)
    assert share == pytest.approx(in_a_queue(run, room), abs=0.12 + 1 / blocks)


def test_many_passes_are_thinned_and_lose_what_all_do():
    run = launch(call(8, 5726, 128).changed(block_q=32, block_kv=32))
    (kernel,) = run.kernels
    few, every = (
        np.array(list(found(run, kernel).values()))
        for found in (thinned, lambda *of: rewritten(*of, 62e6)[0])
    )
    assert few == pytest.approx(every, rel=0.2)


def thinned(run, kernel) -> dict:
    with patch.object(l2_queue, "MOST_PASSES", 45):
        return rewritten(run, kernel, 62e6)[0]

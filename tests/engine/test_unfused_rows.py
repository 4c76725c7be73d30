"""Unfused attention whose rows are whole vectors or move number by number, against an H200's counters.

What stands here was counted in calls that are in no recording, in blocks of 128 x 64; instructions, registers
and blocks on an SM come from compiled code.
"""

from __future__ import annotations

from statistics import median

import pytest

from engine import Experiment, simulate
from engine.model.launch import Launch, launch
from engine.model.unfused import fetching_seconds, issued_seconds
from engine.model.unfused_rows import rows_spill
from engine.recordings.counters import recorded_counters
from engine.recordings.file import recordings

SMS = 132
RUNNING = 0.984 * 1.83e9  # Hz
# (batch, heads, key heads, N, d, causal): us of the three kernels, and their blocks on an SM
CALLS = {
    (2, 32, 32, 203, 64, False): ((8.9, 9.9, 8.8), (3, 9, 2)),
    (1, 8, 8, 700, 96, False): ((10.5, 9.6, 22.3), (3, 9, 1)),
    (2, 16, 16, 1009, 96, True): ((61.7, 44.0, 65.8), (3, 9, 1)),
    (1, 16, 16, 1009, 64, False): ((25.8, 22.6, 29.4), (3, 9, 2)),
    (2, 16, 16, 1016, 96, True): ((61.4, 43.1, 66.7), (3, 9, 1)),
    (2, 16, 16, 1024, 96, True): ((50.7, 32.1, 24.4), (3, 12, 2)),
    (1, 32, 8, 1500, 64, False): ((104.7, 95.6, 100.4), (3, 9, 2)),
    (2, 16, 16, 2501, 96, True): ((365.2, 296.8, 371.8), (3, 5, 1)),
    (1, 16, 16, 4097, 64, False): ((370.5, 609.6, 252.2), (3, 2, 2)),
    (1, 8, 8, 4097, 128, True): ((246.8, 305.1, 228.1), (3, 2, 1)),
    (2, 16, 16, 6251, 96, True): ((2146.8, 2069.6, 2103.4), (3, 2, 1)),
    (2, 16, 16, 6256, 96, True): ((1759.0, 1256.8, 764.0), (3, 4, 2)),
    (1, 8, 8, 8191, 128, True): ((912.3, 721.9, 881.6), (3, 2, 1)),
    (2, 16, 16, 8200, 96, True): ((3686.9, 6397.1, 3523.1), (3, 1, 1)),
}
# instructions that a scheduler issued for one block of the softmax, by N
ROWS = {
    **{501: 615, 1009: 523, 1024: 354, 1111: 411, 2048: 282, 2501: 702},
    **{4096: 451, 4097: 1507, 6256: 927, 8200: 3221, 16384: 1905},
}
# the same of a block of the kernel of S, by N, d and whether causal
TILES = {
    **{(1009, 64, False): 1490, (777, 128, False): 1817, (6251, 96, True): 1944, (6256, 96, True): 1360},
    **{(333, 64, True): 1618, (4096, 128, False): 1184},
}
# and of a visit of the kernel of O: nvdisasm of sm_90a, two warps of a scheduler
VISITS = {(1009, 96): 2 * 346, (1009, 128): 2 * 339, (1024, 128): 2 * 145}


def run_of(seq: int, head_dim: int, causal: bool = False, **values) -> Launch:
    blocks = {"block_q": 128, "block_kv": 64, "hardware": "h200"}
    return launch(
        Experiment.of(algorithm="standard", seq=seq, head_dim=head_dim, causal=causal, **blocks, **values)
    )


def experiment(call: tuple) -> Experiment:
    batch, heads, kv_heads, seq, head_dim, causal = call
    return Experiment.of(
        algorithm="standard", batch=batch, heads=heads, kv_heads=kv_heads, seq=seq, head_dim=head_dim,
        causal=causal, block_q=128, block_kv=64, hardware="h200",
    )  # fmt: skip


def phases(run: Launch) -> dict:
    return {kernel.phase.name: kernel.phase for kernel in run.kernels}


@pytest.mark.parametrize(("call", "counted"), CALLS.items())
def test_an_sm_holds_as_many_blocks_as_registers_and_shared_memory_leave(call, counted):
    assert tuple(kernel.resident for kernel in launch(experiment(call)).kernels) == counted[1]


def test_an_sm_holds_as_many_blocks_as_every_recorded_launch_had_waves_for():
    """Blocks of 128 x 64 and 64 x 64, with a window too."""
    rows = [row for each in recordings() for row in recorded_counters(each) if row.experiment.record.unfused]
    assert len(rows) >= 11
    for row in rows:
        for kernel, recorded in zip(row.simulation.launch.kernels, row.row.kernels, strict=True):
            assert kernel.blocks / SMS / recorded.waves == pytest.approx(kernel.resident, rel=0.025)


def test_every_kernel_takes_about_as_long_as_on_an_h200():
    off = []
    for call, (seconds, _) in CALLS.items():
        modelled = simulate(experiment(call)).modelled
        parts = list(modelled.parts.values())
        for kernel, recorded in zip(parts, seconds, strict=True):
            assert kernel * 1e6 == pytest.approx(recorded, rel=0.32)
        off.append(abs(modelled.seconds * 1e6 / sum(seconds) - 1))
    assert median(off) < 0.04
    assert max(off) < 0.14


@pytest.mark.parametrize(("seq", "counted"), ROWS.items())
def test_a_softmax_issues_as_many_instructions_as_were_counted(seq, counted):
    """One cost of a block whatever its rows, of which the compiler makes between 118 and 1,146."""
    run = run_of(seq, 64)
    assert issued_seconds(run, phases(run)["softmax"]) * RUNNING == pytest.approx(counted, rel=0.22)


@pytest.mark.parametrize(("taken", "counted"), TILES.items())
def test_a_tile_of_s_issues_as_many_instructions_as_were_counted(taken, counted):
    run = run_of(*taken)
    assert issued_seconds(run, phases(run)["scores"]) * RUNNING == pytest.approx(counted, rel=0.1)


@pytest.mark.parametrize(("taken", "counted"), VISITS.items())
def test_a_visit_of_the_output_issues_what_the_compiled_loop_does(taken, counted):
    """Beside it, where numbers move one by one, loads and stores take 2 clocks for 32 of them."""
    run = run_of(*taken)
    moving = 2 * 128 * 64 / 32 if taken[0] % 16 else 0
    clocks = fetching_seconds(run, phases(run)["output"]) * RUNNING
    assert clocks - moving == pytest.approx(counted, rel=0.24)


@pytest.mark.parametrize(("keys", "spills"), [(20001, False), (32768, False), (40001, True), (65536, True)])
def test_rows_whose_numbers_fill_all_registers_spill_as_compiled(keys, spills):
    """Bytes of spill stores of a thread: 0, 0, 456 and 240."""
    assert rows_spill(run_of(16, 64, seq_kv=keys).schedule) == spills

"""Recordings beside the model: the same problem simulated, and curves that say who is ahead from where on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.experiment import Experiment, Mask, Problem
from engine.recorded import (
    counted,
    described,
    furthest,
    modelled_like,
    nearest,
    overtakes,
    ran_out,
    recorded_rows,
    timings_of,
)
from engine.recording import Counters, Device, KernelCounters, Recording, Times, Timing
from engine.simulation import simulate

DEVICE = Device("NVIDIA H200", "1", {}, {}, 150 * 10**9, "abc", "2026-11-21T09:00:00")
PROBLEM = Problem(2, 8, 8, 1024, 1024, 128, "float16", Mask(causal=True))


def timing(provider: str, seq: int, seconds: float | None, **problem) -> Timing:
    problem = replace(PROBLEM, seq_q=seq, seq_kv=seq, **problem)
    if seconds is None:
        return Timing(provider, provider, "forward", problem, skipped="out of memory")
    times = Times(seconds, seconds, seconds, 5)
    return Timing(provider, provider, "forward", problem, times, tflops=1.0)


def test_a_counted_scenario_is_simulated_with_its_own_blocks_and_gpu():
    kernel = KernelCounters("flash2_kernel", "1", 1e-3, 2.0, 3.0, 4.0, 5.0)
    row = Counters("flash2", "forward", PROBLEM, 128, 32, kernels=(kernel, kernel))
    (one,) = counted(Recording(DEVICE, counters=(row,)))
    experiment = Experiment.of(
        batch=2, heads=8, seq=1024, head_dim=128, causal=True, block_q=128, block_kv=32, hardware="h200"
    )
    simulation = simulate(experiment)
    assert one.experiment == experiment
    assert (one.read, one.dram_read, one.seconds) == (8.0, 4.0, 2e-3)
    assert one.modelled_read == simulation.traffic.requested.total_read
    assert one.modelled_dram_read == simulation.traffic.dram.total_read
    assert "causal" in described(experiment)


@pytest.mark.parametrize(
    "row",
    [
        Counters("sdpa_flash", "forward", PROBLEM, 64, 64, kernels=(KernelCounters("k", "1", *[1.0] * 5),)),
        Counters("flash2", "backward", PROBLEM, 64, 64, kernels=(KernelCounters("k", "1", *[1.0] * 5),)),
        Counters("flash2", "forward", PROBLEM, kernels=(KernelCounters("k", "1", *[1.0] * 5),)),
        Counters("flash2", "forward", PROBLEM, 7, 64, kernels=(KernelCounters("k", "1", *[1.0] * 5),)),
        Counters("flash2", "forward", PROBLEM, 64, 64, skipped="out of memory"),
    ],
    ids=["not ours", "backward", "no blocks", "impossible blocks", "did not run"],
)
def test_what_has_no_model_is_left_out(row):
    assert counted(Recording(DEVICE, counters=(row,))) == []


def test_a_gpu_without_a_preset_has_no_model():
    row = Counters("flash2", "forward", PROBLEM, 64, 64, kernels=(KernelCounters("k", "1", *[1.0] * 5),))
    assert counted(Recording(replace(DEVICE, gpu="GeForce 9999"), counters=(row,))) == []


def test_overtaking_counts_from_where_it_lasts():
    seconds = {128: (1, 2), 256: (2, 1), 512: (1, 2), 1024: (2, 1), 2048: (3, 1)}
    pairs = [(timing("eager", n, slow), timing("flash2", n, fast)) for n, (slow, fast) in seconds.items()]
    rows = recorded_rows([row for pair in pairs for row in pair])
    assert overtakes(rows, "flash2") == 1024
    assert overtakes(rows, "eager", "flash2") is None
    assert overtakes(rows, "flash3") is None


def test_speed_up_and_memory():
    timings = [timing("eager", 128, 4.0), timing("eager", 256, None), timing("eager", 512, None)]
    timings += [timing("flash2", 128, 1.0), timing("flash2", 256, 1.0)]
    assert [row["speedup"] for row in recorded_rows(timings)] == [1.0, 4.0, None]
    assert ran_out(timings) == [timings[1]]


def test_the_nearest_shape_has_the_mask_first():
    shapes = [(64, False), (128, False), (256, True)]
    rows = tuple(timing("eager", 128, 1.0, head_dim=d, mask=Mask(causal)) for d, causal in shapes)
    recording = Recording(DEVICE, timings=rows)
    assert nearest(recording, Experiment.of(head_dim=100)) == (128, False)
    assert nearest(recording, Experiment.of(head_dim=64, window=9)) == (256, True)
    assert nearest(Recording(DEVICE), Experiment.of()) is None
    assert timings_of(recording, 64, False) == rows[:1]


def test_the_model_beside_a_curve_is_of_the_recorded_problem():
    rows = modelled_like([timing("flash2", 1024, 1.0), timing("eager", 1024, 1.0)], "h200")
    assert [row["provider"] for row in rows] == ["standard", "flash1", "flash2", "flash3"]
    like = Experiment.of(
        batch=2, heads=8, seq=1024, head_dim=128, causal=True, block_q=128, block_kv=64, hardware="h200"
    )
    assert rows[2]["p50"] == simulate(like).modelled.seconds


def test_deviation_is_of_the_model_from_the_count():
    assert furthest([(110, 100), (80, 100)]) == pytest.approx(0.2)

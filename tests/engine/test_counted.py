"""Counted scenarios: simulated as they were run, the one nearest to what is looked at, gaps to the model."""

from dataclasses import replace

import pytest

from engine.experiment import Experiment, described
from engine.model.simulation import simulate
from engine.problem.hardware import GPUS
from engine.problem.problem import Mask, Problem
from engine.recordings.counters import (
    RecordedCounters,
    modelled_shares,
    nearest_counters,
    recorded_counters,
    roofline_points,
)
from engine.recordings.file import recordings
from engine.recordings.recording import Counters, Device, KernelCounters, Recording
from engine.studies.model_errors import in_range

DEVICE = Device("NVIDIA H200", "1", {}, {}, 150 * 10**9, "abc", "2026-11-21T09:00:00")
PROBLEM = Problem(2, 8, 8, 1024, 1024, 128, "float16", Mask(causal=True))
KERNEL = KernelCounters("k", "1", *[1.0] * 5)


def test_a_counted_scenario_is_simulated_with_its_own_blocks_and_gpu():
    kernel = KernelCounters("flash2_kernel", "1", 1e-3, 2.0, 3.0, 4.0, 5.0)
    row = Counters("flash2", "forward", PROBLEM, 128, 32, kernels=(kernel, kernel))
    (one,) = recorded_counters(Recording(DEVICE, counters=(row,)))
    experiment = Experiment.of(
        batch=2, heads=8, seq=1024, head_dim=128, causal=True, block_q=128, block_kv=32, hardware="h200"
    )
    simulation = simulate(experiment)
    assert one.experiment == experiment
    assert (one.read, one.dram_read, one.seconds) == (8.0, 4.0, 2e-3)
    assert one.requested_read == one.modelled_read == simulation.traffic.requested.total_read
    assert one.modelled_dram_read == simulation.traffic.dram.total_read + one.experiment.record.code
    assert described(experiment) == "flash2, N 1,024, batch 2, heads 8, d 128, causal, blocks 128×32"
    assert described(experiment.changed(seq=33)).startswith("flash2, 33 queries × 1,024 keys, batch 2, ")


def test_what_warps_and_tma_ask_for_is_known_where_all_of_it_was_counted():
    counted = replace(KERNEL, loaded=5e6, copied=3e6, by_tma=2e6)
    (one,) = recorded_counters(Recording(DEVICE, counters=(replace(row_of(), kernels=(counted, counted)),)))
    assert one.requested == 2e7
    assert one.modelled_requested == one.requested_read
    for missing in ("loaded", "copied", "by_tma"):
        lacking = replace(row_of(), kernels=(counted, replace(counted, **{missing: None})))
        (one,) = recorded_counters(Recording(DEVICE, counters=(lacking,)))
        assert one.requested is None


@pytest.mark.parametrize(
    "row",
    [
        Counters("sdpa_flash", "forward", PROBLEM, 64, 64, kernels=(KERNEL,)),
        Counters("flash2", "backward", PROBLEM, 64, 64, kernels=(KERNEL,)),
        Counters("flash2", "forward", PROBLEM, kernels=(KERNEL,)),
        Counters("flash2", "forward", PROBLEM, 7, 64, kernels=(KERNEL,)),
        Counters("flash2", "forward", PROBLEM, 64, 64, skipped="out of memory"),
    ],
    ids=["not ours", "backward", "no blocks", "impossible blocks", "did not run"],
)
def test_what_has_no_model_is_left_out(row):
    assert recorded_counters(Recording(DEVICE, counters=(row,))) == ()


@pytest.mark.parametrize("nothing", ["seconds", "dram_read", "tile_read"])
def test_a_strangers_row_with_nothing_to_divide_by_is_left_out(nothing):
    row = replace(row_of(), kernels=(replace(KERNEL, **{nothing: 0.0}),))
    recording = Recording(DEVICE, counters=(row,))
    assert recorded_counters(recording) == ()
    assert roofline_points(recording, Experiment(problem=PROBLEM)) == []


def row_of(algorithm: str = "flash2", block_q: int = 64, block_kv: int = 64, **problem) -> Counters:
    problem = replace(PROBLEM, **problem)
    return Counters(algorithm, "forward", problem, block_q, block_kv, kernels=(KERNEL,))


def nearest(rows: list[Counters], **values) -> tuple[RecordedCounters, bool] | None:
    return nearest_counters(Recording(DEVICE, counters=tuple(rows)), Experiment.of(hardware="h200", **values))


def test_the_nearest_has_the_mask_first_then_the_length():
    rows = [
        row_of(mask=Mask(), seq_q=4096, seq_kv=4096),
        row_of(seq_q=512, seq_kv=512),
        row_of(seq_q=8192, seq_kv=8192),
        row_of("flash1", seq_q=4096, seq_kv=4096),
    ]
    found, same = nearest(rows, batch=2, heads=8, seq=4096, head_dim=128, causal=True)
    assert (found.row, same) == (rows[2], False)
    found, same = nearest(rows, batch=2, heads=8, seq=512, head_dim=128, causal=True)
    assert (found.row, same) == (rows[1], True)
    assert nearest(rows, batch=2, heads=8, seq=512, head_dim=128, causal=True, dtype="bfloat16")[1] is False
    assert nearest(rows, algorithm="standard") is None


def test_percentages_weigh_a_kernel_by_its_time():
    long = replace(KERNEL, seconds=3.0, tensor_percent=80.0, sm_percent=100.0, issue_percent=10.0)
    short = replace(KERNEL, seconds=1.0, tensor_percent=0.0, sm_percent=60.0)
    row = replace(row_of(), kernels=(long, short))
    (one,) = recorded_counters(Recording(DEVICE, counters=(row,)))
    used = one.utilisation
    assert used["tensor core"] == pytest.approx(0.6)
    assert used["tail"] == pytest.approx(0.1)
    assert used["issue"] is None
    assert used["exp"] is None
    assert used["HBM"] == pytest.approx(4 / 4 / GPUS["h200"].memory_bytes_per_second)


def test_one_denominator_serves_what_is_modelled_and_what_is_recorded():
    kernel = replace(KERNEL, seconds=2.0, tile_read=4e12, tile_written=1e12)
    (one,) = recorded_counters(Recording(DEVICE, counters=(replace(row_of(), kernels=(kernel,)),)))
    assert one.utilisation["L2"] == pytest.approx(5e12 / 2 / 13.5e12)


def test_the_model_and_the_counters_agree_on_what_holds_unfused_attention_up():
    """Both put HBM first, L2 at two thirds of it and all else far below, once N is not short."""
    rows = [row for row in recorded_counters(recordings()[0]) if row.experiment.record.unfused]
    long = [row for row in rows if row.experiment.problem.seq_kv >= 2048]
    assert len(long) == 8
    for row in long:
        assert row.simulation.modelled.bound == "HBM"
        for shares in (modelled_shares(row.simulation), row.utilisation):
            assert 0.58 < shares["L2"] / shares["HBM"] < 0.82
            assert max(shares["tensor core"], shares["exp"]) < 0.5 * shares["HBM"]


def test_points_under_both_roofs_have_the_bytes_of_each_level():
    kernel = replace(KERNEL, seconds=1e-3, dram_read=3e6, dram_written=1e6, tile_read=4e7, tile_written=1e7)
    rows = (
        replace(row_of("sdpa_flash", None, None), kernels=(kernel,)),
        replace(row_of(head_dim=64), kernels=(kernel,)),
        replace(row_of(mask=Mask()), kernels=(kernel,)),
    )
    (point,) = roofline_points(
        Recording(DEVICE, counters=rows), Experiment.of(seq=64, head_dim=128, causal=True)
    )
    flops = 4 * 2 * 8 * 1024**2 * 128 / 2
    assert point["HBM"] == flops / 4e6
    assert point["L2"] == flops / 5e7
    assert point["tflops"] == pytest.approx(flops / 1e-3 / 1e12)


PLAIN = Problem(1, 16, 16, 1024, 1024, 64, "float16", Mask())


def calls(*read: float, algorithm: str = "flash2", problem=PLAIN, dram=(7e6,), **more):
    """Calls of which so many bytes came from L2, or from DRAM: 1 MB goes to it."""
    kernels = (
        KernelCounters("k", "1", 1e-3, from_dram, 1e6, each, 1e6, **more)
        for each in read
        for from_dram in dram
    )
    rows = (Counters(algorithm, "forward", problem, 64, 64, kernels=(kernel,)) for kernel in kernels)
    return recorded_counters(Recording(DEVICE, counters=tuple(rows)))


def test_of_calls_those_whose_reads_lie_in_the_range_are_counted():
    problem = Problem(1, 2, 2, 98340, 98340, 64, "float16", Mask())
    rows = calls(1e10, algorithm="flash3", problem=problem, dram=(1e7, 1.43e8, 1e9))
    assert (len(rows), in_range(rows)) == (3, 1)

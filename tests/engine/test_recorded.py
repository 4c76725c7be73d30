"""Recordings beside the model: the same problem simulated, the row nearest to what is looked at, gaps."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pytest

from engine import Experiment, simulate
from engine.algorithms.backward import KEY_GRADIENTS, QUERY_GRADIENTS, ROW_TERMS, own_tilings
from engine.experiment import described
from engine.model.traffic import requested_bytes
from engine.problem.bounds import blocks
from engine.problem.hardware import GPUS, gpu_named
from engine.problem.problem import Mask, Problem, Tiling
from engine.recordings.counters import (
    RecordedCounters,
    modelled_shares,
    nearest_counters,
    recorded_counters,
    roofline_points,
)
from engine.recordings.file import recording_of, recordings
from engine.recordings.recording import Counters, KernelCounters, Recording
from engine.recordings.rows import (
    experiment_of,
    modelled_backward,
    modelled_timings,
    nearest_shape,
    recorded_rows,
    timings_of,
)
from engine.recordings.timing import Timing
from engine.studies.model_errors import in_range
from tests.engine.test_recording import DEVICE, TIMES

PROBLEM = Problem(2, 8, 8, 1024, 1024, 128, "float16", Mask(causal=True))
KERNEL = KernelCounters("k", "1", *[1.0] * 5)
LINE = 128  # bytes: what a warp loads of lse
KERNELS = {
    "row_terms_kernel": ROW_TERMS,
    "key_gradient_kernel": KEY_GRADIENTS,
    "query_gradient_kernel": QUERY_GRADIENTS,
}


def timing(provider: str, seq: int, **problem) -> Timing:
    problem = replace(PROBLEM, seq_q=seq, seq_kv=seq, **problem)
    return Timing(provider, provider, "forward", problem, TIMES)


def test_the_nearest_shape_has_the_mask_first():
    shapes = [(64, False), (128, False), (256, True)]
    rows = tuple(timing("eager", 128, head_dim=d, mask=Mask(causal)) for d, causal in shapes)
    recording = Recording(DEVICE, timings=rows)
    assert nearest_shape(recording, Experiment.of(head_dim=100)) == (128, False)
    assert nearest_shape(recording, Experiment.of(head_dim=64, window=9)) == (256, True)
    assert nearest_shape(Recording(DEVICE), Experiment.of()) is None
    assert timings_of(recording, 64, False) == rows[:1]


def test_the_model_beside_a_curve_is_of_the_recorded_problem():
    rows = modelled_timings((timing("flash2", 1024), timing("eager", 1024)), "h200")
    assert [row["provider"] for row in rows] == ["standard", "flash1", "flash2", "flash3"]
    like = Experiment.of(
        batch=2, heads=8, seq=1024, head_dim=128, causal=True, block_q=128, block_kv=64, hardware="h200"
    ).in_own_tiling()
    assert (like.tiling.block_q, like.tiling.block_kv) == (64, 64)  # what the kernel takes up to 1024 keys
    assert rows[2]["p50"] == simulate(like).modelled.seconds


def test_a_backward_pass_counts_two_and_a_half_times_the_forward_passes_flops():
    """By the field's convention 10 N N d a head, halved when causal, in files and in the model alike."""
    rows = [row for each in recordings() for row in each.timings if row.direction == "backward" and row.times]
    assert len(rows) > 100
    own = next(row for row in rows if row.provider == "flash2")
    (modelled,) = modelled_backward([own], "h200")
    found = [(row.problem, row.tflops * row.times.p50) for row in rows]
    for p, done in [*found, (own.problem, modelled["tflops"] * modelled["p50"])]:
        flops = 10 * p.batch * p.heads * p.seq_q * p.seq_kv * p.head_dim / (2 if p.mask.causal else 1)
        assert done * 1e12 == pytest.approx(flops)


@pytest.mark.parametrize("hardware", ["h200", "h100"])
@pytest.mark.parametrize(("direction", "over"), [("forward", "eager"), ("backward", "sdpa_flash")])
def test_speed_ups_are_over_unfused_attention_or_pytorchs_flash_backend(hardware, direction, over):
    """No unfused backward pass is recorded: without a stand-in nothing would be drawn."""
    timings = timings_of(recording_of(hardware), 128, False, direction)
    seconds = {(row.provider, row.problem.seq_kv): row.times.p50 for row in timings if row.times}
    rows = recorded_rows(timings)
    assert len([row for row in rows if row["speedup"]]) > 30
    for row in rows:
        base = seconds.get((over, row["keys"]))
        expected = base and pytest.approx(base / seconds[row["provider"], row["keys"]])
        assert row["speedup"] == expected


def row_of(algorithm: str = "flash2", block_q=64, block_kv=64, kernels=(KERNEL,), **problem) -> Counters:
    return Counters(algorithm, "forward", replace(PROBLEM, **problem), block_q, block_kv, kernels=kernels)


def counted(*rows: Counters) -> tuple[RecordedCounters, ...]:
    return recorded_counters(Recording(DEVICE, counters=rows))


def test_a_counted_scenario_is_simulated_with_its_own_blocks_and_gpu():
    kernel = KernelCounters("flash2_kernel", "1", 1e-3, 2.0, 3.0, 4.0, 5.0)
    (one,) = counted(row_of(block_q=128, block_kv=32, kernels=(kernel, kernel)))
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
    whole = replace(KERNEL, loaded=5e6, copied=3e6, by_tma=2e6)
    (one,) = counted(row_of(kernels=(whole, whole)))
    assert one.requested == 2e7
    assert one.modelled_requested == one.requested_read
    for missing in ("loaded", "copied", "by_tma"):
        (one,) = counted(row_of(kernels=(whole, replace(whole, **{missing: None}))))
        assert one.requested is None


LEFT_OUT = {
    "not ours": row_of("sdpa_flash"),
    "backward": replace(row_of(), direction="backward"),
    "no blocks": row_of(block_q=None, block_kv=None),
    "impossible blocks": row_of(block_q=7),
    "did not run": replace(row_of(kernels=()), skipped="out of memory"),
}


@pytest.mark.parametrize("row", LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_has_no_model_is_left_out(row):
    assert counted(row) == ()


@pytest.mark.parametrize("nothing", ["seconds", "dram_read", "tile_read"])
def test_a_strangers_row_with_nothing_to_divide_by_is_left_out(nothing):
    recording = Recording(DEVICE, counters=(row_of(kernels=(replace(KERNEL, **{nothing: 0.0}),)),))
    assert recorded_counters(recording) == ()
    assert roofline_points(recording, Experiment(problem=PROBLEM)) == []


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
    short = replace(KERNEL, seconds=1.0, tensor_percent=0.0, sm_percent=60.0, tile_read=4e12)
    used = counted(row_of(kernels=(long, short)))[0].utilisation
    assert used["tensor core"] == pytest.approx(0.6)
    assert used["tail"] == pytest.approx(0.1)
    assert used["issue"] is used["exp"] is None
    assert used["HBM"] == pytest.approx(4 / 4 / GPUS["h200"].memory_bytes_per_second)
    assert used["L2"] == pytest.approx(4e12 / 4 / 13.5e12)  # the denominator of what is modelled


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
        row_of("sdpa_flash", None, None, (kernel,)),
        row_of(head_dim=64, kernels=(kernel,)),
        row_of(mask=Mask(), kernels=(kernel,)),
    )
    like = Experiment.of(seq=64, head_dim=128, causal=True)
    (point,) = roofline_points(Recording(DEVICE, counters=rows), like)
    flops = 4 * 2 * 8 * 1024**2 * 128 / 2
    assert point["HBM"] == flops / 4e6
    assert point["L2"] == flops / 5e7
    assert point["tflops"] == pytest.approx(flops / 1e-3 / 1e12)


def test_of_calls_those_whose_reads_lie_in_the_range_are_counted():
    long = {
        "batch": 1,
        "heads": 2,
        "kv_heads": 2,
        "seq_q": 98340,
        "seq_kv": 98340,
        "head_dim": 64,
        "mask": Mask(),
    }
    rows = (
        row_of("flash3", kernels=(replace(KERNEL, dram_read=read, tile_read=1e10),), **long)
        for read in (1e7, 1.43e8, 1e9)
    )
    assert in_range(counted(*rows)) == 1


class Counted(NamedTuple):
    """One kernel of a backward pass with its counters, and the model in the blocks that its programs tell."""

    problem: Problem
    name: str
    counters: KernelCounters
    modelled_read: int
    modelled_written: int
    modelled_seconds: float


@cache
def backward_kernels(*recorded: Recording) -> list[Counted]:
    """Every recorded backward kernel of this project, of all recordings or of some."""
    found = []
    for each in recorded or recordings():
        for row in each.counters:
            if (row.provider, row.direction) == ("flash2", "backward"):
                own, hardware = (
                    (one for one in row.kernels if one.name in KERNELS),
                    gpu_named(each.device.gpu),
                )
                found += [beside_model(row.problem, one, hardware.key) for one in own]
    return found


def beside_model(problem: Problem, counters: KernelCounters, hardware: str) -> Counted:
    name, programs = KERNELS[counters.name], int(counters.grid.partition(" ")[0])
    by_keys = name == KEY_GRADIENTS
    heads = problem.batch * (problem.kv_heads if by_keys else problem.heads)
    rows = blocks(problem.seq_kv if by_keys else problem.seq_q, programs // heads)
    staying = max(16, 1 << (rows - 1).bit_length())  # the block size that cuts the length into so many
    queries, keys, *_ = own_tilings(problem)[KEY_GRADIENTS if by_keys else QUERY_GRADIENTS]
    sizes = (queries, staying) if by_keys else (staying, keys)
    simulation = simulate(experiment_of(problem, "backward", *sizes, hardware))
    phase = next(phase for phase in simulation.schedule.phases if phase.name == name)
    requested = requested_bytes(replace(simulation.schedule, phases=(phase,)))
    moved = requested.total_read, requested.total_written
    return Counted(problem, name, counters, *moved, simulation.modelled.parts[name])


@pytest.mark.parametrize("kernel", backward_kernels(), ids=lambda one: f"{one.problem.seq_q}-{one.name}")
def test_the_tiles_ask_for_the_bytes_that_the_chip_counts(kernel):
    # of dK and dV's kernel the chip also counts registers that spill, and not what its L1 cache serves
    near = {"rel": 0.06} if kernel.name == "dK and dV" else {"rel": 1e-9}
    counted_read = kernel.counters.tile_read
    if kernel.name == "row terms":  # two warps load the same line of lse, which L1 may lose in between
        again, rest = divmod(counted_read - kernel.modelled_read, LINE)
        assert rest == 0
        assert 0 <= again < 8
        counted_read -= again * LINE
    assert kernel.modelled_read == pytest.approx(counted_read, **near)
    if kernel.name != "dK and dV":
        assert kernel.modelled_written == kernel.counters.tile_written
    assert kernel.modelled_written <= kernel.counters.tile_written


BACKWARD = dict.fromkeys(kernel.problem for kernel in backward_kernels())


@pytest.mark.parametrize("hardware", ["h200", "h100"])
@pytest.mark.parametrize("problem", BACKWARD, ids=lambda one: f"{one.seq_q}")
def test_the_modelled_time_and_dram_bytes_are_near_the_recorded_ones(problem, hardware):
    kernels = [kernel for kernel in backward_kernels(recording_of(hardware)) if kernel.problem == problem]
    assert {kernel.name for kernel in kernels} == {"row terms", "dK and dV", "dQ"}
    seconds = sum(kernel.modelled_seconds for kernel in kernels)
    assert seconds == pytest.approx(sum(kernel.counters.seconds for kernel in kernels), rel=0.1)
    experiment = Experiment(problem=problem, algorithm="backward", asked=Tiling(128, 64), hardware=hardware)
    counted_read = sum(kernel.counters.dram_read for kernel in kernels)
    assert simulate(experiment).traffic.dram.total_read == pytest.approx(counted_read, rel=0.15)

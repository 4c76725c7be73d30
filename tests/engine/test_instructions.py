"""What the model counts in instructions, clocks and draws: against compiled code and an H200's counters."""

from __future__ import annotations

import numpy as np
import pytest

from engine import Experiment
from engine.model.block_seconds import block_instructions
from engine.model.launch import launch
from engine.model.occupancy import set_aside, threads_of
from engine.model.rates import FEW_ROWS_CYCLES, Rates, clock_left
from engine.model.unfused import issued_seconds
from engine.model.visit import by_instructions, mask_instructions, visit_instructions, visit_of
from engine.recordings.counters import recorded_counters
from engine.recordings.file import recording_of, recordings

CLOCK = 0.984 * 1.83e9  # Hz, of an H200
# instructions of a warp in the inner loop of flash2, by head dim and blocks: nvdisasm of sm_90a
LOOPS = {
    (64, 64, 32): 222,
    (64, 64, 64): 329,
    (64, 128, 32): 216,
    (128, 64, 64): 437,
    (128, 128, 64): 383,
    (128, 128, 128): 605,
    (128, 256, 64): 647,
    (80, 128, 64): 410,
    (96, 64, 64): 481,
    (256, 64, 64): 687,
    (256, 128, 64): 515,
    (256, 128, 32): 400,
}
# the same of few rows, and bytes of shared memory of a block
FEW_ROWS = {
    (64, 16, 16): (141, 10752),
    (64, 16, 32): (164, 19456),
    (64, 16, 64): (230, 36864),
    (64, 16, 128): (359, 71680),
    (64, 16, 256): (619, 141312),
    (64, 32, 16): (213, 13312),
    (64, 32, 32): (241, 22528),
    (64, 32, 64): (329, 40960),
    (64, 32, 128): (518, 77824),
    (64, 32, 256): (890, 151552),
    (128, 16, 16): (183, 20992),
    (128, 16, 32): (227, 37888),
    (128, 16, 64): (340, 71680),
    (128, 16, 128): (545, 139264),
    (128, 16, 256): (1055, 77824),
    (128, 32, 16): (273, 25600),
    (128, 32, 32): (319, 43008),
    (128, 32, 64): (460, 77824),
    (128, 32, 128): (759, 147456),
    (128, 32, 256): (1352, 90112),
}
# the same around the loops, by head dim, blocks (none: the kernel's own) and mask, N 2,048
AROUND = {
    (64, 64, 32, ""): 664,
    (64, 64, 32, "causal"): 828,
    (64, 64, 64, "window"): 1194,
    (64, 128, 64, ""): 653,
    (64, 128, 64, "causal"): 825,
    (64, 128, 64, "window"): 954,
    (80, 128, 32, "causal"): 1099,
    (80, 128, 64, ""): 1019,
    (80, 64, 64, "window"): 2060,
    (128, 64, 64, ""): 1077,
    (128, 64, 64, "causal"): 1526,
    (128, 64, 64, "window"): 1924,
    (128, 128, 64, ""): 961,
    (128, 128, 64, "causal"): 1214,
    (128, 128, 128, "causal"): 1516,
    (256, 128, 32, ""): 1501,
    (256, 128, 64, "window"): 2156,
    (64, None, None, "causal"): 799,
    (64, None, None, "window"): 878,
    (128, None, None, ""): 1091,
    (256, None, None, ""): 1490,
    (256, None, None, "window"): 1536,
}
# the same of a whole program of the kernel of S, by head dim, rows of a block and length
TILES = {
    (64, 128, 1024): 488,
    (64, 64, 1024): 504,
    (128, 128, 1024): 608,
    (128, 64, 1024): 648,
    (64, 128, 1001): 760,
}


def of(algorithm: str, **values):
    run = launch(Experiment.of(algorithm=algorithm, hardware="h200", heads=16, **values))
    return run, {kernel.phase.name: kernel.phase for kernel in run.kernels}


@pytest.mark.parametrize(("taken", "counted"), LOOPS.items())
def test_a_visit_issues_what_the_compiled_loop_does(taken, counted):
    """A scheduler issues one instruction of a warp per clock: four warps of a group, four schedulers."""
    head_dim, rows, keys = taken
    run, phases = of("flash2", seq=4096, head_dim=head_dim, block_q=rows, block_kv=keys)
    visit = visit_of(run, phases["attention"], Rates.of(run.gpu, "float16"))
    issued = visit.softmax * CLOCK / visit.groups
    exponentials = rows * keys / 16 / visit.groups  # 16 per clock and SM
    assert issued == pytest.approx(max(counted, exponentials), rel=0.09)


@pytest.mark.parametrize(("taken", "compiled"), FEW_ROWS.items())
def test_a_visit_of_few_rows_issues_and_sets_aside_what_the_compiled_kernel_does(taken, compiled):
    """The last of 256 keys at d 128 spill: 11 and 13% more than is counted for."""
    (head_dim, rows, keys), (counted, shared) = taken, compiled
    run, phases = of("flash2", seq=4096, head_dim=head_dim, block_q=rows, block_kv=keys)
    visit = visit_of(run, phases["attention"], Rates.of(run.gpu, "float16"))
    assert visit.softmax * CLOCK / FEW_ROWS_CYCLES == pytest.approx(counted, rel=0.17)
    assert set_aside(run.algorithm, run.schedule, phases["attention"], run.gpu) == shared


def test_blocks_of_few_rows_issue_and_run_as_an_h200_and_an_h100_counted():
    """32 x 64 at d 128: instructions within 6%, as many blocks on an SM, seconds within 10%."""
    for gpu in ("h200", "h100"):
        (one,) = (
            each
            for each in recorded_counters(recording_of(gpu))
            if each.experiment.algorithm == "flash2" and each.experiment.tiling.block_q == 32
        )
        run, (counters,) = launch(one.experiment), one.row.kernels
        (kernel,) = run.kernels
        visits = run.schedule.bounds.visible * kernel.heads
        visit = visit_of(run, kernel.phase, Rates.of(run.gpu, "float16"))
        issued = counters.issue_percent / 100 * counters.seconds * counters.sm_clock * run.gpu.sms
        assert visit.softmax * CLOCK / FEW_ROWS_CYCLES == pytest.approx(issued / visits, rel=0.06)
        assert counters.waves == pytest.approx(kernel.blocks / kernel.resident / run.gpu.sms, abs=0.01)
        assert one.modelled_seconds == pytest.approx(one.seconds, rel=0.1)


def test_a_block_issues_around_its_visits_what_the_compiled_kernel_does():
    """Half of them within 8%; of several loops the last counts less than the compiler makes of it."""
    off = []
    for (head_dim, rows, keys, mask), counted in AROUND.items():
        values = {"causal": mask != "", "window": 300 if mask == "window" else None, "seq": 2048}
        one = Experiment.of(algorithm="flash2", hardware="h200", heads=16, head_dim=head_dim, **values)
        run = launch(one.changed(block_q=rows, block_kv=keys) if rows else one.in_own_tiling())
        (kernel,) = run.kernels
        issued = block_instructions(run, kernel.phase) / threads_of(run.schedule, kernel.phase)
        off.append(issued / counted - 1)
    assert np.median(np.abs(off)) < 0.08
    assert -0.1 < np.mean(off) < 0
    assert np.abs(off).max() < 0.34


def test_calls_of_flash2_issue_what_an_h200_counted():
    """All instructions of a call, by the counter of those issued: a quarter of them around the visits."""
    off, much_around = [], []
    for one in (one for each in recordings() for one in recorded_counters(each)):
        run, (counters, *_) = launch(one.experiment), one.row.kernels
        (kernel, *_), bounds = run.kernels, run.schedule.bounds
        if one.experiment.algorithm != "flash2" or not by_instructions(run, kernel.phase):
            continue
        visits = bounds.visible * visit_instructions(run, kernel.phase)
        masked = (bounds.visible - bounds.full) * mask_instructions(run)
        around = kernel.count * block_instructions(run, kernel.phase)
        issued = counters.issue_percent / 100 * counters.seconds * counters.sm_clock * 128 * run.gpu.sms
        off.append(kernel.heads * (visits + masked + around) / issued - 1)
        if around > 0.2 * (visits + masked + around):
            much_around.append(off[-1])
    assert len(off) >= 40
    assert np.median(np.abs(off)) < 0.007
    assert np.abs(off).max() < 0.065
    assert len(much_around) >= 4
    assert np.abs(much_around).max() < 0.065


@pytest.mark.parametrize(("taken", "counted"), TILES.items())
def test_a_tile_of_s_issues_what_the_compiled_kernel_does(taken, counted):
    head_dim, rows, seq = taken
    run, phases = of("standard", seq=seq, head_dim=head_dim, block_q=rows, block_kv=64)
    warps = 8 if rows >= 128 else 4
    assert issued_seconds(run, phases["scores"]) * CLOCK == pytest.approx(counted * warps / 4, rel=0.12)


def test_the_clock_falls_as_an_h200s_counters_say():
    """Of calls of flash2 and flash3 of over 200 us: the clock beside the share in which tensor cores work."""
    found = [
        (kernel.tensor_percent / 100, kernel.sm_clock)
        for row in recording_of("h200").counters
        if row.provider in ("flash2", "flash3") and row.direction == "forward"
        for kernel in row.kernels
        if kernel.sm_clock and kernel.seconds > 2e-4
    ]
    off = [abs(CLOCK * clock_left(busy) / clock - 1) for busy, clock in found]
    assert len(off) > 50
    assert np.median(off) < 0.0135
    assert max(off) < 0.081

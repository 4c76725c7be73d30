"""The modelled backward kernels beside a GPU's own counters: their bytes, their time, their blocks."""

from dataclasses import replace

import pytest

from engine import Experiment, simulate
from engine.problem.problem import Tiling
from engine.recordings.backward_counters import RecordedBackwardKernel, recorded_backward_kernels
from engine.recordings.file import recording_of, recordings
from engine.recordings.recording import Recording

LINE = 128  # bytes: what a warp loads of lse


def counted(*recorded: Recording) -> list[RecordedBackwardKernel]:
    """Every recorded backward kernel of this project, of all recordings or of some."""
    return [kernel for each in recorded or recordings() for kernel in recorded_backward_kernels(each)]


def test_every_recorded_backward_call_is_held_to_the_model():
    assert len(counted()) >= 15
    assert {kernel.name for kernel in counted()} == {"row terms", "dK and dV", "dQ"}


@pytest.mark.parametrize("kernel", counted(), ids=lambda kernel: f"{kernel.problem.seq_q}-{kernel.name}")
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


@pytest.mark.parametrize("hardware", ["h200", "h100"])
@pytest.mark.parametrize(
    "problem", dict.fromkeys(kernel.problem for kernel in counted()), ids=lambda one: f"{one.seq_q}"
)
def test_the_modelled_time_and_dram_bytes_are_near_the_recorded_ones(problem, hardware):
    kernels = [kernel for kernel in counted(recording_of(hardware)) if kernel.problem == problem]
    seconds = sum(kernel.modelled_seconds for kernel in kernels)
    assert seconds == pytest.approx(sum(kernel.counters.seconds for kernel in kernels), rel=0.1)
    experiment = Experiment(problem=problem, algorithm="backward", asked=Tiling(128, 64), hardware=hardware)
    counted_read = sum(kernel.counters.dram_read for kernel in kernels)
    assert simulate(experiment).traffic.dram.total_read == pytest.approx(counted_read, rel=0.15)


@pytest.mark.parametrize("grid", ["4 x 1 x 1", "x", "99999999 x 1 x 1", ""])
def test_a_strangers_grid_is_left_out_or_cut_finely(grid):
    recording = recordings()[0]
    row = next(row for row in recording.counters if (row.provider, row.direction) == ("flash2", "backward"))
    strange = replace(row, kernels=(replace(row.kernels[1], grid=grid),))
    kept = recorded_backward_kernels(replace(recording, counters=(strange,)))
    assert [kernel.block_kv for kernel in kept] == ([16] if grid.startswith("9") else [])

"""The modelled backward kernels beside a GPU's own counters: their bytes, their time, their blocks."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pytest

from engine import Experiment, simulate
from engine.algorithms.backward import KEY_GRADIENTS, QUERY_GRADIENTS, ROW_TERMS, own_tilings
from engine.model.traffic import requested_bytes
from engine.problem.bounds import blocks
from engine.problem.hardware import gpu_named
from engine.problem.problem import Problem, Tiling
from engine.recordings.file import recording_of, recordings
from engine.recordings.recording import KernelCounters, Recording
from engine.recordings.rows import experiment_of

LINE = 128  # bytes: what a warp loads of lse
KERNELS = {
    "row_terms_kernel": ROW_TERMS,
    "key_gradient_kernel": KEY_GRADIENTS,
    "query_gradient_kernel": QUERY_GRADIENTS,
}


class Counted(NamedTuple):
    """One kernel of a backward pass with its counters, and the model in the blocks that its programs tell."""

    problem: Problem
    name: str
    counters: KernelCounters
    modelled_read: int
    modelled_written: int
    modelled_seconds: float


@cache
def counted(*recorded: Recording) -> list[Counted]:
    """Every recorded backward kernel of this project, of all recordings or of some."""
    found = []
    for each in recorded or recordings():
        for row in each.counters:
            if (row.provider, row.direction) == ("flash2", "backward"):
                hardware = gpu_named(each.device.gpu).key
                found += [
                    beside_model(row.problem, one, hardware) for one in row.kernels if one.name in KERNELS
                ]
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

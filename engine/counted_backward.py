"""A GPU's counters of each backward kernel, beside the model of the same kernel in the same blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.bounds import blocks
from engine.comparison import gpu_named
from engine.experiment import Problem
from engine.recorded import BACKWARD, OWN, experiment_of
from engine.recording import Counters, KernelCounters, Recording
from engine.schedules.backward import KEY_GRADIENTS, QUERY_GRADIENTS, ROW_TERMS
from engine.simulation import Simulation, simulate
from engine.traffic import requested_bytes

PASSING = 64  # rows of the blocks that pass by; how many stay is told by the launched programs
KERNELS = {
    "row_terms_kernel": ROW_TERMS,
    "key_gradient_kernel": KEY_GRADIENTS,
    "query_gradient_kernel": QUERY_GRADIENTS,
}


@dataclass(frozen=True)
class CountedKernel:
    """One kernel of a counted backward pass; bytes past the SMs, and seconds.

    Attributes:
        problem: what was run.
        name: the kernel, as the schedule calls it.
        block_q, block_kv: rows of its blocks.
        counters: the GPU's.
        modelled_read, modelled_written: what its tiles ask for.
        modelled_seconds: its modelled time.
    """

    problem: Problem
    name: str
    block_q: int
    block_kv: int
    counters: KernelCounters
    modelled_read: int
    modelled_written: int
    modelled_seconds: float


def counted_backward(recording: Recording) -> list[CountedKernel]:
    """Every kernel of this project's counted backward passes; none if the GPU is not known."""
    gpu = gpu_named(recording.device.gpu)
    if gpu is None:
        return []
    rows = [row for row in recording.counters if (row.provider, row.direction) == (OWN, BACKWARD)]
    return [
        _counted(row, counters, gpu.key)
        for row in rows
        for counters in row.kernels
        if counters.name in KERNELS
    ]


def _counted(row: Counters, counters: KernelCounters, hardware: str) -> CountedKernel:
    name = KERNELS[counters.name]
    simulation = _simulated(row.problem, name, int(counters.grid.split(" x ")[0]), hardware)
    schedule, tiling = simulation.schedule, simulation.schedule.tiling
    phase = next(phase for phase in schedule.phases if phase.name == name)
    asked = requested_bytes(replace(schedule, phases=(phase,)))
    return CountedKernel(
        *(row.problem, name, tiling.block_q, tiling.block_kv, counters),
        *(asked.total_read, asked.total_written, simulation.modelled.parts[name]),
    )


def _simulated(problem: Problem, name: str, programs: int, hardware: str) -> Simulation:
    """The backward pass in the blocks that make a kernel so many programs."""
    by_keys = name == KEY_GRADIENTS
    heads = problem.batch * (problem.kv_heads if by_keys else problem.heads)
    staying = _power_of_two(blocks(problem.seq_kv if by_keys else problem.seq_q, programs // heads))
    sizes = (PASSING, staying) if by_keys else (staying, PASSING)
    return simulate(experiment_of(problem, "backward", *sizes, hardware))


def _power_of_two(rows: int) -> int:
    """The block size that cuts a length into blocks of so many rows at most."""
    return max(16, 1 << (rows - 1).bit_length())

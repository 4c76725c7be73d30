"""A GPU's counters of each backward kernel, beside the model of the same kernel in the same blocks."""

from dataclasses import dataclass, replace

from engine.algorithms import BACKWARD, backward
from engine.algorithms.backward import KEY_GRADIENTS, QUERY_GRADIENTS, ROW_TERMS, own_tilings
from engine.model.simulation import Simulation, simulate
from engine.model.traffic import requested_bytes
from engine.problem.bounds import blocks
from engine.problem.hardware import gpu_named
from engine.problem.problem import Problem
from engine.recordings.recording import KernelCounters, Recording
from engine.recordings.rows import BACKWARD_PROVIDER, experiment_of

KERNELS = {
    "row_terms_kernel": ROW_TERMS,
    "key_gradient_kernel": KEY_GRADIENTS,
    "query_gradient_kernel": QUERY_GRADIENTS,
}


@dataclass(frozen=True)
class RecordedBackwardKernel:
    """One kernel of a backward pass with its counters; bytes past the SMs, and seconds."""

    problem: Problem  # what was run
    name: str  # the kernel, as the schedule calls it
    # block_q, block_kv: rows of its blocks
    block_q: int
    block_kv: int
    counters: KernelCounters  # the GPU's
    # modelled_read, modelled_written: what its tiles request
    modelled_read: int
    modelled_written: int
    modelled_seconds: float  # its modelled time


def recorded_backward_kernels(recording: Recording) -> list[RecordedBackwardKernel]:
    """Every kernel of this project's backward passes with counters; none if the GPU is not known.

    Left out are those of a stranger's file whose grid this project's kernels do not have.
    """
    gpu = gpu_named(recording.device.gpu)
    if gpu is None:
        return []
    kernels = (
        _beside_model(row.problem, counters, gpu.key)
        for row in recording.counters
        if (row.provider, row.direction) == (BACKWARD_PROVIDER, BACKWARD)
        for counters in row.kernels
        if counters.name in KERNELS
    )
    return [kernel for kernel in kernels if kernel is not None]


def _beside_model(problem: Problem, counters: KernelCounters, hardware: str) -> RecordedBackwardKernel | None:
    name, programs = KERNELS[counters.name], counters.grid.partition(" ")[0]
    try:
        simulation = _simulated(problem, name, int(programs), hardware)
    except ValueError:  # no number, fewer programs than heads, or no block that makes so few
        return None
    schedule, tiling = simulation.schedule, simulation.schedule.tiling
    phase = next(phase for phase in schedule.phases if phase.name == name)
    requested = requested_bytes(replace(schedule, phases=(phase,)))
    return RecordedBackwardKernel(
        *(problem, name, tiling.block_q, tiling.block_kv, counters),
        *(requested.total_read, requested.total_written, simulation.modelled.parts[name]),
    )


def _simulated(problem: Problem, name: str, programs: int, hardware: str) -> Simulation:
    """The backward pass in the blocks that make a kernel so many programs; raises ValueError.

    That tells how many rows stay; those that pass by are the kernel's own.
    """
    by_keys = name == KEY_GRADIENTS
    heads = problem.batch * (problem.kv_heads if by_keys else problem.heads)
    if programs < heads:
        raise ValueError(f"programs is {programs}; it must be at least {heads}")
    rows = blocks(problem.seq_kv if by_keys else problem.seq_q, programs // heads)
    staying = max(16, 1 << (rows - 1).bit_length())  # the block size that cuts the length into so many
    queries, keys, *_ = own_tilings(problem)[KEY_GRADIENTS if by_keys else QUERY_GRADIENTS]
    sizes = (queries, staying) if by_keys else (staying, keys)
    return simulate(experiment_of(problem, backward.ALGORITHM.key, *sizes, hardware))

"""FlashAttention-2: query blocks outside, key blocks inside, O written once.

Tri Dao, arXiv 2307.08691, Algorithm 1.
"""

from dataclasses import replace

from engine.algorithms.record import Algorithm, attention_parts
from engine.problem.bounds import key_bounds
from engine.problem.hardware import Gpu
from engine.problem.problem import Problem, Tiling
from engine.schedule.nest import Phase
from engine.schedule.programs import Programs
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Step, Tensor, load, store
from kernels.tilings import flash2 as kernel

VISIT = (  # Algorithm 1's inner loop
    *map(load, (Tensor.K, Tensor.V)),
    *map(Step, (Operation.SCORES, Operation.MAXIMUM, Operation.RESCALE, Operation.ACCUMULATE)),
)


def schedule(problem: Problem, tiling: Tiling) -> Schedule:
    """One head: each query block stays on the chip while the key blocks that it sees pass by."""
    bounds = key_bounds(problem, tiling)
    copied = tuple(replace(step, boxed=tiling.own and step.operation == Operation.LOAD) for step in VISIT)
    ends = store(Tensor.O), store(Tensor.LSE)  # O / l and m + log l are written once
    programs = Programs(bounds.first, bounds.stop)
    phase = Phase("attention", "query", programs, (load(Tensor.Q),), copied, ends)
    return Schedule(problem, tiling, (phase,), bounds)


def own_tiling(problem: Problem, gpu: Gpu) -> Tiling:
    """The kernel's: in 16 bits by head dimension where TMA copies K and V, with few keys another one."""
    dims, v_dim = problem.head_dim, problem.head_dim_v
    known = dims in kernel.OWN_TILING if v_dim is None else (dims, v_dim) in kernel.V_TILING
    if problem.dtype == "float32" or not known or not gpu.device.tma:
        return Tiling(*kernel.default_blocks(problem.widest, problem.itemsize, gpu.device))
    block_q, block_kv, _, stages = kernel.own_tiling(dims, problem.seq_kv, v_dim, gpu.device)
    return Tiling(block_q, block_kv, stages=stages, own=True)


def tiling(problem: Problem, asked: Tiling, gpu: Gpu) -> Tiling:
    """As asked, or the kernel's own where that is asked."""
    return replace(own_tiling(problem, gpu), splits=asked.splits) if asked.own else asked


def heads_together(problem: Problem, taken: Tiling) -> int:
    """Several in the kernel's own tiling, with many keys and no window; with blocks given, one by one."""
    many = taken.own and problem.seq_kv > kernel.SHORT and problem.mask.window is None
    return kernel.HEADS_TOGETHER[1 << (problem.widest - 1).bit_length()] if many else 1


def loops(problem: Problem, taken: Tiling) -> int:
    """A window's far edge, whole tiles, the diagonal or a ragged end; one in its own tilings beyond d 64."""
    if taken.own and problem.head_dim > 64:
        return 1
    before = problem.mask.window is not None or problem.mask.packed
    return 1 + before + (before or problem.mask.causal or problem.seq_kv % taken.block_kv > 0)


ALGORITHM = Algorithm(
    *("flash2", "FlashAttention-2", "Flash 2", 2, schedule, attention_parts),
    tensors=(Tensor.Q, Tensor.K, Tensor.V, Tensor.O, Tensor.LSE),
    tiling=tiling,
    own_tiling=own_tiling,
    heads_together=heads_together,
    loops=loops,
    heavy_first=True,
    techniques=frozenset({"fusion", "queries", "tiling", "online", "deferred", "asynchronous"}),
    kernel="flash2",
    probed=True,
    code=28_000,
    traced=True,
    differentiable=True,
    interpreter_ms=(6.0, 0.1),
)

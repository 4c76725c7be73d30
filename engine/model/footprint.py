"""What a tiling keeps on the chip, what the tensors take in memory, and the longest context that fits.

`sram_bytes` counts every tile that a thread block holds at once, each a single time: Q, K and V in the
tensors' dtype, S and O as float32 accumulators, m and l. That is the M of the FlashAttention papers (arXiv
2205.14135, Theorem 2). A real kernel keeps S, O, m and l in registers (`register_bytes`) and may hold K and V
several times over to hide latency. Of FlashAttention-3, one kernel with blocks of its own, what counts is the
shared memory that it sets aside, every buffer of Q, K and V; its S, O, m and l are in registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.experiment import Experiment
from engine.model.launch import schedule_of
from engine.model.occupancy import blocks_per_sm
from engine.problem.hardware import GB, KIB
from engine.problem.problem import Problem
from engine.schedule.step import PARTIALS, Tensor, block_bytes, copies

MISFIT = "Does not fit"  # the verdict on what a GPU cannot hold
ACCUMULATOR_BYTES = 4  # sums and scores are float32 on the chip whatever the dtype
RESIDENT = {
    "standard": (Tensor.Q, Tensor.K, Tensor.V, Tensor.O, Tensor.S, Tensor.P, Tensor.LSE),
    "flash1": (Tensor.Q, Tensor.K, Tensor.V, Tensor.O, Tensor.STATISTICS),
    "flash2": (Tensor.Q, Tensor.K, Tensor.V, Tensor.O, Tensor.LSE),
    "flash3": (Tensor.Q, Tensor.K, Tensor.V, Tensor.O, Tensor.LSE),
    "backward": (
        *(Tensor.Q, Tensor.K, Tensor.V, Tensor.O, Tensor.LSE, Tensor.D_O, Tensor.D_Q, Tensor.D_K, Tensor.D_V),
        *(Tensor.DELTA, Tensor.LSE_LOG2),
    ),
    "split_kv": (Tensor.Q, Tensor.K, Tensor.V, Tensor.O, Tensor.LSE, *PARTIALS),
}
ON_CHIP = (
    *(Tensor.S, Tensor.O, Tensor.STATISTICS),
    *(Tensor.D_P, Tensor.D_Q, Tensor.D_K, Tensor.D_V),
)  # what a real kernel keeps in registers
KV_BUFFERS = 2  # of flash3, for K and for V: one fills while the other is used
COMBINED_AT_ONCE = 16  # splits, of one row, by a program of split_kv's second kernel
LARGEST_BUFFERED = 128  # head dimension up to which flash3 has a second Q buffer, for the next tile's


@dataclass(frozen=True)
class Part:
    """One tile on the chip."""

    label: str
    tensor: Tensor
    bytes: int


@dataclass(frozen=True)
class Footprint:
    """What one thread block keeps on the chip.

    Attributes:
        kernel: the kernel that holds the most.
        parts: its tiles.
        sram_bytes: their sum.
        capacity_bytes: what the GPU gives one thread block.
        fits: whether the first is within the second.
        register_bytes: the share of sram_bytes that a real kernel keeps in registers.
        blocks_per_sm: of the real kernel on one SM, see `engine.model.occupancy`; 0 if one does not fit.
        words: the same in words: the verdict, then what it rests on.
    """

    kernel: str
    parts: tuple[Part, ...]
    sram_bytes: int
    capacity_bytes: int
    fits: bool
    register_bytes: int
    blocks_per_sm: int
    words: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The words as one sentence."""
        return in_one_sentence(self.words)


def footprint(experiment: Experiment) -> Footprint:
    """The on-chip footprint of an experiment's largest kernel."""
    gpu = experiment.gpu
    kernel, parts = max(
        kernel_parts(experiment).items(), key=lambda item: sum(part.bytes for part in item[1])
    )
    sram = sum(part.bytes for part in parts)
    fits = sram <= gpu.shared_bytes_block
    resident = _resident(experiment, kernel) if fits else 0
    need, capacity = -(-sram // KIB), gpu.shared_bytes_block // KIB
    if fits:
        each = "block" if resident == 1 else "blocks"
        words = (
            *("Fits", f"{need} KB of {capacity} KB"),
            *(f"{resident} {each} an SM", f"{resident * gpu.sms:,} at once"),
        )
    else:
        held = _in_registers(parts, gpu.shared_bytes_block)
        words = (
            *(MISFIT, f"needs {need:,} KB{held}"),
            f"{gpu.with_article} gives a block {capacity} KB",
        )
    return Footprint(
        kernel=kernel,
        parts=parts,
        sram_bytes=sram,
        capacity_bytes=gpu.shared_bytes_block,
        fits=fits,
        register_bytes=sum(part.bytes for part in parts if part.tensor in ON_CHIP),
        blocks_per_sm=resident,
        words=words,
    )


def in_one_sentence(words: tuple[str, ...]) -> str:
    """A verdict and what it rests on, as a sentence."""
    verdict, *reasons = words
    return f"{verdict}: {', '.join(reasons)}."


def misfit(experiment: Experiment) -> tuple[str, ...]:
    """Why an experiment cannot run on its GPU at all, as words of a verdict; none where it can."""
    gpu, memory, on_chip = experiment.gpu, memory_bytes(experiment), footprint(experiment)
    if memory > gpu.memory_bytes:
        need, has = -(-memory // GB), gpu.memory_bytes // GB  # not what it has, however little is missing
        return MISFIT, f"needs {need:,} GB of memory", f"{gpu.with_article} has {has:,} GB"
    return () if on_chip.fits else on_chip.words


def _in_registers(parts: tuple[Part, ...], capacity: int) -> str:
    """What makes tiles too large that a real kernel keeps in registers, in words; else nothing."""
    tiles = [part for part in parts if part.tensor in ON_CHIP]
    if sum(part.bytes for part in parts if part not in tiles) > capacity:
        return ""
    names = [part.label for part in tiles if part.tensor != Tensor.STATISTICS]
    return f" with {' and '.join(names) if len(names) <= 2 else 'its sums'}"


def _resident(experiment: Experiment, kernel: str) -> int:
    """Blocks of one kernel that share an SM, as real ones do: S and O in registers, K and V several times."""
    schedule = schedule_of(experiment)
    return next(
        blocks_per_sm(experiment, schedule, phase) for phase in schedule.phases if phase.name == kernel
    )


def kernel_parts(experiment: Experiment) -> dict[str, tuple[Part, ...]]:
    """The tiles that every kernel of the algorithm holds at once, by the kernel's name."""
    if experiment.algorithm == "backward":
        return _backward_parts(experiment)
    problem, rows, keys = experiment.problem, experiment.blocks.block_q, experiment.blocks.block_kv
    q, k, v, p = (
        Part(tensor.name, tensor, block_bytes(problem, tensor).of(rows, keys))
        for tensor in (Tensor.Q, Tensor.K, Tensor.V, Tensor.P)
    )
    if experiment.algorithm == "flash3":
        buffers = 2 if problem.head_dim <= LARGEST_BUFFERED else 1
        return {"attention": (_times(q, buffers), _times(k, KV_BUFFERS), _times(v, KV_BUFFERS))}
    s = Part("S", Tensor.S, rows * keys * ACCUMULATOR_BYTES)
    o = Part("O", Tensor.O, rows * problem.head_dim * ACCUMULATOR_BYTES)
    if experiment.algorithm != "standard":
        statistics = Part("m, l", Tensor.STATISTICS, block_bytes(problem, Tensor.STATISTICS).of(rows, keys))
        if experiment.algorithm == "split_kv":
            return {"split": (q, k, v, s, o, statistics), "combine": _combine_parts(problem)}
        return {"attention": (q, k, v, s, o, statistics)}
    row = Part("a row of S", Tensor.S, problem.seq_kv * ACCUMULATOR_BYTES)
    return {"scores": (q, k, s), "softmax": (row,), "output": (p, v, o)}


def _combine_parts(problem: Problem) -> tuple[Part, ...]:
    """The tiles that combine one row's splits."""
    partial = block_bytes(problem, Tensor.PARTIAL).of(1, 1)
    return (
        Part(f"{COMBINED_AT_ONCE} partial O", Tensor.PARTIAL, COMBINED_AT_ONCE * partial),
        Part("O", Tensor.O, problem.head_dim * ACCUMULATOR_BYTES),
    )


def _backward_parts(experiment: Experiment) -> dict[str, tuple[Part, ...]]:
    """The tiles of the backward kernels: P takes the place of S, and dS that of dP."""
    problem, rows, keys = experiment.problem, experiment.tiling.block_q, experiment.tiling.block_kv

    def loaded(label: str, tensor: Tensor) -> Part:
        return Part(label, tensor, block_bytes(problem, tensor).of(rows, keys))

    def summed(label: str, tensor: Tensor, values: int) -> Part:
        return Part(label, tensor, values * ACCUMULATOR_BYTES)

    d_o, lse, delta = (
        loaded("dO", Tensor.D_O),
        loaded("lse", Tensor.LSE_LOG2),
        loaded("δ", Tensor.DELTA),
    )
    inputs = (loaded("Q", Tensor.Q), loaded("K", Tensor.K), loaded("V", Tensor.V), d_o, lse, delta)
    tiles = (summed("S", Tensor.S, rows * keys), summed("dP", Tensor.D_P, rows * keys))
    d_k, d_v = (
        summed(label, tensor, keys * problem.head_dim)
        for label, tensor in (("dK", Tensor.D_K), ("dV", Tensor.D_V))
    )
    d_q = summed("dQ", Tensor.D_Q, rows * problem.head_dim)
    return {
        "row terms": (loaded("O", Tensor.O), d_o, loaded("lse", Tensor.LSE), delta),
        "dK and dV": (*inputs, *tiles, d_k, d_v),
        "dQ": (*inputs, *tiles, d_q),
    }


def _times(part: Part, buffers: int) -> Part:
    """So many buffers of a tile as one part."""
    return part if buffers == 1 else Part(f"{buffers} × {part.label}", part.tensor, buffers * part.bytes)


def memory_parts(experiment: Experiment) -> Mapping[Tensor, int]:
    """Bytes of device memory that each tensor takes, over batch and heads."""
    return _memory_parts(experiment.problem, experiment.algorithm, experiment.tiling.splits)


def memory_bytes(experiment: Experiment) -> int:
    """Bytes of device memory that all tensors take together."""
    return sum(memory_parts(experiment).values())


def largest_context(experiment: Experiment) -> int:
    """The most keys whose tensors fit the GPU's memory; queries grow along where there are as many."""
    problem = experiment.problem

    def fits(keys: int) -> bool:
        queries = keys if problem.seq_q == problem.seq_kv else problem.seq_q
        longer = replace(problem, seq_q=queries, seq_kv=keys)
        parts = _memory_parts(longer, experiment.algorithm, experiment.tiling.splits)
        return sum(parts.values()) <= experiment.gpu.memory_bytes

    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _memory_parts(problem: Problem, algorithm: str, splits: int) -> dict[Tensor, int]:
    return {
        tensor: block_bytes(problem, tensor).of(problem.seq_q, problem.seq_kv)
        * copies(problem, tensor, splits)
        for tensor in RESIDENT[algorithm]
    }

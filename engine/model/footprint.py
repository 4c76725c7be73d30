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

from engine.algorithms import Part
from engine.experiment import Experiment
from engine.model.launch import Launch
from engine.problem.hardware import GB, KIB, Gpu
from engine.problem.problem import Problem
from engine.schedule.step import Tensor, block_bytes, copies

MISFIT = "Does not fit"  # the verdict on what a GPU cannot hold
IN_REGISTERS = (
    *(Tensor.S, Tensor.O, Tensor.STATISTICS),
    *(Tensor.D_P, Tensor.D_Q, Tensor.D_K, Tensor.D_V),
)  # what a real kernel keeps in registers


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
        blocks: that the kernel launches.
        gpu: the GPU.
    """

    kernel: str
    parts: tuple[Part, ...]
    sram_bytes: int
    capacity_bytes: int
    fits: bool
    register_bytes: int
    blocks_per_sm: int
    blocks: int
    gpu: Gpu

    @property
    def words(self) -> tuple[str, ...]:
        """Whether it fits, and what that rests on: what is needed, and what there is."""
        need, capacity = -(-self.sram_bytes // KIB), self.capacity_bytes // KIB
        if self.fits:
            return "Fits", f"{need} KiB of {capacity} KiB"
        needed = f"needs {need:,} KiB{self._in_registers()}"
        return MISFIT, needed, f"{self.gpu.with_article} allows {capacity} KiB per block"

    @property
    def verdict(self) -> str:
        """Whether it fits, and what it needs."""
        return f"{self.words[0]}: {self.words[1]}"

    @property
    def consequence(self) -> str:
        """How many blocks run at once; where it does not fit, what there is and what would."""
        if self.fits:
            each, sms = self.blocks_per_sm, self.gpu.sms
            fit = "1 thread block fits" if each == 1 else f"{each} thread blocks fit"
            if self.blocks < sms:
                launched = "1 is launched" if self.blocks == 1 else f"{self.blocks:,} are launched"
                return f"{fit} on each SM, but only {launched}: {self.blocks:,} of {sms} SMs are busy."
            at_once = min(each * sms, self.blocks)
            return f"{fit} on each SM: {at_once:,} run at once, of {self.blocks:,} in all."
        return (
            f"These tiles are too big for {self.gpu.with_article}: one thread block may use "
            f"{self.capacity_bytes // KIB} KiB. Choose smaller blocks, a smaller head dimension or "
            "another GPU."
        )

    @property
    def sentence(self) -> str:
        """Both together."""
        return f"{self.verdict}. {self.consequence}"

    def _in_registers(self) -> str:
        """What makes tiles too large that a real kernel keeps in registers, in words; else nothing."""
        tiles = [part for part in self.parts if part.tensor in IN_REGISTERS]
        if sum(part.bytes for part in self.parts if part not in tiles) > self.capacity_bytes:
            return ""
        names = [part.label for part in tiles if part.tensor != Tensor.STATISTICS]
        return f" with {' and '.join(names) if len(names) <= 2 else 'its sums'}"


def footprint(launch: Launch) -> Footprint:
    """The on-chip footprint of a launch's largest kernel."""
    name, parts = max(launch.parts.items(), key=lambda item: sum(part.bytes for part in item[1]))
    sram, capacity = sum(part.bytes for part in parts), launch.gpu.shared_bytes_block
    fits = sram <= capacity
    kernel = next(each for each in launch.kernels if each.phase.name == name)
    return Footprint(
        kernel=name,
        parts=parts,
        sram_bytes=sram,
        capacity_bytes=capacity,
        fits=fits,
        register_bytes=sum(part.bytes for part in parts if part.tensor in IN_REGISTERS),
        blocks_per_sm=kernel.resident if fits else 0,
        blocks=kernel.blocks,
        gpu=launch.gpu,
    )


def misfit(experiment: Experiment, launch: Launch) -> tuple[str, ...]:
    """Why an experiment cannot run on its GPU at all, as a verdict and its reasons; none where it can."""
    gpu, memory, on_chip = experiment.gpu, memory_bytes(experiment), footprint(launch)
    if memory > gpu.memory_bytes:
        need, has = -(-memory // GB), gpu.memory_bytes // GB  # not what it has, however little is missing
        return MISFIT, f"needs {need:,} GB of memory", f"{gpu.with_article} has {has:,} GB"
    return () if on_chip.fits else on_chip.words


def memory_parts(experiment: Experiment) -> Mapping[Tensor, int]:
    """Bytes of device memory that each tensor takes, over batch and heads."""
    return _memory_parts(experiment, experiment.problem)


def memory_bytes(experiment: Experiment) -> int:
    """Bytes of device memory that all tensors take together."""
    return sum(memory_parts(experiment).values())


def largest_context(experiment: Experiment) -> int:
    """The most keys whose tensors fit the GPU's memory; queries grow along where there are as many."""
    problem = experiment.problem

    def fits(keys: int) -> bool:
        queries = keys if problem.seq_q == problem.seq_kv else problem.seq_q
        longer = replace(problem, seq_q=queries, seq_kv=keys)
        return sum(_memory_parts(experiment, longer).values()) <= experiment.gpu.memory_bytes

    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _memory_parts(experiment: Experiment, problem: Problem) -> dict[Tensor, int]:
    return {
        tensor: block_bytes(problem, tensor).of(problem.seq_q, problem.seq_kv)
        * copies(problem, tensor, experiment.asked.splits)
        for tensor in experiment.record.tensors
    }

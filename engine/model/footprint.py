"""What a tiling keeps on the chip.

`sram_bytes` counts every tile that a thread block holds at once, each a single time: Q, K and V in the
tensors' dtype, S and O as float32 accumulators, m and l. That is the M of the FlashAttention papers (arXiv
2205.14135, Theorem 2). A real kernel keeps S, O, m and l in registers (`register_bytes`), and runs if there
are too few: they spill. What it must have in shared memory is `shared_bytes`: the tiles that it loads, as
many times as `Algorithm.fewest_stages` says where they stream. Of FlashAttention-3, one kernel with blocks of
its own, the parts are the buffers of Q, K and V that it sets aside.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.algorithms import Part
from engine.experiment import Experiment
from engine.model.device_memory import memory_bytes
from engine.model.launch import Launch
from engine.model.occupancy import MOST_REGISTERS, threads_of
from engine.model.unfused_rows import REGISTER_BYTES
from engine.problem.hardware import GB, KIB, Gpu
from engine.schedule.nest import Phase
from engine.schedule.step import Operation, Tensor

MISFIT = "Does not fit"  # the verdict on what a GPU cannot hold
IN_REGISTERS = (
    *(Tensor.S, Tensor.O, Tensor.STATISTICS),
    *(Tensor.D_P, Tensor.D_Q, Tensor.D_K, Tensor.D_V),
)  # what a real kernel keeps in registers


@dataclass(frozen=True)
class Footprint:
    """What one thread block keeps on the chip.

    >>> from engine import Experiment, simulate
    >>> simulate(Experiment.of(head_dim=64, block_q=64, block_kv=64)).footprint.verdict
    'Fits: 24 KiB of 227 KiB of shared memory'
    """

    kernel: str  # the kernel that holds the most
    parts: tuple[Part, ...]  # its tiles
    sram_bytes: int  # their sum, and the most of any kernel
    shared_bytes: int  # shared memory that the real kernel which needs most needs at least
    capacity_bytes: int  # shared memory that the GPU gives one thread block
    fits: bool  # whether shared_bytes is within capacity_bytes
    register_bytes: int  # the share of sram_bytes that a real kernel keeps in registers
    threads_bytes: int  # registers that the threads of its block have, bytes; 255 each
    blocks_per_sm: int  # of the real kernel on one SM, see `engine.model.occupancy`; 0 if one does not fit
    blocks: int  # that the kernel launches
    gpu: Gpu  # the GPU

    @property
    def words(self) -> tuple[str, ...]:
        """Whether it fits, and what that rests on: what is needed, and what there is."""
        need, capacity = -(-self.shared_bytes // KIB), self.capacity_bytes // KIB
        if self.fits:
            return "Fits", f"{need} KiB of {capacity} KiB of shared memory"
        needed = f"needs {need:,} KiB of shared memory"
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
        """All together."""
        return f"{self.verdict}. {self.consequence}{self.spilled}"

    @property
    def spilled(self) -> str:
        """That sums take more registers than there are, and what follows; else nothing."""
        if not self.fits or self.register_bytes <= self.threads_bytes:
            return ""
        return (
            f" Its sums take {self.register_bytes // KIB} KiB and a block has {self.threads_bytes // KIB} "
            "KiB of registers, so some spill to memory."
        )


def footprint(launch: Launch) -> Footprint:
    """The on-chip footprint of a launch's kernel that needs the most."""
    kernels = {each.phase.name: each for each in launch.kernels}
    name, parts = max(launch.parts.items(), key=lambda item: sum(part.bytes for part in item[1]))
    kernel = kernels[name]
    shared = max(_shared_bytes(launch, each.phase, launch.parts[each.phase.name]) for each in launch.kernels)
    fits = shared <= launch.gpu.shared_bytes_block
    return Footprint(
        kernel=name,
        parts=parts,
        sram_bytes=sum(part.bytes for part in parts),
        shared_bytes=shared,
        capacity_bytes=launch.gpu.shared_bytes_block,
        fits=fits,
        register_bytes=sum(part.bytes for part in parts if part.tensor in IN_REGISTERS),
        threads_bytes=MOST_REGISTERS * REGISTER_BYTES * threads_of(launch.schedule, kernel.phase),
        blocks_per_sm=kernel.resident if fits else 0,
        blocks=kernel.blocks,
        gpu=launch.gpu,
    )


def _shared_bytes(launch: Launch, phase: Phase, parts: Iterable[Part]) -> int:
    """What one kernel must have in shared memory: what it loads, in as many stages as it has at least."""
    moved = {step.operation for step in phase.each}
    streams = Operation.LOAD in moved and Operation.STORE not in moved
    stages = launch.algorithm.fewest_stages if streams else 1
    return stages * sum(part.bytes for part in parts if part.tensor not in IN_REGISTERS)


def misfit(experiment: Experiment, launch: Launch) -> tuple[str, ...]:
    """Why an experiment cannot run on its GPU at all, as a verdict and its reasons; none where it can."""
    gpu, memory, on_chip = experiment.gpu, memory_bytes(experiment), footprint(launch)
    if memory > gpu.memory_bytes:
        need, has = -(-memory // GB), gpu.memory_bytes // GB  # not what it has, however little is missing
        return MISFIT, f"needs {need:,} GB of memory", f"{gpu.with_article} has {has:,} GB"
    return () if on_chip.fits else on_chip.words

"""The memories of a GPU from the registers out: how much each holds, and how fast bytes leave it."""

from dataclasses import dataclass

from engine.model.rates import Rates
from engine.problem.hardware import Gpu

REGISTERS, SHARED, L2, HBM = "registers", "shared memory", "L2", "HBM"


@dataclass(frozen=True)
class Memory:
    """One kind of memory of a whole GPU."""

    name: str  # as the field calls it
    bytes: int  # of all of it on the GPU
    parts: int  # how many it is divided into, one per SM; 1 where all SMs share it
    bytes_per_second: float | None  # peak, towards the arithmetic; None for registers
    # bytes/s of that which kernels reach, fitted or measured on an H200; None where not known
    reached: float | None

    @property
    def each(self) -> int:
        """Bytes of one part."""
        return self.bytes // self.parts


def memories(gpu: Gpu) -> tuple[Memory, ...]:
    """Registers, shared memory, L2 and HBM, the nearest to the arithmetic first.

    Sizes and rates are those of `engine.problem.hardware`, which says where each is from.
    """
    rates = Rates.of(gpu, "float16")
    return (
        Memory(REGISTERS, gpu.sms * gpu.register_bytes_sm, gpu.sms, None, None),
        Memory(SHARED, gpu.sms * gpu.shared_bytes_sm, gpu.sms, gpu.shared_bytes_per_second, None),
        Memory(L2, gpu.l2_bytes, 1, gpu.cache_bytes_per_second, rates.cache),
        Memory(HBM, gpu.memory_bytes, 1, gpu.memory_bytes_per_second, rates.memory),
    )

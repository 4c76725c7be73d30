"""What a GPU has and was measured to reach: its memories, vendor's figures, and what the model takes."""

from collections.abc import Iterator
from dataclasses import dataclass

from engine.model.rates import Rates
from engine.problem.calibration import BENCHMARKS, FROM_DRAM, ORDER, READ, Calibration
from engine.problem.hardware import Gpu

BETWEEN = ("s", "Hz")  # of what has no best: the least and the most
Row = tuple[str, str, str, float, float, float | None]


def origin(found: Calibration) -> str:
    """When, on what and in how many seconds a GPU was calibrated."""
    return f"Measured on one {found.gpu} on {found.date[:10]} in {found.seconds:.0f} s, driver {found.driver}"


def measured(found: Calibration, gpu: Gpu) -> Iterator[Row]:
    """(benchmark, series, unit, least, most, the vendor's figure) of all; twice the best, if any."""
    for key, one in BENCHMARKS.items():
        for name, points in found.series[key].items():
            if name in (ORDER, FROM_DRAM):
                continue
            numbers = [y for _, y in (points[-1:] if name == READ else points)]  # of HBM, the largest
            least = min(numbers) if one.unit in BETWEEN else max(numbers)
            yield one.title, name, one.unit, least, max(numbers), one.expected(gpu).get(name)


def taken(gpu: Gpu) -> list[tuple[str, str, float]]:
    """(what it is, its unit, what the model takes of a GPU); shares have no unit."""
    reached = gpu.reached
    return [
        ("tensor cores' peak, by long products", "", reached.matrix),
        ("HBM's bandwidth, by reads", "", reached.reads),
        ("HBM's bandwidth, by copies", "", reached.copies),
        ("what L2 delivers", "", reached.cache),
        ("wait for a tile from DRAM", "s", reached.latency),
        ("wait for a tile from L2", "s", reached.l2_latency),
        ("from one kernel to the next", "s", reached.launch),
        ("more between two events", "s", reached.between_events),
        ("clock with tensor cores at work", "Hz", gpu.running_clock),
        ("the same, when they work all the time", "Hz", gpu.running_clock * reached.clock_left(1.0)),
        ("share of that which lasts", "", reached.sustained_clock),
        ("time after which it falls to that", "s", reached.sustained_from),
    ]


REGISTERS, SHARED, L2, HBM = "registers", "shared memory", "L2", "HBM"


@dataclass(frozen=True)
class Memory:
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
    """Registers, shared memory, L2 and HBM, the nearest to the arithmetic first."""
    rates = Rates.of(gpu, "float16")
    return (
        Memory(REGISTERS, gpu.sms * gpu.register_bytes_sm, gpu.sms, None, None),
        Memory(SHARED, gpu.sms * gpu.shared_bytes_sm, gpu.sms, gpu.shared_bytes_per_second, None),
        Memory(L2, gpu.l2_bytes, 1, gpu.cache_bytes_per_second, rates.cache),
        Memory(HBM, gpu.memory_bytes, 1, gpu.memory_bytes_per_second, rates.memory),
    )

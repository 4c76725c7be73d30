"""What a GPU was measured to reach, beside its vendor's figures, and what the model takes of it."""

from collections.abc import Iterator

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

"""What a GPU was measured to reach, beside its vendor's figures, and what the model takes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.problem.calibration import BENCHMARKS, FROM_DRAM, READ, Series
from engine.problem.hardware import CALIBRATIONS, Gpu

BETWEEN = ("s", "Hz")  # of what has no best: the least and the most


@dataclass(frozen=True)
class Measured:
    """One series of a benchmark: the best of it, or the least and the most.

    Attributes:
        title, name, unit: of the benchmark, of the series, of the numbers.
        least, most: of the numbers; alike where the best counts.
        vendor: what the vendor's figures say; None where they say nothing.
        share: the most over that.
    """

    title: str
    name: str
    unit: str
    least: float
    most: float
    vendor: float | None
    share: float | None


@dataclass(frozen=True)
class Drawn:
    """The picture of a benchmark: its points, and what was to be expected of each series."""

    title: str
    unit: str
    over: str
    sentence: str
    series: Series
    expected: Mapping[str, float]
    apart: bool  # whether its x lie by factors apart


def origin(gpu: Gpu) -> str | None:
    """When, on what and in how many seconds a GPU was calibrated; None where it was not."""
    if (found := CALIBRATIONS.get(gpu.key)) is None:
        return None
    return f"Measured on one {found.gpu} on {found.date[:10]} in {found.seconds:.0f} s, driver {found.driver}"


def refused(gpu: Gpu) -> str:
    """Why the chip's own counters were not read when a GPU was calibrated; empty where they were."""
    return CALIBRATIONS[gpu.key].refused if gpu.key in CALIBRATIONS else ""


def measured(gpu: Gpu) -> tuple[Measured, ...]:
    """Every series of a GPU's calibration; none without one."""
    rows = []
    for key, drawn in pictures(gpu).items():
        for name, points in drawn.series.items():
            if key == "order" or name == FROM_DRAM:
                continue
            numbers, vendor = [y for _, y in points], drawn.expected.get(name)
            if name == READ:  # of HBM, the largest
                numbers = numbers[-1:]
            most, least = max(numbers), min(numbers)
            least = least if drawn.unit in BETWEEN else most
            share = most / vendor if vendor else None
            rows.append(Measured(drawn.title, name, drawn.unit, least, most, vendor, share))
    return tuple(rows)


def pictures(gpu: Gpu) -> dict[str, Drawn]:
    """The benchmarks of a GPU's calibration, by their keys; none without one."""
    if (found := CALIBRATIONS.get(gpu.key)) is None:
        return {}
    drawn = {}
    for key, one in BENCHMARKS.items():
        series = {name: points for name, points in found.series[key].items() if name != FROM_DRAM}
        apart = key in ("memory", "waits", "products")
        drawn[key] = Drawn(one.title, one.unit, one.over, one.sentence, series, one.expected(gpu), apart)
    return drawn


def taken(gpu: Gpu) -> tuple[tuple[str, str, float, float | None], ...]:
    """(what it is, its unit, what the model takes of a GPU, what was measured); shares have no unit."""
    found = CALIBRATIONS.get(gpu.key)
    own = _taken(gpu)
    measured = _taken(replace(gpu, reached=found.reached(gpu))) if found else ((None,) * 3,) * len(own)
    return tuple((what, unit, value, by[1]) for (what, value, unit), by in zip(own, measured, strict=True))


def _taken(gpu: Gpu) -> tuple[tuple[str, float, str], ...]:
    reached = gpu.reached
    return (
        ("tensor cores' peak, by long products", reached.matrix, ""),
        ("HBM's bandwidth, by reads", reached.reads, ""),
        ("HBM's bandwidth, by copies", reached.copies, ""),
        ("what L2 delivers", reached.cache, ""),
        ("wait for a tile from DRAM", reached.latency, "s"),
        ("wait for a tile from L2", reached.l2_latency, "s"),
        ("from one kernel to the next", reached.launch, "s"),
        ("more between two events", reached.between_events, "s"),
        ("clock with tensor cores at work", gpu.running_clock, "Hz"),
        ("the same, when they work all the time", gpu.running_clock * reached.clock_left(1.0), "Hz"),
        ("share of that which lasts", reached.sustained_clock, ""),
        ("time after which it falls to that", reached.sustained_from, "s"),
    )

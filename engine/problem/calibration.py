"""A calibration: what micro-benchmarks measured on one GPU, from a file, and what it is found to reach.

`python -m engine calibrate` writes such a file. No figure comes from attention's own times. A file may come
from a stranger: whatever is wrong with it becomes one sentence (FileError).
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import MappingProxyType

from engine.decoded import Format
from engine.problem.gpu import MIB, Gpu, Reached

FORMAT = Format("GPU calibration", 1, "a calibration of a GPU", MIB, ": calibrate anew")
DTYPES = ("float16", "bfloat16", "float32", "float8_e4m3fn")
READ, COPIED, FROM_DRAM = "read", "copied", "share from DRAM"
APART, TOGETHER = "L2, each its own", "L2, 64 the same"
ORDER, BESIDE = "SM", "beside the blocks"
MIXED = "products and exponentials"
STREAMED, WAITED, LIGHT, FULL = "float16, from L2", "a tile", "exponentials alone", "products alone"
FROM_ZERO = (FROM_DRAM, ORDER)  # series whose numbers may be 0
MOST_POINTS = 4096  # of a file
MOST = {  # that any GPU has
    "sms": 1024, "shared_bytes_block": MIB, "shared_bytes_sm": MIB, "register_bytes_sm": 4 * MIB,
    "l2_bytes": 2**12 * MIB, "memory_bytes": 2**24 * MIB,
}  # fmt: skip
UNITS = {"products": "float16", "exponentials": "exp2", "arithmetic": "multiply-add", "shared": "load"}
FALLEN = 0.98  # of the clock it began with, under which a GPU is at its power limit

Points = tuple[tuple[float, float], ...]
Series = Mapping[str, Points]


@dataclass(frozen=True)
class Benchmark:
    """One micro-benchmark."""

    title: str  # what it measures
    unit: str  # of its numbers
    over: str  # what they stand over
    sentence: str  # what runs, and what that should come to by the vendor's figures
    # what the vendor's figures lead one to expect of a GPU, by series, where they say it
    expected: Callable[[Gpu], Mapping[str, float]]
    needed: tuple[str, ...]  # series that a calibration has to have, of at least `fewest` points
    fewest: int = 1


BENCHMARKS = MappingProxyType(
    {
        "products": Benchmark(
            "Matrix products", "FLOP/s", "rows of the tile",
            "Tiles that stay in shared memory are multiplied again and again, for half a millisecond. "
            "From 64 rows on Hopper's tensor cores should run at their peak, less what power takes of the "
            "clock; fewer rows go an older way, which is slower.",
            lambda gpu: {
                dtype: gpu.products_per_second(dtype.partition(",")[0]) for dtype in (*DTYPES[:3], STREAMED)
            },
            (*DTYPES[:3], STREAMED),
        ),
        "exponentials": Benchmark(
            "Exponentials", "/s", "warps on an SM",
            "Each number is replaced by 2 to the minus it. The unit takes a fixed number of each SM per "
            "clock, once enough warps are there to hide what one waits for its last.",
            lambda gpu: {"exp2": gpu.exponentials_per_second}, ("exp2",),
        ),
        "arithmetic": Benchmark(
            "Arithmetic", "/s", "warps on an SM",
            "One fused multiply-add after another: half the float32 peak, which counts it as two operations.",
            lambda gpu: {"multiply-add": gpu.matrix_flops["float32"] / 2}, ("multiply-add",),
        ),
        "shared": Benchmark(
            "Shared memory", "B/s", "warps on an SM",
            "Two tiles are loaded in turns, 16 bytes a thread: 32 banks of 4 bytes each clock.",
            lambda gpu: {"load": gpu.shared_bytes_per_second}, ("load",),
        ),
        "memory": Benchmark(
            "L2 and HBM", "B/s", "bytes that are walked over",
            "All SMs read a buffer again and again, or copy it. What fits L2 comes from there, each its own "
            "or 64 blocks the same at once, as a head's do; a larger one from HBM, just under its bandwidth.",
            lambda gpu: {
                READ: gpu.memory_bytes_per_second, COPIED: gpu.memory_bytes_per_second,
                TOGETHER: gpu.cache_bytes_per_second,
            },
            (READ, COPIED, APART, TOGETHER),
        ),
        "waits": Benchmark(
            "Waits", "s", "bytes that are walked over",
            "One block on every SM loads 8 KiB, and finds in them where the next 8 KiB lie, so that nothing "
            "hides the wait: for L1, for L2, for DRAM. No vendor states it.",
            lambda gpu: {}, (WAITED,), 3,
        ),
        "launches": Benchmark(
            "Launches", "s", "kernels between two events",
            "Kernels wait in a queue between two events, and what their blocks ran is taken off. Each "
            "further one adds the time from one kernel to the next; what one takes more is the events' own.",
            lambda gpu: {}, (BESIDE,), 3,
        ),
        "clock": Benchmark(
            "Clock", "Hz", "seconds of load",
            "Kernels of a millisecond follow one another, and the SMs' own cycles over nanoseconds give the "
            "clock. It is the vendor's until the power limit, which is on an average, takes from it.",
            lambda gpu: {FULL: gpu.clock_hz, LIGHT: gpu.clock_hz}, (FULL, LIGHT),
        ),
        "power": Benchmark(
            "Power", "Hz", "share of the time in which tensor cores work",
            "The same products from L2 with ever more exponentials between them, in their first "
            "milliseconds: the busier the tensor cores, the lower the clock that power leaves.",
            lambda gpu: {MIXED: gpu.clock_hz}, (MIXED,),
        ),
        "order": Benchmark(
            "SM order", "", "block, in launch order",
            "Two blocks for each SM: the hardware should give every SM one before any gets its second.",
            lambda gpu: {}, (ORDER,),
        ),
    }
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Calibration:
    """What was measured on one GPU, and on what and when."""

    gpu: str
    driver: str
    versions: str
    commit: str
    date: str
    capability: str  # of compute, as 9.0
    # by the driver, bytes
    sms: int
    shared_bytes_block: int
    shared_bytes_sm: int
    register_bytes_sm: int
    l2_bytes: int
    memory_bytes: int
    clock_hz: float  # the highest; 0 where the driver does not say
    memory_bytes_per_second: float  # by the memory's clock and width; 0 where the driver does not say
    seconds: float  # that it took
    refused: str  # why the chip's own counters were not read; empty where they were
    series: Mapping[str, Series]  # the points of each benchmark, by its key in `BENCHMARKS`

    def best(self, benchmark: str, series: str) -> float:
        """The highest number of a series."""
        return max(y for _, y in self.series[benchmark][series])

    @property
    def running_clock(self) -> float:
        """Hz while tensor cores work, but too little for power to take of it."""
        return self.best("power", MIXED)

    def per_clock(self, benchmark: str, series: str) -> float:
        """What an SM does in a clock, a power of two: how units are built."""
        clock = self.clock_hz or self.running_clock
        return 2.0 ** round(math.log2(self.best(benchmark, series) / self.sms / clock))

    @property
    def l2_effective_bytes(self) -> int:
        """Of L2, what serves all SMs: all of it, or one of its partitions, by where DRAM begins to answer."""
        memory = self.series["memory"]
        if told := memory.get(FROM_DRAM):
            found = max((x for x, share in told if share < 0.05), default=self.l2_bytes)
        else:
            flat = median(y for _, y in memory[APART])
            found = max((x for x, y in memory[READ] if y > 0.9 * flat), default=self.l2_bytes)
        return self.l2_bytes // max(1, round(self.l2_bytes / min(found, self.l2_bytes)))

    def reached(self, gpu: Gpu) -> Reached:
        """What was measured over the vendor's figures of this GPU."""
        memory, peak = self.series["memory"], gpu.memory_bytes_per_second
        waits, launches = self.series["waits"][WAITED], self.series["launches"][BESIDE]
        each = max(0.0, launches[-1][1] - launches[1][1]) / (launches[-1][0] - launches[1][0])
        running = self.running_clock
        power = [(x, y) for x, y in self.series["power"][MIXED] if y < FALLEN * running]
        power_from, power_slope = _power(power, running, gpu.clock_hz)
        full = self.series["clock"][FULL]
        fallen = next((x for x, y in full if y < FALLEN * full[0][1]), full[-1][0])
        settled = median(y for _, y in full[-max(1, len(full) // 3) :])
        return Reached(
            matrix=self.best("products", STREAMED) / gpu.products_per_second("float16"),
            reads=max(y for _, y in memory[READ][-2:]) / peak,
            copies=self.best("memory", COPIED) / peak,
            cache=median(y for _, y in memory[TOGETHER]) / gpu.cache_bytes_per_second,
            latency=waits[-1][1],
            l2_latency=waits[1][1],
            launch=each,
            between_events=max(0.0, launches[1][1] - each),
            clock=running / gpu.clock_hz,
            power_from=power_from,
            power_slope=power_slope,
            sustained_from=fallen,
            sustained_clock=min(1.0, settled / full[0][1]),
        )


def _power(points: list[tuple[float, float]], running: float, clock_hz: float) -> tuple[float, float]:
    """`Reached.power_from` and `power_slope` by points that fall from the running clock.

    Attention does more beside its products than they do: it gives up no less than an H200's counters say.
    """
    if len(points) < 2 or min(points)[0] == max(points)[0]:
        return Reached.power_from, Reached.power_slope
    (low, high), (x, y) = min(points), max(points)
    slope = max(high - y, 1.0) / (x - low)
    begin = min(1.0, max(0.0, x - (running - y) / slope))
    found, least = (begin, slope / clock_hz), (Reached.power_from, Reached.power_slope)
    return max(found, least, key=lambda each: each[1] * (1 - each[0]))


def dumps(calibration: Calibration) -> str:
    """The file's text."""

    def rounded(points: Points) -> list[list[float]]:
        return [[float(f"{number:.6g}") for number in point] for point in points]

    values = {"format": FORMAT.name, "version": FORMAT.version, **vars(calibration)}
    values["series"] = {
        key: {name: rounded(points) for name, points in series.items()}
        for key, series in calibration.series.items()
    }
    return json.dumps(values) + "\n"


def load(path: Path) -> Calibration:
    """A calibration from a file; raises FileError."""
    return FORMAT.load(path, Calibration, _fault)


def loads(data: bytes, name: str = "the file") -> Calibration:
    """The same from a file's bytes; raises FileError."""
    return FORMAT.loads(data, name, Calibration, _fault)


def _fault(found: Calibration) -> str | None:
    """What is wrong with numbers that must be above 0, or with series that must be there."""
    for name, value in vars(found).items():
        if value == 0 and name not in ("clock_hz", "memory_bytes_per_second"):
            return f"has 0 for {name}, which must be above 0"
        if name in MOST and value > MOST[name]:
            return f"has {value:,} for {name}, which must be at most {MOST[name]:,}"
    if unknown := found.series.keys() - BENCHMARKS.keys():
        return f"has a benchmark {min(unknown)[:40]!r}, which this version does not know"
    if sum(len(points) for series in found.series.values() for points in series.values()) > MOST_POINTS:
        return f"has more than {MOST_POINTS:,} points"
    for key, benchmark in BENCHMARKS.items():
        series = found.series.get(key, {})
        for name in (*benchmark.needed, *series):
            points, fewest = series.get(name, ()), benchmark.fewest if name in benchmark.needed else 1
            if len(points) < fewest:
                return f"is cut short: {name} of {benchmark.title} must be {fewest} or more pairs of numbers"
            if not all(len(point) == 2 and (name in FROM_ZERO or point[1] > 0) for point in points):
                return f"must have pairs of numbers above 0 in {name} of {benchmark.title}"
            if fewest > 1 and not all(one[0] < other[0] for one, other in pairwise(points)):
                return f"must have rising places in {name} of {benchmark.title}"
    slow = [BENCHMARKS[key].title for key, name in UNITS.items() if found.per_clock(key, name) < 1]
    return f"has less than one for each SM and clock in {slow[0]}" if slow else None

"""A calibration: what micro-benchmarks measured on one GPU, from a file, and what it is found to reach.

`python -m engine calibrate` writes such a file. No figure comes from attention's own times. A file may come
from a stranger: whatever is wrong with it becomes one sentence (CalibrationError).
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from engine.problem.gpu import MIB, Gpu, Reached

FORMAT, VERSION = "GPU calibration", 1
LARGEST_FILE = 2**20  # bytes
MOST_POINTS, LARGEST_NUMBER = 4096, 1e18
TEXT = re.compile(r"[\w .:+,()/-]{0,120}")
DTYPES = ("float16", "bfloat16", "float32", "float8_e4m3fn")
READ, COPIED, FROM_DRAM = "read", "copied", "share from DRAM"
APART, TOGETHER = "L2, each its own", "L2, 64 the same"
ORDER, BESIDE = "SM", "beside the blocks"
MIXED = "products and exponentials"
NOT_SAID = ("clock_hz", "memory_bytes_per_second")  # which not every driver says
STREAMED, WAITED, LIGHT, FULL = "float16, from L2", "a tile", "exponentials alone", "products alone"
FALLEN = 0.98  # of the clock it began with, under which a GPU is at its power limit

Points = tuple[tuple[float, float], ...]
Series = Mapping[str, Points]


class CalibrationError(ValueError):
    """Why a file is no calibration, in one sentence."""


@dataclass(frozen=True)
class Benchmark:
    """One micro-benchmark.

    Attributes:
        title: what it measures.
        unit: of its numbers.
        over: what they stand over.
        sentence: what runs, and what that should come to by the vendor's figures.
        expected: what the vendor's figures lead one to expect of a GPU, by series, where they say it.
        needed: series that a calibration has to have, of at least `fewest` points.
    """

    title: str
    unit: str
    over: str
    sentence: str
    expected: Callable[[Gpu], Mapping[str, float]]
    needed: tuple[str, ...]
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
    """What was measured on one GPU.

    Attributes:
        gpu, driver, versions, commit, date: on what, and when.
        capability: of compute, as 9.0.
        sms, shared_bytes_block, shared_bytes_sm, register_bytes_sm, l2_bytes, memory_bytes: by the driver.
        clock_hz, memory_bytes_per_second: the highest clock, and the memory's by its clock and width; 0 where
            the driver does not say.
        seconds: that it took.
        refused: why the chip's own counters were not read; empty where they were.
        series: the points of each benchmark, by its key in `BENCHMARKS` and the series' name.
    """

    gpu: str
    driver: str
    versions: str
    commit: str
    date: str
    capability: str
    sms: int
    shared_bytes_block: int
    shared_bytes_sm: int
    register_bytes_sm: int
    l2_bytes: int
    memory_bytes: int
    clock_hz: float
    memory_bytes_per_second: float
    seconds: float
    refused: str
    series: Mapping[str, Series]

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
        each = (launches[-1][1] - launches[1][1]) / (launches[-1][0] - launches[1][0])
        running = self.running_clock
        power = [(x, y) for x, y in self.series["power"][MIXED] if y < FALLEN * running]
        power_from, power_slope = _power(power, running, gpu.clock_hz)
        full = self.series["clock"][FULL]
        fallen = [(x, y) for x, y in full if y < FALLEN * full[0][1]] or full[-1:]
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
            sustained_from=fallen[0][0],
            sustained_clock=min(1.0, median(y for _, y in fallen) / full[0][1]),
        )


def _power(points: list[tuple[float, float]], running: float, clock_hz: float) -> tuple[float, float]:
    """`Reached.power_from` and `power_slope` by points that fall from the running clock.

    Attention does more beside its products than they do: it gives up no less than an H200's counters say.
    """
    if len(points) < 2:
        return Reached.power_from, Reached.power_slope
    (low, high), (x, y) = min(points), max(points)
    slope = max(high - y, 1.0) / (x - low)
    begin = min(1.0, max(0.0, x - (running - y) / slope))
    found, least = (begin, slope / clock_hz), (Reached.power_from, Reached.power_slope)
    return max(found, least, key=lambda each: each[1] * (1 - each[0]))


FIELDS = fields(Calibration)


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")


def dumps(calibration: Calibration) -> str:
    """The file's text."""
    values = {"format": FORMAT, "version": VERSION, **vars(calibration)}
    values["series"] = {
        key: {name: [[_rounded(x), _rounded(y)] for x, y in points] for name, points in series.items()}
        for key, series in calibration.series.items()
    }
    return json.dumps(values) + "\n"


def load(path: Path) -> Calibration:
    """A calibration from a file; raises CalibrationError."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise CalibrationError(f"{path.name} cannot be read: {error.strerror}") from None
    return loads(data, path.name)


def loads(data: bytes, name: str = "the file") -> Calibration:
    """The same from a file's bytes; raises CalibrationError."""
    if len(data) > LARGEST_FILE:
        raise CalibrationError(f"{name} is larger than {LARGEST_FILE // MIB} MB")
    try:
        content = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise CalibrationError(f"{name} is damaged: it is not JSON, or ends too early") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CalibrationError(f"{name} is not a calibration of a GPU")
    if content.get("version") is not VERSION:
        said = f"{content.get('version')!r:.20}; this program reads version {VERSION}: calibrate anew"
        raise CalibrationError(f"{name} is of version {said}")
    try:
        return Calibration(**{one.name: _value(one.type, content.get(one.name), one.name) for one in FIELDS})
    except CalibrationError as error:
        raise CalibrationError(f"{name} is damaged: {error}") from None


def _value(kind: Any, value: Any, name: str) -> Any:
    """A field from its JSON."""
    if name == "series":
        return _series(value)
    if kind is str:
        if not isinstance(value, str) or not TEXT.fullmatch(value):
            raise CalibrationError(f"{name} is {value!r:.60}; it must be a line of plain text")
        return value
    least = 0 if name in NOT_SAID else 1e-9
    whole = kind is float or type(value) is int
    if type(value) not in (int, float) or not whole or not least <= value <= LARGEST_NUMBER:
        must = f"a {'whole ' * (kind is int)}number above 0"
        raise CalibrationError(f"{name} is {value!r:.60}; it must be {must}")
    return kind(value)


def _series(value: Any) -> Mapping[str, Series]:
    """The points, each benchmark's with those that it has to have."""
    found = {}
    for key, benchmark in BENCHMARKS.items():
        series = value.get(key) if isinstance(value, dict) else None
        series = series if isinstance(series, dict) else {}
        if missing := [one for one in benchmark.needed if one not in series]:
            raise CalibrationError(f"it lacks {missing[0]} of {benchmark.title}")
        points = {one: _points(each, benchmark, one[:40]) for one, each in series.items()}
        found[key] = MappingProxyType(points)
    return MappingProxyType(found)


def _points(value: Any, benchmark: Benchmark, name: str) -> Points:
    least = 0 if name in (FROM_DRAM, ORDER) else 1e-12
    fewest = benchmark.fewest if name in benchmark.needed else 1
    if not isinstance(value, list) or not fewest <= len(value) <= MOST_POINTS:
        must = f"it must be {fewest} to {MOST_POINTS} pairs of numbers"
        raise CalibrationError(f"{name} of {benchmark.title} is cut short: {must}")
    for point in value:
        pair = isinstance(point, list) and len(point) == 2 and all(type(one) in (int, float) for one in point)
        if not pair or not 0 <= point[0] <= LARGEST_NUMBER or not least <= point[1] <= LARGEST_NUMBER:
            must = "it must be two numbers above 0"
            raise CalibrationError(f"{name} of {benchmark.title} has {point!r:.60}; {must}")
    return tuple((float(x), float(y)) for x, y in value)

"""python -m engine calibrate: what this GPU reaches of its vendor's figures, by micro-benchmarks.

Each runs long enough to drown what starting takes, three times; one that takes different times says that
something else uses the GPU. The file that comes out is a GPU that the dashboard offers.
"""

import re
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engine.measuring import sampling
from engine.measuring.machine import device, kernels, torch
from engine.measuring.trial import attempt
from engine.parser import Parser, to_write
from engine.problem import calibration as file
from engine.problem.calibration import BENCHMARKS, Calibration, Series
from engine.problem.gpu import KIB, MIB
from engine.problem.hardware import OWN, gpu_named
from engine.recordings.file import write_whole
from engine.worker.jobs import JobError

LONG, SHORT_LOAD, LOAD = 0.5e-3, 12e-3, 0.2  # s, of a benchmark, of a load that power allows, of a long one
LARGEST = 1024 * MIB  # bytes that are walked over, and of which half are copied
SMALLEST = 128 * MIB  # the same where less memory is free
REST = 0.3  # s, in which the power's average falls
REPEATS, APART = 3, 1.25  # times, and how much longer the slowest may take than the middle one
ROWS = (16, 32, 64, 128)
RESIDENT = (64, 64)  # keys and depth of the tiles that stay on the chip
STREAMED = (128, 128, 64)  # rows, keys and depth, of which keys come from L2
STAGES, BETWEEN = 3, (0, 1, 2, 4, 8, 16)  # exponentials of 2,048 numbers between two products
LAUNCHES = (0, 1, 2, 4, 8)
UNITS = {  # by benchmark: its series, what a block does at a time, and the most blocks on an SM
    "exponentials": ("exp2", 2048, 4),
    "arithmetic": ("multiply-add", 2048, 4),
    "shared": ("load", 64 * 512, 3),
}
WITHIN, AROUND = (0.125, 0.25, 0.375), (0.5, 0.625, 0.75, 1, 1.5, 3)  # of L2, of what is walked over
HEAD = 64  # blocks that walk over the same keys, as those of a head do
PASSES, SAMPLED = 60, 3e-3  # over what the chip samples, and seconds of that at least
KIND, TILE = "cuda", 16 * KIB  # bytes that a block walks over at once


class Notes:
    """What blocks of one launch noted: `span` seconds from the first start to the last end, `clock` in Hz."""

    def __init__(self, notes: Any):
        sm, start, end, first, last = notes.cpu().numpy().T.astype(np.float64)
        self.sms, self.start, self.end = sm.astype(int).tolist(), float(start.min()), float(end.max())
        self.span = max(self.end - self.start, 1.0) * 1e-9
        self.clock = float(np.median((last - first) / np.maximum(end - start, 1.0))) * 1e9


class Bench:
    """The micro-benchmarks on this GPU: each one of UNITS, or a method by its name in BENCHMARKS."""

    def __init__(self):
        properties = torch.cuda.get_device_properties(0)
        self.sms, self.l2 = properties.multi_processor_count, properties.L2_cache_size
        self.size = LARGEST
        while self.size > SMALLEST and self.size > torch.cuda.mem_get_info()[0] // 4:
            self.size //= 2
        self.run = kernels.Benchmarks(KIND, self.size)
        self.refused = ""
        self.per_clock = 0.0  # FLOPs of an SM's products in float16

    def products(self) -> Series:
        """FLOP/s over the rows of a tile, by dtype; of 64 rows alone where it is not float16."""
        found, (keys, depth) = {}, RESIDENT
        for dtype in file.DTYPES:
            for rows in ROWS if dtype == "float16" else (64,):
                deep = 16 if dtype == "float32" else depth
                given = {"dtype": getattr(torch, dtype), "rows": rows, "keys": keys, "depth": deep}
                run = partial(self.run.products, blocks=4 * self.sms, **given)
                lasting, reason = attempt(partial(self._lasting, run), cuda=True)
                if lasting is None and dtype in BENCHMARKS["products"].needed:
                    raise JobError(reason)
                if lasting is not None:
                    count, notes = lasting
                    rate = 2 * rows * keys * deep * count * 4 * self.sms / notes.span
                    found.setdefault(dtype, []).append((rows, rate))
                    if dtype == "float16":
                        self.per_clock = max(self.per_clock, rate / notes.clock / self.sms)
        rates = [rate for _, rate in self._load(0, SHORT_LOAD)]
        return found | {file.STREAMED: [(STREAMED[0], float(np.median(rates)))]}

    def of(self, key: str) -> Series:
        """The series of a benchmark; of UNITS what they do in a second over the warps on an SM."""
        if key not in UNITS:
            return getattr(self, key)()
        name, each, most = UNITS[key]
        found = {}
        for places in (1, 2, most):
            count, notes = self._lasting(partial(getattr(self.run, key), blocks=places * self.sms))
            found[8 * places] = each * count * places * self.sms / notes.span
        return {name: list(found.items())}

    def memory(self) -> Series:
        """Bytes a second over the bytes walked in L2 and in HBM, or copied; and what share came from DRAM."""
        within, around = ([self.l2 * share for share in shares] for shares in (WITHIN, AROUND))
        apart, together = self._walked(within), self._walked(within, together=HEAD)
        read = apart + self._walked([*around, self.size // 2, self.size])
        copied = [
            (size, 2 * size / self._steady(partial(self.run.copy, blocks=size // TILE)).span)
            for size in (self.size // 4, self.size // 2)
        ]
        found = {file.APART: apart, file.TOGETHER: together, file.READ: read, file.COPIED: copied}
        for _ in range(3):  # the first samples of a process may come before there is room for them
            told, reason = attempt(lambda: [self._from_dram(size) for size in around[:4]], cuda=True)
            self.refused = reason or ""
            if told:
                return found | {file.FROM_DRAM: told}
        return found

    def _walked(self, sizes: Iterable[float], **how: Any) -> list:
        points, blocks = [], 4 * self.sms
        for size in map(_tiles, sizes):
            run, count = partial(self.run.walk, blocks=blocks, size=size, **how), size // (TILE * blocks)
            if size > 4 * self.l2:  # read once: nothing of its beginning is left from the time before
                notes = self._steady(partial(run, count))
            else:
                count, notes = self._lasting(run)
            points.append((size, count * blocks * TILE / notes.span))
        return points

    def _from_dram(self, size: float) -> tuple[float, float]:
        size, blocks = _tiles(size), 4 * self.sms
        count = PASSES * size // TILE // blocks
        call = partial(self.run.walk, count, blocks, size)
        read = sampling.sampled(call, max(SAMPLED, Notes(call()).span), cold=False)[0].read * sampling.SECTOR
        return size, read / (count * blocks * TILE)

    def waits(self) -> Series:
        """Seconds for 8 KiB from L1, L2 and DRAM."""
        found = {}
        for size in (TILE, _tiles(self.l2 / 4), self.size):
            count, notes = self._lasting(partial(self.run.wait, blocks=self.sms, size=size))
            found[size] = notes.span / count
        return {file.WAITED: list(found.items())}

    def launches(self) -> Series:
        """Seconds between two events, less what their blocks ran, over the kernels between them."""
        return {file.BESIDE: [(number, self._beside(number)) for number in LAUNCHES]}

    def _beside(self, number: int) -> float:
        found = []
        for _ in range(21):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            for _ in range(4):  # while the host launches what follows
                self.run.buffer.sum()
            begin.record()
            launched = [self.run.arithmetic(8, 4 * self.sms) for _ in range(number)]
            end.record()
            end.synchronize()
            found.append(begin.elapsed_time(end) * 1e-3 - sum(Notes(each).span for each in launched))
        return float(np.quantile(found, 0.2))  # a host that comes late makes it longer

    def clock(self) -> Series:
        """Hz over seconds of load."""
        found = {}
        count, _ = self._lasting(light := partial(self.run.exponentials, blocks=2 * self.sms), 1e-3)
        unpowered = self._launched(partial(light, count), LOAD / 4, 0.0)
        for name, launched in ((file.FULL, self._load(0, LOAD)), (file.LIGHT, unpowered)):
            begin, step = launched[0][0].start, max(1, len(launched) // 60)
            found[name] = [((one.start - begin) * 1e-9, one.clock) for one, _ in launched[::step]]
        return found

    def power(self) -> Series:
        """Hz over the share of the time in which tensor cores work, in the first milliseconds."""
        points = []
        for between in BETWEEN:
            launched = self._load(between, SHORT_LOAD)
            clock, rate = np.median([(one.clock, rate) for one, rate in launched], axis=0).tolist()
            points.append((min(1.0, rate / (self.per_clock * self.sms * clock)), clock))
        return {file.MIXED: sorted(points)}

    def order(self) -> Series:
        """The SM of each block in launch order, two for each."""
        notes = self._steady(partial(self.run.arithmetic, 20_000, 2 * self.sms))
        return {"SM": list(enumerate(notes.sms))}

    def _load(self, between: int, seconds: float) -> list[tuple[Notes, float]]:
        """Products with exponentials between them, in launches of 1 ms after a rest; FLOP/s of each."""
        rows, keys, depth = STREAMED
        given = {"dtype": torch.float16, "rows": rows, "keys": keys, "depth": depth, "stages": STAGES}
        run = partial(self.run.products, blocks=2 * self.sms, **given, exponentials=between)
        count, _ = self._lasting(run, 1e-3)
        return self._launched(partial(run, count), seconds, 2.0 * rows * keys * depth * count * 2 * self.sms)

    def _launched(self, run: Callable, seconds: float, flops: float) -> list[tuple[Notes, float]]:
        """The notes of launches of 1 ms one after another, and what each does in a second."""
        torch.cuda.synchronize()
        time.sleep(REST)
        launched = [run() for _ in range(max(3, round(1e3 * seconds)))]
        torch.cuda.synchronize()
        return [(notes, flops / notes.span) for notes in map(Notes, launched)]

    def _lasting(self, run: Callable, least: float = LONG) -> tuple[int, Notes]:
        """How often a block must repeat what it does to take so long, and the middle one of such runs."""
        count, notes = 16, Notes(run(16))
        while notes.span < 0.8 * least:
            count = int(count * min(64.0, 1.1 * least / notes.span)) + 1
            notes = Notes(run(count))
        return count, self._steady(partial(run, count))

    def _steady(self, run: Callable) -> Notes:
        """The middle one of several runs; raises JobError where they are not alike twice."""
        run()
        for _ in range(2):
            found = sorted((Notes(run()) for _ in range(REPEATS)), key=lambda notes: notes.span)
            fastest, middle, slowest = found[0], found[REPEATS // 2], found[-1]
            if slowest.span <= APART * middle.span:
                return middle
        took = f"{fastest.span * 1e6:,.0f} to {slowest.span * 1e6:,.0f} µs"
        raise JobError(f"one and the same kernel took {took}: something else is at work on this GPU")


def _tiles(size: float) -> int:
    """Whole tiles of so many bytes."""
    return int(size) // TILE * TILE


def measured(say: Callable[[str], None]) -> Calibration:
    """This GPU's calibration, told benchmark by benchmark; raises JobError."""
    begin, where = time.monotonic(), device(why="only the rates of a CUDA GPU are measured")
    bench, reason = attempt(Bench, cuda=True)
    if bench is None:
        raise JobError(reason)
    series = {}
    for key, benchmark in BENCHMARKS.items():
        found, reason = attempt(partial(bench.of, key), cuda=True)
        if found is None:
            raise JobError(f"{benchmark.title}: {reason}")
        series[key] = {name: np.array(points).tolist() for name, points in found.items()}
        most = (f"{name} up to {max(y for _, y in points):.3g}" for name, points in series[key].items())
        say(f"{benchmark.title}, {benchmark.unit}: {', '.join(most)}")
    properties = torch.cuda.get_device_properties(0)
    clock, memory_clock, width = (
        getattr(properties, name, 0) for name in ("clock_rate", "memory_clock_rate", "memory_bus_width")
    )  # kHz, kHz and bits
    return Calibration(
        **{name: getattr(where, name) for name in ("gpu", "driver", "commit", "date")},
        versions=", ".join(f"{name} {where.versions.get(name)}" for name in ("torch", "triton")),
        capability=f"{properties.major}.{properties.minor}",
        sms=bench.sms,
        shared_bytes_block=properties.shared_memory_per_block_optin,
        shared_bytes_sm=properties.shared_memory_per_multiprocessor,
        register_bytes_sm=4 * properties.regs_per_multiprocessor,
        l2_bytes=bench.l2,
        memory_bytes=properties.total_memory,
        clock_hz=1e3 * clock,
        memory_bytes_per_second=2e3 * memory_clock * width / 8,
        seconds=round(time.monotonic() - begin, 1),
        refused=re.sub(r"[^\w .:+,()/-]", " ", bench.refused)[:120],
        series=series,
    )


def main(arguments: list[str]) -> int:
    """Measure what this GPU reaches of its vendor's figures, in half a minute, into a file."""
    parser = Parser("engine calibrate", main.__doc__)
    parser.add_argument("--out", type=to_write, required=True, metavar="FILE", help="file to write, .json")
    out: Path = parser.parse_args(arguments).out
    found = measured(lambda said: print(said, flush=True))
    write_whole(out, file.dumps(found).encode())
    if found.refused:
        print(f"the chip's own counters were not read: {found.refused}")
    if gpu_named(found.gpu) is None:
        print("no preset knows this GPU: its peaks are what was measured, or what its driver says")
    print(f"{out}: {found.gpu} in {found.seconds:.0f} s; with {OWN}={out} it is offered as a GPU")
    return 0

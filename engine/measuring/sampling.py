"""The chip reads its own counters every microsecond while a call runs: CUPTI's PM sampling.

It needs NVIDIA's cupti-python and nvidia-cuda-cupti, the extra `live`; the call runs at its own speed, in
this process. Imports torch and cupti when called.
"""

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from operator import attrgetter
from typing import Any

import numpy as np

from engine.measuring import clock
from engine.measuring.implementations import Prepare
from engine.measuring.machine import torch
from engine.measuring.sections import checked
from engine.measuring.trial import attempt, in_turns
from engine.recordings.recording import Counters, KernelCounters
from engine.recordings.samples import BUSY, MOST_SAMPLES, SECTOR, Samples
from engine.worker.jobs import JobError

SHARE = ".avg.pct_of_peak_sustained_elapsed"
METRICS = {  # a column's name, what the chip counts, and how much of it is one
    "read": ("dram__bytes_read.sum", SECTOR),
    "written": ("dram__bytes_write.sum", SECTOR),
    "sms": (f"sm__cycles_active{SHARE}", 0.1),
    "tensor": (f"sm__pipe_tensor_cycles_active{SHARE}", 0.1),
    "exponentials": ("sm__inst_executed_pipe_xu.sum", 1),
    "l2": ("lts__t_bytes.sum", SECTOR),
}
NEEDED = ("read", "written", "sms")
SENT = tuple(f"nvltx__bytes_packet_{what}_data_user.sum" for what in ("request", "response"))  # over NVLink
LIBRARIES = ("libnvperf_target", "libnvperf_host", "libcupti.so")
SHORTEST = 1000  # ns between two samples
SYSTEM_CLOCK = 1.6  # cycles of the system clock a ns, about: what chips count that have no timer for it
OFTEN = 1000  # samples of a call at most, about
SENT_EVERY, SENT_OFTEN = 10_000, 4000  # ns at most between two of the links; but so many of a call, about
QUIET = 20_000  # ns without work, by which what follows a call is told from it
ALONE = 10_000  # ns at both ends of the samples, in which this process does nothing: a launch takes longer
AROUND = 3e6  # ns before a call and after it, at most, about: room for a sample takes 22 µs
BUFFER = 64 * 2**20
REPEATS = 3
READ = attrgetter("read")
TIMED = clock.Repeats(3, 10, 0.02)
SHARED = "another process is at work on this GPU, and its bytes cannot be told from this call's"
NOT_HELD = "the chip's samples do not hold the call: it ran on one SM, or for too long"
INSTALL = "python -m pip install --no-deps -r engine/requirements.txt"


@dataclass(frozen=True)
class Sampled:
    """The intervals of one call: a column of numbers each, one an interval."""

    columns: dict[str, np.ndarray]
    interval: float  # its length, seconds
    left: int  # sectors that were written to DRAM after the call had ended, when L2 was emptied

    @property
    def read(self) -> int:
        """Sectors read from DRAM."""
        return int(self.columns["read"].sum())


def sampled_row(row: Samples, repeats: int = REPEATS, prepare: Prepare | None = None) -> Samples:
    """A row with its samples, its result checked against float64 first; or with why it has none.

    prepare: of the call, where it is none of the implementations'.
    """
    found = checked(row, prepare)
    if isinstance(found, str):
        return replace(row, skipped=found)
    (row,) = in_turns({row: found}, TIMED, cuda=True)
    if row.numbers != "float16":  # whose error is relative
        row = replace(row, error=None, allowed=None)
    several, reason = attempt(lambda: sampled(found.call, row.times.p50, row.cold, repeats), cuda=True)
    if reason:
        return replace(row, skipped=reason)
    middle = several[repeats // 2]
    spread = (several[-1].read - several[0].read) / max(middle.read, 1)
    columns = {name: tuple(column.tolist()) for name, column in middle.columns.items()}
    return replace(
        row, interval=middle.interval, left=middle.left, spread=round(spread, 6), repeats=repeats, **columns
    )


def counted_row(row: Counters) -> Counters:
    """A row with the bytes of its call, as the chip samples them; or with why it has none."""
    call = (row.provider, row.problem, row.direction, row.block_q, row.block_kv, row.splits)
    found = sampled_row(Samples(*call))
    if found.skipped:
        return replace(row, skipped=found.skipped)
    moved = {"dram_read": found.read_bytes, "dram_written": found.written_bytes}
    whole = KernelCounters(
        "all kernels", "", found.times.p50, **moved, l2_bytes=SECTOR * sum(found.l2) or None
    )
    return replace(row, kernels=(whole,), sampled=True)


def sampled(call: Callable[[], Any], seconds: float, cold: bool = True, repeats: int = 1) -> list[Sampled]:
    """What the chip counted whenever a call ran, by sectors read; raises JobError.

    The call is compiled, and takes about so many seconds. Chips that cannot count everything in one pass run
    it once a pass: all begin at its first interval.
    """
    run = partial(_one_pass, call, seconds, cold, repeats)
    return [_joined(*alike) for alike in zip(*_passes(run, tuple(METRICS)), strict=True)]


class _TooMuchError(JobError):
    """A chip cannot count these together."""


def _passes(run: Callable, names: tuple[str, ...]) -> list[list[Sampled]]:
    """One pass, or two that both tell where the call is; what is too much alone is left out."""
    try:
        return [sorted(run(names), key=READ)]
    except _TooMuchError:
        extra = names[len(NEEDED) :]
        if not extra:
            raise JobError("this chip cannot sample the bytes that it reads and writes") from None
    half = len(extra) // 2
    halves = [extra[:half], extra[half:]] if half else [()]
    return [found for each in halves for found in _passes(run, (*NEEDED, *each))]


def _joined(first: Sampled, *others: Sampled) -> Sampled:
    """The first pass, with the columns that only others have, as long as its own."""
    columns, length = dict(first.columns), len(first.columns["read"])
    for one in others:
        for name in one.columns.keys() - columns.keys():
            padded = np.append(one.columns[name], np.zeros(length, int))
            columns[name] = padded[:length]
    return replace(first, columns=columns)


def _one_pass(
    call: Callable, seconds: float, cold: bool, repeats: int, names: tuple[str, ...]
) -> Iterator[Sampled]:
    interval = _interval(seconds, OFTEN)
    most = min(MOST_SAMPLES, int((AROUND + 1.5e9 * seconds) / interval))
    with _collector([METRICS[name][0] for name in names], interval) as collector:
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        flush = torch.empty(clock.FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")
        for _ in range(repeats):
            if cold:
                flush.zero_()
                flush.sum()  # what was written is read past, so that nothing is left to be written back
            else:
                call()
            torch.cuda.synchronize()
            collector.start()
            call()
            torch.cuda.synchronize()
            time.sleep(2e-9 * QUIET)
            flush.sum()
            torch.cuda.synchronize()
            collector.stop()
            samples = list(collector.decode(max_samples=most))[1:]  # the first begins at 0
            found = _of_the_call(samples, names, interval, sms)
            yield found if cold else replace(found, left=0)  # what it leaves, the one before has left it


def link_collector(seconds: float) -> AbstractContextManager:
    """What samples the bytes that leave this GPU over NVLink in a call that takes so long; or JobError."""
    interval = max(min(_interval(seconds, OFTEN), SENT_EVERY), _interval(seconds, SENT_OFTEN))
    return _collector([METRICS["sms"][0], *SENT], interval)


def sent(collector: Any, call: Callable[[], Any]) -> tuple[float, tuple[int, ...]]:
    """Seconds of an interval, and the sectors that leave this GPU over NVLink in each; raises JobError.

    collector: of `link_collector`. The call waits for the other GPUs before it begins. From the first sample
    with more than one SM at work to the last; samples are added up to about OFTEN intervals.
    """
    collector.start()
    call()
    torch.cuda.synchronize()
    collector.stop()
    samples = list(collector.decode(max_samples=MOST_SAMPLES))[1:]  # the first begins at 0
    if not samples:
        raise JobError("this GPU gives no samples of its links")
    begin = [sample.start_timestamp for sample in samples]
    sms, *sectors = np.array([sample.metric_values for sample in samples]).T
    working = sms > 150 / torch.cuda.get_device_properties(0).multi_processor_count
    working[: np.argmin(working)] = False  # the next may hold what the GPU did before
    busy = np.flatnonzero(working)
    if len(busy) < 2:
        raise JobError(NOT_HELD)
    first, last = busy[0], busy[-1]
    together = 1 + (last - first) // OFTEN
    sectors = np.rint(sum(sectors) / SECTOR).astype(int)[first : last + 1]
    added = np.add.reduceat(sectors, np.arange(0, len(sectors), together))
    return round(1e-9 * together * (begin[last] - begin[first]) / (last - first), 9), tuple(added.tolist())


def _interval(seconds: float, often: int) -> int:
    """ns between two of about so many samples of a call."""
    return SHORTEST * max(1, round(seconds * 1e9 / SHORTEST / often))


@contextmanager
def _collector(metrics: list[str], interval: int) -> Iterator[Any]:
    """What samples this GPU, one in a process at a time, as the end of one ends all; raises JobError."""
    pm_sampling = library()
    collector = pm_sampling.Collector(device_index=torch.cuda.current_device())
    try:
        collector.enable()
        _configure(pm_sampling, collector, metrics, interval)
        yield collector
    except (PermissionError, MemoryError, pm_sampling.cupti.cupti.cuptiError) as error:
        raise JobError(_refusal(error)) from error
    finally:
        collector.disable()


def _configure(pm_sampling: Any, collector: Any, metrics: list[str], interval: int) -> None:
    """By the chip's timer, or by its clock where it has none; raises _TooMuchError."""
    trigger = pm_sampling.TriggerMode
    cycles = round(interval * SYSTEM_CLOCK)
    ways = (trigger.GPU_TIME_INTERVAL, interval), (trigger.GPU_SYSCLK_INTERVAL, cycles)
    for mode, ticks in ways:
        with suppress(ValueError):
            return collector.configure(
                metrics=metrics, hardware_buffer_size=BUFFER, sampling_interval=ticks, trigger_mode=mode
            )
    raise _TooMuchError(f"this chip cannot sample {' and '.join(metrics)} together")


def _of_the_call(samples: list, names: tuple[str, ...], interval: int, sms: int) -> Sampled:
    """The call's intervals: up to the sweep that empties L2. At both ends this process does nothing."""
    begin = np.array([sample.start_timestamp for sample in samples])
    values = np.array([sample.metric_values for sample in samples]).reshape(-1, len(names))
    units = [METRICS[name][1] for name in names]
    columns = dict(zip(names, np.rint(values / units).astype(int).T, strict=True))
    working = columns["sms"] > 1500 / sms  # thousandths: more than one SM
    alone = ALONE // interval
    if alone and (working[1 : 1 + alone].any() or working[-alone:].any()):
        raise JobError(SHARED)
    busy = np.flatnonzero(working)
    pauses = np.flatnonzero(np.diff(begin[busy]) > QUIET)
    if not len(pauses):
        raise JobError(NOT_HELD)
    first, last = busy[0], busy[pauses[-1]]
    left = int(columns["written"][last + 1 :].sum())
    own = {name: column[max(first - 1, 0) : last + 2] for name, column in columns.items()}
    return Sampled(
        dict(zip(own, without_waits(*own.values(), sms=own["sms"]), strict=True)), interval * 1e-9, left
    )


def without_waits(*columns: np.ndarray, sms: np.ndarray) -> Iterator[np.ndarray]:
    """Columns without the intervals in which the GPU waited for the host to launch more, but for the first of
    a wait, which gets what crossed in the others."""
    idle = sms <= BUSY
    kept = np.flatnonzero(~(idle & np.append(False, idle[:-1])))
    return (np.add.reduceat(column, kept) if len(column) else column for column in columns)


def library() -> Any:
    """cupti.pm_sampling, its libraries opened first, as nothing else finds them; raises JobError."""
    try:
        files = distribution("nvidia-cuda-cupti").files or ()
        for name in LIBRARIES:
            for file in files:
                if file.name.startswith(name):
                    ctypes.CDLL(str(file.locate()), ctypes.RTLD_GLOBAL)
        from cupti import pm_sampling
    except (ImportError, PackageNotFoundError, OSError) as error:
        raise JobError(f"{error}: the chip's own counters are read by {INSTALL}") from None
    return pm_sampling


def _refusal(error: Exception) -> str:
    """Why CUPTI does not sample, in a sentence."""
    if isinstance(error, PermissionError):
        return (
            "the driver lets only administrators read this chip's counters: start as one, or have"
            " NVreg_RestrictProfilingToAdminUsers set to 0"
        )
    if isinstance(error, MemoryError):
        return "the chip counted faster than its samples could be kept"
    if "HARDWARE_BUSY" in str(error):
        return "another process reads this chip's counters; only one can at a time"
    return f"CUPTI does not sample this chip: {error}"

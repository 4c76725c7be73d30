"""Times calls: by CUDA events and with a cold L2 on a GPU, by the wall clock on a CPU."""

import random
import timeit
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engine.measuring.machine import torch
from engine.recordings.timing import Times

FLUSH_BYTES = 512 * 2**20  # larger than any L2; passing over it also hides the launch of what is timed next
READS = 3  # with the writing 0.5 ms on an H200: longer than the host takes to start a backward pass


@dataclass(frozen=True)
class Repeats:
    """How often a call is timed: at least and at most so often, no more once so many seconds are spent."""

    least: int
    most: int
    seconds: float


ON_GPU = Repeats(10, 100, 0.25)
ON_CPU = Repeats(5, 30, 0.6)
INTERPRETED = Repeats(2, 5, 0.3)


def stopwatch(cuda: bool) -> Callable[[Callable], float]:
    """A function that runs a call once and gives its seconds."""
    if not cuda:
        return partial(timeit.timeit, number=1)
    flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")

    def seconds(call: Callable) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        for _ in range(READS):  # what is only read need not be written back at the expense of the call
            flush.sum()
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    return seconds


def interleaved(calls: Mapping[Any, Callable], repeats: Repeats, cuda: bool) -> dict[Any, list[float]]:
    """Seconds of every repeat of every call: rounds in random order, so that clock drift favours none."""
    clock, order = stopwatch(cuda), random.Random(0)
    times: dict[Any, list[float]] = {name: [] for name in calls}
    for name in calls:
        clock(calls[name])  # warm-up
    wanted = list(calls)
    while wanted:
        order.shuffle(wanted)
        for name in wanted:
            times[name].append(clock(calls[name]))
        wanted = [name for name in wanted if wants_more(times[name], repeats)]
    return times


def in_turns(calls: Mapping[Any, Callable], repeats: Repeats, cuda: bool) -> dict[Any, Times]:
    """Percentiles of every call, timed in turns, all repeated alike."""
    spent = interleaved(calls, repeats, cuda) if calls else {}
    return {name: percentiles(seconds) for name, seconds in spent.items()}


def percentiles(seconds: list[float]) -> Times:
    """What is kept of the repeats, to the nanosecond."""
    p20, p50, p80 = (round(float(np.quantile(seconds, share)), 9) for share in (0.2, 0.5, 0.8))
    return Times(p20, p50, p80, len(seconds))


def available_bytes(cuda: bool) -> int | None:
    """Memory that a measurement may take, bytes: what the GPU has free, or half of what the machine has."""
    if cuda:
        return torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved()
    path = Path("/proc/meminfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("MemAvailable"):
                return int(line.split()[1]) * 1024 // 2
    return None


def wants_more(times: list[float], repeats: Repeats) -> bool:
    """Whether a call is to be repeated once more."""
    return len(times) < repeats.least or (len(times) < repeats.most and sum(times) < repeats.seconds)

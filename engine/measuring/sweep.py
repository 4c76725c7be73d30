"""The block sizes of a kernel, one by one: how fast each is, or why it cannot run."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from engine.measuring import clock
from engine.measuring.libraries import kernels
from engine.measuring.precompile import Kernel
from engine.measuring.trial import Trial
from engine.recordings.timing import TilingTiming

REPEATS = clock.Repeats(3, 8, 0.02)
LONGEST = 0.1  # seconds per call; slower is recorded from one call


def call_of(row: TilingTiming, q, k, v, *_):
    """One launch; raises OutOfSharedMemoryError and what else the compiler finds."""
    options = Kernel.of_row(row).options

    def call():
        with kernels.launch_options(row.warps, row.stages):
            return kernels.attention(q, k, v, **options)

    return call


def timed(wanted: list[TilingTiming], cuda: bool) -> Iterator[TilingTiming]:
    """The rows of one problem, measured in random order so that clock drift favours no block size."""
    if not wanted:
        return
    trial, seconds = Trial.of(wanted[0].problem, cuda), clock.stopwatch(cuda)
    for row in random.Random(0).sample(wanted, len(wanted)):
        found = trial.checked(partial(call_of, row))
        if isinstance(found, str):
            yield replace(row, skipped=_short(found))
            continue
        spent = [seconds(found.call)]
        while spent[0] < LONGEST and clock.wants_more(spent, REPEATS):
            spent.append(seconds(found.call))
        yield replace(row, times=clock.percentiles(spent))


def _short(reason: str) -> str:
    """As a heat map says it: "out of shared memory: 288 KB of 227 KB"."""
    found = re.search(r"needs (\d+) bytes of shared memory.* has (\d+)", reason)
    if found is None:
        return reason
    needed, limit = (int(number) / 1024 for number in found.groups())
    return f"out of shared memory: {needed:.0f} KB of {limit:.0f} KB"

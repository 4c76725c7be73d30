"""Blocks of threads on SMs over time: the same type whether a model placed them or a GPU ran them."""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from engine.experiment import Experiment
from engine.model.launch import ORDERS
from engine.root import Refusal

MODELLED = "modelled"
MOST_SMS = 1024
COLUMNS = {  # of a timeline, with the dtype that holds them
    "kernel": np.uint8,
    "sm": np.int16,
    "start": np.float64,
    "end": np.float64,
    "head": np.int32,
    "query_block": np.int32,
    "key_block": np.int32,
}


class TimelineError(Refusal, ValueError):
    """Why columns are no timeline, in one sentence."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """Which block of work ran on which SM and when. Arrays are [blocks], in the order they were launched.

    A block of work is what one block of threads computes; where these stay and draw tiles (flash3), one tile.
    `simulate_timeline(Experiment())` has 256 blocks on 132 SMs, with a `busy_share` of 0.98.
    """

    experiment: Experiment  # the problem, algorithm, tiling and GPU
    origin: str  # "modelled", or "recorded on" a GPU and a date
    order: str  # in which a head's query blocks are launched, one of ORDERS
    kernels: tuple[str, ...]  # names of the kernels, one after another
    sms: int  # SMs of the GPU
    resident: tuple[int, ...]  # of each kernel, how many of its blocks ran on one SM at once, at most
    kernel: np.ndarray  # uint8, index into `kernels`
    sm: np.ndarray  # int16, which SM ran it, 0 to sms - 1
    # start, end: float64, seconds from the first start
    start: np.ndarray
    end: np.ndarray
    head: np.ndarray  # int32, batch * heads + head
    query_block: np.ndarray  # int32; -1 where a block takes all of a head's (flash1)
    key_block: np.ndarray  # int32, the key block, or split, that the block is confined to; -1 where it is not

    def __post_init__(self):
        for name, dtype in COLUMNS.items():
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype))
        if fault := self._fault():
            raise TimelineError(fault)

    def __len__(self) -> int:
        return len(self.start)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timeline):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)
        )

    __hash__ = None

    @property
    def seconds(self) -> float:
        """From the first start to the last end."""
        return float(self.end.max())

    @cached_property
    def wave(self) -> np.ndarray:
        """[blocks] int32: how often the place on its SM had been filled before, from 0 in each kernel."""
        order = np.lexsort((self.start, self.sm, self.kernel))
        group = self.kernel[order].astype(np.int64) * self.sms + self.sm[order]
        first = np.r_[True, group[1:] != group[:-1]]
        at = np.arange(len(order))
        rank = at - np.maximum.accumulate(np.where(first, at, 0))
        wave = np.empty(len(order), np.int32)
        wave[order] = rank // np.asarray(self.resident)[self.kernel[order]]
        return wave

    @cached_property
    def place(self) -> np.ndarray:
        """[blocks] int32: which of its SM's places a block takes, from 0: the lowest that is free."""
        place = np.zeros(len(self), np.int32)
        if max(self.resident) == 1:
            return place
        ends: dict[int, list[float]] = {}
        order = np.argsort(self.start, kind="stable")
        columns = (self.sm[order].tolist(), self.start[order].tolist(), self.end[order].tolist())
        for block, sm, start, end in zip(order.tolist(), *columns, strict=True):
            taken = ends.setdefault(sm, [])
            free = next((index for index, until in enumerate(taken) if until <= start), len(taken))
            taken[free : free + 1] = [end]
            place[block] = free
        return place

    @cached_property
    def busy(self) -> np.ndarray:
        """[sms] float64: seconds in which an SM ran at least one block."""
        order = np.lexsort((self.start, self.sm))
        sm, start, end = self.sm[order], self.start[order], self.end[order]
        shift = sm * (2 * self.seconds)  # so that one running maximum serves all SMs
        reached = np.maximum.accumulate(end + shift)
        before = np.r_[0.0, reached[:-1]] - shift
        return np.bincount(sm, np.maximum(0, end - np.maximum(start, before)), self.sms)

    @property
    def busy_share(self) -> float:
        """Part of all SMs' time, 0 to 1, in which they ran a block."""
        return float(self.busy.sum() / (self.sms * self.seconds))

    @property
    def imbalance(self) -> float:
        """How much longer than the average SM the busiest one works: 0 where all work alike."""
        return float(self.busy.max() / self.busy.mean() - 1)

    @property
    def tail(self) -> float:
        """Seconds from when the first SM has nothing left to do until the end."""
        last = np.zeros(self.sms)
        np.maximum.at(last, self.sm, self.end)
        return self.seconds - float(last.min())

    @cached_property
    def running(self) -> tuple[np.ndarray, np.ndarray]:
        """(times, blocks): how many blocks run from each time on; times rise, the last count is 0."""
        times = np.concatenate((self.end, self.start))
        change = np.repeat((-1, 1), len(self))
        order = np.argsort(times, kind="stable")
        times, running = times[order], np.cumsum(change[order])
        last = np.r_[times[1:] != times[:-1], True]
        return times[last], running[last]

    def _fault(self) -> str | None:
        """What is wrong with the columns, in a sentence."""
        lengths = {len(getattr(self, name)) for name in COLUMNS}
        if len(lengths) > 1 or 0 in lengths:
            return "a timeline's columns must be equally long, and have a block"
        if self.order not in ORDERS:
            return f"a timeline's order must be one of {', '.join(ORDERS)}"
        if not (np.isfinite(self.start).all() and np.isfinite(self.end).all()):
            return "a timeline's times must be finite"
        if self.start.min() != 0 or (self.end < self.start).any() or self.end.max() <= 0:
            return "a timeline's first block must start at 0, and none end before it starts"
        if not 0 < self.sms <= MOST_SMS:
            return f"a timeline must be of 1 to {MOST_SMS:,} SMs"
        if self.sm.min() < 0 or self.sm.max() >= self.sms:
            return f"a timeline's SMs must be from 0 to {self.sms - 1}"
        if self.kernel.max() >= len(self.kernels) or len(self.resident) != len(self.kernels):
            return (
                f"a timeline's kernels must be from 0 to {len(self.kernels) - 1}, and each have its residents"
            )
        found = most_at_once(len(self.kernels), self.kernel, self.sm, self.start, self.end)
        for name, most, resident in zip(self.kernels, found, self.resident, strict=True):
            if most > resident:
                return (
                    f"a timeline must have at most {resident} blocks of {name} on an SM at once, not {most}"
                )
        return None


def most_at_once(
    kernels: int, kernel: np.ndarray, sm: np.ndarray, start: np.ndarray, end: np.ndarray
) -> tuple[int, ...]:
    """Of each kernel, the most blocks that ran on one SM at once; one may start as another ends.

    The columns are [blocks], as `Timeline` has them.
    """
    sms = int(sm.max()) + 1
    group = np.tile(kernel.astype(np.int64) * sms + sm, 2)
    change = np.repeat((-1, 1), len(start))
    order = np.lexsort((change, np.concatenate((end, start)), group))
    most = np.zeros(kernels, np.int64)
    np.maximum.at(most, group[order] // sms, np.cumsum(change[order]))
    return tuple(most.tolist())

"""A kernel's blocks of threads: how long each takes, and on which SM it lands and when; modelled.

Blocks go as the hardware sends them: each, in launch order, where a place falls free, the first to the SMs in
turn. An SM has so many places, and the blocks on it share it: one runs the faster the fewer others are there.
While blocks wait to be launched every place is taken; after that each SM drains on its own. `speeds`
[places + 1] says how fast a block runs where so many are on its SM, as a multiple of where all places are
taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from engine.model.launch import Kernel
from engine.problem.gpu import Reached
from engine.schedule.programs import Programs

PLACED_ONE_BY_ONE = 1024  # blocks at the end of a launch; those before fill all places evenly


@dataclass(frozen=True)
class Visits:
    """How often the blocks of a head visit a tile."""

    of: Callable[[np.ndarray], np.ndarray]  # [n] blocks in, [n] float64 visits out
    mean: float  # of all
    some: float  # part of the blocks, 0 to 1, that visit any
    alike: bool  # whether they are known to visit equally many

    @classmethod
    def equal(cls, visits: float) -> Visits:
        """All blocks visit so many."""
        return cls(lambda block: np.full(len(block), visits), visits, float(visits > 0), True)

    @classmethod
    def listed(cls, visits: np.ndarray) -> Visits:
        """Each visits as many as stand here."""
        return cls(
            visits.__getitem__,
            float(visits.mean()),
            float((visits > 0).mean()),
            bool((visits == visits[0]).all()),
        )

    @classmethod
    def of_programs(cls, programs: Programs, group: float) -> Visits:
        """Those of very many programs, each for so many heads, or counted so many times."""

        def of(block: np.ndarray) -> np.ndarray:
            first, stop = programs.at(block)
            return np.maximum(stop - first, 0) * float(group)

        mean = programs.all_visits * group / programs.count
        return cls(of, mean, programs.filled / programs.count, False)


@dataclass(frozen=True)
class Lengths:
    """Seconds of a head's blocks: each waits, begins if it has visits, and takes as long for every visit."""

    visits: Visits
    waits: float
    begins: float
    visit: float

    @property
    def mean(self) -> float:
        """Of all blocks."""
        return self.waits + self.begins * self.visits.some + self.visit * self.visits.mean

    def of(self, block: np.ndarray) -> np.ndarray:
        """[n] of n blocks."""
        visits = self.visits.of(block)
        return self.waits + self.begins * (visits > 0) + visits * self.visit


@dataclass(frozen=True)
class Work:
    """The blocks of threads of one kernel.

    `work_of(launch, launch.kernels[0], traffic).makespan(launch.order)` is 14.6e-6 for the scenario that the
    dashboard begins with, whose 256 blocks fill 132 SMs once, two on each.
    """

    kernel: Kernel  # how they are launched
    sms: int  # of the GPU
    lengths: Lengths  # of a head's blocks, where all places of its SM are taken
    speeds: np.ndarray  # [places + 1], see above
    # seconds that the work of all blocks takes each unit of the whole GPU, by its name
    units: dict[str, float]
    least: float  # seconds that device memory alone takes
    cold: float = 0.0  # seconds more of the first blocks of all SMs
    copies: int = 0  # from device memory that an SM has under way; 0 where none runs ahead
    limited: bool = False  # whether the card's power limits its clock

    @property
    def places(self) -> int:
        """Blocks that share an SM."""
        return len(self.speeds) - 1

    @property
    def slots(self) -> int:
        """Blocks that the GPU holds at once."""
        return self.sms * self.places

    @property
    def around(self) -> float:
        """Seconds of a block before its first visit and after its last, on average."""
        return self.lengths.waits + self.lengths.begins * self.lengths.visits.some

    @property
    def even(self) -> float:
        """Seconds that all blocks take if they fill all places evenly."""
        return self.lengths.mean * self.kernel.blocks / self.slots

    def placed(self, order: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(sm, start, end), [blocks] each in launch order."""
        return self._place(self.lengths.of(self.kernel.launched(order, 0, self.kernel.blocks)[1]))

    def makespan(self, order: str) -> float:
        """Seconds from the first block's start to the last one's end."""
        if self.lengths.visits.alike:
            return self.cold + makespan_alike(self.kernel.blocks, self.lengths.mean, self.sms, self.speeds)
        first = max(0, self.kernel.blocks - PLACED_ONE_BY_ONE)
        seconds = self.lengths.of(self.kernel.launched(order, first, self.kernel.blocks)[1])
        before = self.even - float(seconds.sum()) / self.slots if first else 0.0
        return before + float(self._place(seconds)[2].max())

    def with_memory(self, seconds: float) -> float:
        """Seconds of blocks that take so many on their SMs, and of device memory."""
        return in_two_queues(seconds, self.least, self.copies)

    def slowed(self, busy: float, order: str, reached: Reached) -> Work:
        """The same at the clock that the card's power leaves: tensor cores work a share `busy` of the time.

        That is while blocks fill all SMs; where they end one by one, the card has power left.
        """
        left = reached.clock_left(busy * self.even / self.makespan(order))
        work = replace(self._stretched(1 / left), limited=True)
        seconds = work.makespan(order)
        return work._stretched(reached.sustained(seconds) / seconds)

    def _stretched(self, times: float) -> Work:
        """The same with visits that many times as long."""
        return replace(self, lengths=replace(self.lengths, visit=self.lengths.visit * times))

    def _place(self, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return place(seconds + self.cold * (np.arange(len(seconds)) < self.slots), self.sms, self.speeds)


def in_two_queues(seconds: float, memory: float, copies: int) -> float:
    """Seconds where copies queue for memory, then for their SM, each of them idle where none is there.

    `copies` are under way at once, in a closed ring of two queues (Buzen 1973); of none the longer counts.
    """
    longer = max(seconds, memory)
    filled = (min(seconds, memory) / longer) ** np.arange(copies + 1)
    return longer * float(filled.sum() / filled[: copies or 1].sum())


def place(seconds: np.ndarray, sms: int, speeds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sm, start, end), each [blocks], of blocks that take `seconds` [blocks] where all places are taken."""
    places = len(speeds) - 1
    starts, slots = _taken(seconds, min(len(seconds), sms * places))
    ends = starts + seconds
    running = ends > starts[-1]  # when the last is launched
    left = np.zeros(sms * places)
    left[slots[running]] = ends[running] - starts[-1]
    drained = _drained(left.reshape(places, sms), speeds).reshape(-1)
    ends[running] = starts[-1] + drained[slots[running]]
    return slots % sms, starts, ends


def _taken(seconds: np.ndarray, at_once: int) -> tuple[np.ndarray, np.ndarray]:
    """(start, slot), each [blocks]: a block takes the slot that falls free first, of several the first.

    Blocks whose slots all fall free before any that another of them takes are placed together.
    """
    starts, slots = np.zeros(len(seconds)), np.arange(len(seconds))
    free, placed = seconds[:at_once].copy(), at_once
    while placed < len(seconds):
        order = np.argsort(free, kind="stable")[: len(seconds) - placed]
        begins = free[order]
        ends = begins + seconds[placed : placed + len(order)]
        together = np.append(True, begins[1:] < np.minimum.accumulate(ends)[:-1])
        many = len(order) if together.all() else int(together.argmin())
        new = slice(placed, placed + many)
        starts[new], slots[new], free[order[:many]] = begins[:many], order[:many], ends[:many]
        placed += many
    return starts, slots


def makespan_alike(count: int, seconds: float, sms: int, speeds: np.ndarray) -> float:
    """When the last of so many equal blocks ends: full rounds, and the rest as `place` places it."""
    rounds, rest = divmod(count, sms * (len(speeds) - 1))
    return seconds * (rounds + (1 / float(speeds[-(-rest // sms)]) if rest else 0))


def _drained(left: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """[places, sms] when each block ends that has `left` seconds, at full places, to go; 0 for none."""
    places = len(left)
    order = np.argsort(left, axis=0, kind="stable")
    steps = np.diff(np.take_along_axis(left, order, 0), axis=0, prepend=0.0)
    ends = np.cumsum(steps / speeds[places - np.arange(places)][:, None], axis=0)
    drained = np.empty_like(left)
    np.put_along_axis(drained, order, ends, 0)
    return drained

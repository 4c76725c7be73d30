"""A KV cache in pages: which page is whose, and how much room lies unused, beside a whole cache for each."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count

import numpy as np

from engine.problem.problem import Problem

PAGE_SIZES = (16, 32, 64, 128, 256)  # keys
SEQUENCES = (2, 3, 4, 5, 6, 7, 8)
CHOICES = {"pool_page": (PAGE_SIZES, 16), "sequences": (SEQUENCES, 6)}  # all that each may be, the usual one
MOST_ROOM = 2048  # keys of a sequence of which every page is drawn
GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Paging:
    """Sequences of different lengths in one pool of pages, as large as a whole cache for each would be."""

    lengths: tuple[int, ...]  # keys that each sequence has
    room: int  # keys that a whole cache must have room for: the most that a sequence may get
    page_size: int  # keys of a page
    key_bytes: int  # bytes of K and V of one key in one layer, all KV heads
    table: tuple[tuple[int, ...], ...]  # of each sequence the pages that hold its keys, in their order

    @property
    def pages(self) -> int:
        return len(self.lengths) * self.room // self.page_size

    @property
    def taken(self) -> int:
        return sum(map(len, self.table))

    @property
    def taken_slots(self) -> int:
        return self.taken * self.page_size

    @property
    def unused_slots(self) -> int:
        """Slots of pages that are taken which hold no key: the internal fragmentation."""
        return self.taken_slots - sum(self.lengths)

    @property
    def unused_share(self) -> float:
        return self.unused_slots / self.taken_slots

    @property
    def more(self) -> int:
        """Further sequences of the average length for which pages are free."""
        return (self.pages - self.taken) * len(self.lengths) // self.taken

    @property
    def owners(self) -> np.ndarray:
        """[pages, 2]: the sequence that has each page, -1 for a free one, and how many keys it holds."""
        found = np.tile([-1, 0], (self.pages, 1))
        for sequence, pages in enumerate(self.table):
            for index, page in enumerate(pages):
                held = min(self.page_size, self.lengths[sequence] - index * self.page_size)
                found[page] = sequence, held
        return found


def paging_of(problem: Problem, sequences: int, page_size: int | None) -> Paging:
    """As many sequences of a scenario's model, each with room for its keys, at most MOST_ROOM of them.

    Without a page size a page is a whole cache: as large as the room of a sequence.
    """
    room = max(PAGE_SIZES[-1], min(MOST_ROOM, problem.seq_kv // PAGE_SIZES[-1] * PAGE_SIZES[-1]))
    lengths, size = lengths_of(sequences, room), page_size or room
    key_bytes = problem.kv_heads * (problem.head_dim + problem.v_dim) * problem.itemsize
    return Paging(lengths, room, size, key_bytes, allocated(lengths, size))


def lengths_of(sequences: int, room: int) -> tuple[int, ...]:
    """Keys of each of some sequences: spread evenly from none to all that there is room for."""
    return tuple(max(1, round((index + 1) * GOLDEN % 1 * room)) for index in range(sequences))


@lru_cache(maxsize=64)
def allocated(lengths: tuple[int, ...], page_size: int) -> tuple[tuple[int, ...], ...]:
    """The pages of each sequence, by running: prompts, half of each, first, then a key each in turn."""
    table: list[list[int]] = [[] for _ in lengths]
    prompts = ((sequence, key) for sequence, length in enumerate(lengths) for key in range(length // 2))
    turns = (
        (sequence, length // 2 + turn)
        for turn in range(max(lengths))
        for sequence, length in enumerate(lengths)
        if length // 2 + turn < length
    )
    free = count()
    for sequence, key in chain(prompts, turns):
        if key % page_size == 0:
            table[sequence].append(next(free))
    return tuple(map(tuple, table))

"""What every GPU computes and receives, and when: the rounds and steps of `seconds` laid out, modelled.

Recorded runs have the same form.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import NamedTuple

from engine.algorithms.ring import MOST_GPUS, Meeting, meetings
from engine.model.cluster.fabric import Way
from engine.model.cluster.seconds import (
    COMPUTING,
    MERGING,
    NETWORK,
    PACKING,
    TAIL,
    TRANSFER,
    computing,
    merging,
    modelled,
    round_starts,
    steps,
)
from engine.model.cluster.spread import TWO_LEVEL, Spread
from engine.model.timeline import MODELLED

NOBODY = -1  # the owner of what belongs to no one GPU


class Mark(NamedTuple):
    """From start to end, seconds, a GPU does something with an owner's keys, such as compute tiles."""

    gpu: int
    kind: str  # one of `seconds.KINDS`; a transfer belongs to the round in which it is used
    round: int
    owner: int
    start: float
    end: float
    tiles: tuple[tuple[int, int], ...] = ()  # (chunk of queries, chunk of keys), each


@dataclass(frozen=True, eq=False)
class Lanes:
    """A run: marks in no order, and the seconds of all."""

    spread: Spread
    marks: tuple[Mark, ...]
    seconds: float
    backward: bool = False
    origin: str = MODELLED  # "modelled", or "recorded on" a GPU and a date
    # recorded seconds of one GPU for the same; None where modelled, or not recorded
    one_gpu: float | None = None

    @property
    def busy_share(self) -> float:
        """The share of all GPUs' time in which they compute, 0 to 1."""
        busy = sum(mark.end - mark.start for mark in self.marks if mark.kind == COMPUTING)
        return busy / (self.spread.gpus * self.seconds)


@lru_cache(maxsize=32)
def lanes(spread: Spread, backward: bool = False) -> Lanes:
    """The run of a spread problem on two GPUs or more; ValueError for more than are drawn."""
    if spread.gpus > MOST_GPUS:
        raise ValueError(f"gpus is {spread.gpus}; at most {MOST_GPUS} are drawn")
    marks = tuple((_ring if spread.by_steps else _staged)(spread, backward))
    return Lanes(spread, marks, modelled(spread, backward).seconds, backward)


def _ring(spread: Spread, backward: bool) -> Iterator[Mark]:
    """Rounds of computing, with the transfer of a later round's block beside each."""
    met: dict[tuple[int, int], list[Meeting]] = {}
    for meeting in meetings(spread.order, spread.problem):
        met.setdefault((meeting.gpu, meeting.owner), []).append(meeting)
    held = len(spread.order.of(0))
    shares = {pair: len({each.keys for each in found}) / held for pair, found in met.items()}
    starts = round_starts(spread, backward).tolist()
    (own, other), amount = computing(spread, backward), spread.passed(backward)
    for number, (start, following) in enumerate(pairwise(starts)):
        for gpu in range(spread.gpus):
            owner = _owner(spread, gpu, number)
            if found := met.get((gpu, owner)):
                tiles = tuple((each.queries, each.keys) for each in found)
                spent = own if owner == gpu else other
                yield Mark(gpu, COMPUTING, number, owner, start, start + spent, tiles)
            for kind, way, later in _under_way(spread, number):
                source = _owner(spread, gpu, later)
                if source != gpu and (gpu, source) in met:
                    spent = way.seconds(amount * shares[gpu, source])
                    beside = way.beside or spread.method == TWO_LEVEL
                    begin = start if beside else following - TAIL - way.seconds(amount)
                    yield Mark(gpu, kind, later, source, begin, begin + spent)
    for gpu in range(spread.gpus):
        yield Mark(gpu, PACKING, 0, gpu, 0.0, starts[0])
        yield Mark(gpu, MERGING, spread.gpus, gpu, starts[-1], starts[-1] + merging(spread, backward))


def _owner(spread: Spread, gpu: int, number: int) -> int:
    """Whose keys a GPU computes with in a round: of a ring of hosts, those of its own host's GPUs first."""
    if spread.method != TWO_LEVEL:
        return (gpu - number) % spread.gpus
    size = min(spread.fabric.host, spread.gpus)
    host, place = divmod(gpu, size)
    turn, inner = divmod(number, size)
    return (host - turn) % spread.fabric.hosts(spread.gpus) * size + (place - inner) % size


def _under_way(spread: Spread, number: int) -> Iterator[tuple[str, Way, int]]:
    """What comes into a GPU in a round: of which kind, by which way, for which later round."""
    last, size = spread.gpus - 1, min(spread.fabric.host, spread.gpus)
    if spread.method != TWO_LEVEL:
        if number < last:
            yield _kind(spread), spread.way, number + 1
        return
    if (number + 1) % size:
        yield TRANSFER, spread.inner_way, number + 1
    if number % size == 0 and number + size <= last:  # its counterpart's, for the next turn
        yield NETWORK, spread.way, number + size


def _kind(spread: Spread) -> str:
    return NETWORK if spread.fabric.hosts(spread.gpus) > 1 else TRANSFER


def _staged(spread: Spread, backward: bool) -> Iterator[Mark]:
    """The steps, alike on every GPU."""
    for (kind, group, start, end), gpu in product(steps(spread, backward), range(spread.gpus)):
        owner = gpu if kind == PACKING else NOBODY
        yield Mark(gpu, _kind(spread) if kind == TRANSFER else kind, group, owner, start, end)

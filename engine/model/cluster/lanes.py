"""What every GPU computes and receives, and when: the rounds of `seconds` laid out, modelled.

Recorded runs have the same form. Modelled GPUs go from round to round together, as long as the slowest of
them takes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate
from typing import NamedTuple

from engine.algorithms.ring import MOST_GPUS, Meeting, Order, meetings
from engine.model.cluster.fabric import Way
from engine.model.cluster.kernel import kernel_seconds
from engine.model.cluster.seconds import (
    BACKWARD_BYTES,
    FORWARD_BYTES,
    TAIL,
    longer,
    merging,
    packing,
    rounds,
    spans,
    stages,
    turns,
    work_shares,
)
from engine.model.cluster.spread import ALL_TO_ALL, TWO_LEVEL, Spread
from engine.model.timeline import MODELLED

COMPUTING, TRANSFER, NETWORK, MERGING, PACKING = KINDS = (
    "computing",
    "transfer",
    "network",  # a transfer from another host
    "merging",
    "packing",
)
NOBODY = -1  # the owner of what belongs to no one GPU


class Mark(NamedTuple):
    """From start to end, seconds, a GPU does something with an owner's keys, such as compute tiles."""

    gpu: int
    kind: str  # one of KINDS; a transfer belongs to the round in which it is used
    round: int
    owner: int
    start: float
    end: float
    tiles: tuple[tuple[int, int], ...] = ()  # (chunk of queries, chunk of keys), each


@dataclass(frozen=True, eq=False)
class Lanes:
    """A run: marks in no order, and the seconds of all."""

    spread: Spread
    order: Order
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
    """The run of a spread problem; ValueError for more GPUs than are drawn."""
    if spread.gpus > MOST_GPUS:
        raise ValueError(f"gpus is {spread.gpus}; at most {MOST_GPUS} are drawn")
    marks, seconds = (_ring if spread.by_steps else _staged)(spread, backward)
    return Lanes(spread, spread.order, tuple(marks), seconds, backward)


def _ring(spread: Spread, backward: bool) -> tuple[list[Mark], float]:
    """Rounds of computing, with the transfer of a later round's block beside each."""
    met: dict[tuple[int, int], list[Meeting]] = {}
    for meeting in meetings(spread.order, spread.problem):
        met.setdefault((meeting.gpu, meeting.owner), []).append(meeting)
    held = len(spread.order.of(0))
    shares = {pair: len({each.keys for each in found}) / held for pair, found in met.items()}
    starts, beside = _round_starts(spread, backward)
    computing = _computing(spread, backward)
    brought = _brought(spread, backward)
    marks = []
    for number, start in enumerate(starts[:-1]):
        for gpu in range(spread.gpus):
            owner = _owner(spread, gpu, number)
            if found := met.get((gpu, owner)):
                spent = computing(found)
                spent = spent if number == spread.gpus - 1 else beside(spent)
                tiles = tuple((each.queries, each.keys) for each in found)
                marks.append(Mark(gpu, COMPUTING, number, owner, start, start + spent, tiles))
            for kind, way, later, size in brought(number):
                source = _owner(spread, gpu, later)
                if source != gpu and (gpu, source) in met:
                    spent = way.seconds(size * shares[gpu, source])
                    marks.append(Mark(gpu, kind, later, source, start, start + spent))
    end = starts[-1]
    if spread.gpus > 1:
        end += merging(spread)
        marks += [Mark(gpu, MERGING, spread.gpus, gpu, starts[-1], end) for gpu in range(spread.gpus)]
    return marks, end


def _owner(spread: Spread, gpu: int, number: int) -> int:
    """Whose keys a GPU computes with in a round: of a ring of hosts, those of its own host's GPUs first."""
    if spread.method != TWO_LEVEL:
        return (gpu - number) % spread.gpus
    size = min(spread.fabric.host, spread.gpus)
    host, place = divmod(gpu, size)
    turn, inner = divmod(number, size)
    return (host - turn) % spread.fabric.hosts(spread.gpus) * size + (place - inner) % size


def _round_starts(spread: Spread, backward: bool) -> tuple[list[float], Callable[[float], float]]:
    """When each round begins and the last ends; and how long computing takes beside a transfer."""
    gpus = spread.gpus
    if spread.method == TWO_LEVEL and gpus > 1:
        found = turns(spread, backward)
        places = (divmod(number, found.size) for number in range(gpus))
        within = [turn * found.length + inner * found.round for turn, inner in places]
        return [*within, found.seconds], found.inside.beside
    found = rounds(spread, backward)
    lengths = (found.length(number) + TAIL * (gpus > 1) for number in range(gpus))
    return [0.0, *accumulate(lengths)], found.beside


def _computing(spread: Spread, backward: bool) -> Callable[[list[Meeting]], float]:
    """Seconds of the one call that computes a GPU's chunks on an owner's, each shape asked for once."""
    times, chunk = longer(spread, backward), spread.rows // (2 if spread.zigzag else 1)
    alone = lru_cache(None)(partial(kernel_seconds, spread.problem, spread.hardware))

    def seconds(found: list[Meeting]) -> float:
        queries, keys = len({each.queries for each in found}), len({each.keys for each in found})
        return times * alone(queries * chunk, keys * chunk, not all(each.whole for each in found))

    return seconds


def _brought(spread: Spread, backward: bool) -> Callable[[int], Iterator[tuple[str, Way, int, float]]]:
    """What comes into a GPU in a round: of which kind, by which way, for which later round, bytes at most."""
    amount = spread.block * (BACKWARD_BYTES if backward else FORWARD_BYTES)
    last, kind, way = spread.gpus - 1, _kind(spread), spread.way
    size, inside = min(spread.fabric.host, spread.gpus), spread.inner_way

    def following(number: int) -> Iterator[tuple[str, Way, int, float]]:
        if number < last:
            yield kind, way, number + 1, amount

    def of_hosts(number: int) -> Iterator[tuple[str, Way, int, float]]:
        if (number + 1) % size:
            yield TRANSFER, inside, number + 1, amount
        if number % size == 0 and number + size <= last:  # its counterpart's, for the next turn
            yield NETWORK, way, number + size, amount

    return of_hosts if spread.method == TWO_LEVEL else following


def _kind(spread: Spread) -> str:
    return NETWORK if spread.fabric.hosts(spread.gpus) > 1 else TRANSFER


def _staged(spread: Spread, backward: bool) -> tuple[list[Mark], float]:
    """A group of heads after another: gathered keys come once, exchanged heads go back too."""
    found, gpus = stages(spread, backward), range(spread.gpus)
    if spread.gpus == 1:
        return [Mark(0, COMPUTING, 0, 0, 0.0, found.computing)], found.computing
    gathers = spread.method != ALL_TO_ALL
    tail = TAIL * (spans(spread) if gathers else 1)
    pack = 0.0 if gathers else packing(spread) / 2
    there, back = _directions(spread, found.transfer / found.groups)
    shares, seen, marks, kind = work_shares(spread), _seen(spread), [], _kind(spread)
    for group in range(found.groups):
        arrives = pack + there + group * (found.length + tail)
        start = pack if group == 0 else arrives - found.length - tail
        ends = arrives + found.computing / found.groups
        leaves = max(ends, start + found.length + tail + there) if group < found.groups - 1 else ends + tail
        for gpu in gpus:
            marks.append(Mark(gpu, kind, group, NOBODY, start, start + there))
            own = arrives + (ends - arrives) * shares[gpu]
            marks.append(Mark(gpu, COMPUTING, group, NOBODY, arrives, own, tuple(seen[gpu])))
            if back:
                marks.append(Mark(gpu, kind, group, NOBODY, leaves, leaves + back))
    end = found.seconds + 2 * pack + found.groups * tail
    if pack:
        for gpu in gpus:
            marks.append(Mark(gpu, PACKING, 0, gpu, 0.0, pack))
            marks.append(Mark(gpu, PACKING, found.groups, gpu, end - pack, end))
    return marks, end


def _directions(spread: Spread, transfer: float) -> tuple[float, float]:
    """Seconds of a group's transfer before it is computed, and after."""
    if spread.method != ALL_TO_ALL:
        return transfer, 0.0
    heads, key_heads = spread.problem.heads, spread.problem.kv_heads
    share = (heads + 2 * key_heads) / (2 * heads + 2 * key_heads)  # Q, K and V there, O back
    return share * transfer, (1 - share) * transfer


def _seen(spread: Spread) -> list[list[tuple[int, int]]]:
    """The tiles of each GPU in the order of the sequence; of exchanged heads, which have no owner, none."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(spread.gpus)]
    if spread.method != ALL_TO_ALL:
        for meeting in meetings(spread.order, spread.problem):
            found[meeting.gpu].append((meeting.queries, meeting.keys))
    return [sorted(each) for each in found]

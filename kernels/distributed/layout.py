"""Which tokens each rank holds, and what it fetches, computes and returns in each round: numbers of rows.

A *ring* takes the blocks of one rank a round, its own first, and merges what they give. A *gathering* fetches
in one round all keys that a rank's queries see, in the order of the sequence: one call a span of queries, and
nothing to merge. A window is always gathered, for its far edge cuts across the ranks' blocks.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise


@dataclass(frozen=True)
class Span:
    """Tokens start to stop - 1 of the sequence, which are rows row, row + 1, ... of what a rank holds."""

    start: int
    stop: int
    row: int

    @property
    def rows(self) -> int:
        """How many."""
        return self.stop - self.start


@dataclass(frozen=True)
class Layout:
    """Zigzag: of 2 G chunks rank r holds r and 2 G - 1 - r, so that causal work is even; else chunk r of G.

    Chunks differ by one token at most, so any length is served that gives every chunk one.
    """

    tokens: int
    ranks: int
    zigzag: bool

    @property
    def chunks(self) -> int:
        """Chunks of all ranks."""
        return 2 * self.ranks if self.zigzag else self.ranks

    @cached_property
    def spans(self) -> tuple[tuple[Span, ...], ...]:
        """What each rank holds, in the order of the sequence."""
        edges = [self.tokens * each // self.chunks for each in range(self.chunks + 1)]
        chunks = list(pairwise(edges))
        if not self.zigzag:
            return tuple((Span(*chunk, 0),) for chunk in chunks)
        halves = zip(chunks[: self.ranks], reversed(chunks), strict=False)
        return tuple((Span(*first, 0), Span(*last, first[1] - first[0])) for first, last in halves)

    def rows(self, rank: int) -> int:
        """Tokens that a rank holds."""
        return sum(span.rows for span in self.spans[rank])

    @cached_property
    def most_rows(self) -> int:
        """Tokens of the rank that holds most."""
        return max(map(self.rows, range(self.ranks)))

    @cached_property
    def owners(self) -> tuple[tuple[Span, int], ...]:
        """Every span with its rank, in the order of the sequence."""
        held = ((span, rank) for rank in range(self.ranks) for span in self.spans[rank])
        return tuple(sorted(held, key=lambda pair: pair[0].start))


EPOCH = 8  # rounds whose gradients may wait at their owner before it adds them up


@dataclass(frozen=True)
class Transfer:
    """Rows take, take + 1, ... of what `source` has become rows put, put + 1, ... of what `target` has."""

    source: int
    target: int
    take: int
    put: int
    rows: int


@dataclass(frozen=True)
class Part:
    """One call of the attention kernel: a slice of this rank's queries and one of the round's keys."""

    queries: slice
    keys: slice
    causal: bool
    window: int | None


@dataclass(frozen=True)
class Round:
    """What all ranks move and this one computes.

    transfers bring K and V, returns carry dK and dV to their owners; kept and arriving are the (row here, row
    of this rank's keys, rows) of the gradients that this round has and that it gets from others.
    """

    group: int
    rows: int
    local: bool
    parts: tuple[Part, ...]
    transfers: tuple[Transfer, ...]
    returns: tuple[Transfer, ...]
    kept: tuple[tuple[int, int, int], ...]
    arriving: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Plan:
    """The rounds of a rank, by groups of key heads.

    held are the rows of the rank that holds most, most_rows those of the longest round, inbox_rows the most
    rows of gradients that wait at a rank.
    """

    rounds: tuple[Round, ...]
    groups: int
    held: int
    most_rows: int
    inbox_rows: int


def planned(layout: Layout, rank: int, causal: bool, window: int | None, ring: bool, groups: int) -> Plan:
    """The plan of a rank; `ring` is heeded where there is no window."""
    if ring and window is None:
        every = [_ring(layout, each, causal) for each in range(layout.ranks)]
    else:
        every = [[_gathering(layout, each, causal, window)] for each in range(layout.ranks)]
    rounds, inbox_rows, waiting = [], 0, {}
    for number in range(groups * len(every[0])):
        group, step = divmod(number, len(every[0]))
        if number % EPOCH == 0:
            waiting = dict.fromkeys(range(layout.ranks), 0)
        rounds.append(_round(layout, rank, group, [each[step] for each in every], waiting))
        inbox_rows = max(inbox_rows, *waiting.values())
    most_rows = max(_rows(brought) for rounds_of in every for brought, _ in rounds_of)
    return Plan(tuple(rounds), groups, layout.most_rows, most_rows, inbox_rows)


def _round(layout: Layout, rank: int, group: int, every: list, waiting: dict[int, int]) -> Round:
    """One round of all ranks, as this one sees it; waiting counts the rows that wait at each owner."""
    transfers, returns, kept, arriving = [], [], [], []
    for brought, _ in every:
        for each in brought:
            if each.source != each.target:
                put = waiting[each.source]
                returns.append(Transfer(each.target, each.source, each.put, put, each.rows))
                waiting[each.source] += each.rows
                if each.source == rank:
                    arriving.append((put, each.take, each.rows))
            elif each.target == rank:
                kept.append((each.put, each.take, each.rows))
            if not _local(layout, brought):
                transfers.append(replace(each, take=group * layout.most_rows + each.take))
    brought, parts = every[rank]
    lists = map(tuple, (transfers, returns, kept, arriving))
    return Round(group, _rows(brought), _local(layout, brought), parts, *lists)


def _local(layout: Layout, brought: list[Transfer]) -> bool:
    """Whether the keys are all that their rank holds, and nothing else."""
    own = brought[0].target
    return brought == [Transfer(own, own, 0, 0, layout.rows(own))]


def _rows(brought: list[Transfer]) -> int:
    return sum(each.rows for each in brought)


def _ring(layout: Layout, rank: int, causal: bool) -> list[tuple[list[Transfer], tuple[Part, ...]]]:
    """A round a rank: causal, earlier ranks' first chunks are seen by all queries, later ranks' by half."""
    own = layout.rows(rank)
    rounds = []
    for step in range(layout.ranks):
        owner = (rank - step) % layout.ranks
        rows, first = layout.rows(owner), 0
        if causal and owner < rank:
            rows = layout.spans[owner][1].row
        elif causal and owner > rank:
            first = layout.spans[rank][1].row
        part = Part(slice(first, own), slice(0, rows), causal and owner == rank, None)
        rounds.append(([Transfer(owner, rank, 0, 0, rows)], (part,)))
    return rounds


def _gathering(layout: Layout, rank: int, causal: bool, window: int | None):
    """One round: the keys that each span of queries sees, those that several see once."""
    behind = layout.tokens if window is None else window - 1
    seen = [
        (max(0, span.start - behind), span.stop if causal or window is not None else layout.tokens)
        for span in layout.spans[rank]
    ]
    ranges = []
    for start, stop in sorted(seen):
        if ranges and start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(stop, ranges[-1][1]))
        else:
            ranges.append((start, stop))
    brought, starts, rows = [], [], 0
    for start, stop in ranges:
        starts.append((start, stop, rows))
        for span, owner in layout.owners:
            low, high = max(start, span.start), min(stop, span.stop)
            if low < high:
                take, put = span.row + low - span.start, rows + low - start
                brought.append(Transfer(owner, rank, take, put, high - low))
        rows += stop - start
    parts = []
    for span, (start, stop) in zip(layout.spans[rank], seen, strict=True):
        low, _, at = next(each for each in starts if each[0] <= start < each[1])
        keys = slice(at + start - low, at + stop - low)
        queries = slice(span.row, span.row + span.rows)
        parts.append(Part(queries, keys, causal or window is not None, window))
    return brought, tuple(parts)

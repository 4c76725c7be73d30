"""Which rank holds which tokens."""

from dataclasses import dataclass
from functools import cached_property


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
        return tuple(self._of(rank) for rank in range(self.ranks))

    def _of(self, rank: int) -> tuple[Span, ...]:
        own = (rank, self.chunks - 1 - rank) if self.zigzag else (rank,)
        bounds = [tuple(self.tokens * each // self.chunks for each in (chunk, chunk + 1)) for chunk in own]
        first = bounds[0][1] - bounds[0][0]
        return tuple(Span(*pair, row) for pair, row in zip(bounds, (0, first), strict=False))

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

"""Key blocks of the backward pass that several blocks of threads share, so that all SMs end together."""

from typing import NamedTuple

from kernels.call.call import ceil_div

AROUND = 2  # visits that take as long as what a block of threads does before and after its own, about
SUMMED = 40  # shares whose sums are written and added up in about the time of a visit
MOST_SHARES = 32  # of a key block: its sums are added up one after another


class Shares(NamedTuple):
    """How the last key blocks in order are cut: by the query blocks that visit them.

    Those before `whole` have a block of threads each. The next ones are cut in coarse_shares, which are
    `coarse` in all, and what is left then in fine_shares, `fine` in all.
    """

    whole: int
    coarse: int
    coarse_shares: int
    fine: int
    fine_shares: int

    @property
    def count(self) -> int:
        return self.coarse + self.fine

    @property
    def key_blocks(self) -> int:
        """That are cut."""
        return self.coarse // self.coarse_shares + self.fine // self.fine_shares

    def arguments(self) -> dict[str, int]:
        """What a kernel takes of it."""
        return {name: each for name, each in self._asdict().items() if name != "fine"}


NONE = Shares(0, 0, 0, 0, 0)  # what a kernel gets where none is shared


def shares_of(
    key_blocks: int, query_blocks: int, heads: int, processors: int, slower: float = 1
) -> Shares | None:
    """How to cut key blocks that query blocks of so many heads visit; None where that does not pay.

    An SM runs one block of threads at a time. All rounds but the last are of whole key blocks; in its place
    come two shorter ones, of as many equal shares as there are SMs and then of what is left, more finely.
    slower: how much longer a visit takes in the kernel that can share.
    """
    left = key_blocks % processors
    most = min(query_blocks, MOST_SHARES)

    def cut(shares: int) -> Shares:
        coarse = min(left, processors // shares)
        rest = left - coarse
        fine_shares = min(most, processors // rest) if rest else 1
        return Shares(key_blocks - left, coarse * shares, shares, rest * fine_shares, fine_shares)

    def visits(rounds: int, shares: int) -> float:
        """That take as long as so many rounds."""
        return rounds * (ceil_div(query_blocks, shares) * heads + AROUND)

    def seconds(way: Shares) -> float:
        """Of all rounds, in visits."""
        last = visits(1, way.coarse_shares) + visits(way.fine > 0, way.fine_shares) + way.count / SUMMED
        return slower * (visits(key_blocks // processors, 1) + last)

    coarsest = min(most, ceil_div(processors, left)) if left else 0
    best = min(map(cut, range(2, coarsest + 1)), key=seconds, default=None)
    return best if best and seconds(best) < visits(key_blocks // processors + 1, 1) else None


def key_block_at(number, batch_heads, heads_together, key_blocks):
    """(key head of all, key block) of a number, as some heads' first blocks start, then their second ones."""
    first_head = number // (heads_together * key_blocks) * heads_together
    heads = min(heads_together, batch_heads - first_head)
    in_set = number - first_head * key_blocks
    return first_head + in_set % heads, in_set // heads

"""What a call has beyond a plain mask: a range of keys for every query, a cap, sinks, slopes.

flash2, its backward pass, split_kv, flash1 and standard take any ranges; flash3 takes what `Seen` says.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch

from kernels.call.call import Call
from kernels.call.key_ranges import Seen
from kernels.call.options import Options
from kernels.call.value_checks import resolved
from kernels.tile.tile import LOG2_E, Tile

ENDLESS_CAP, SMALLEST_CAP = 2.0**40, 2.0**-100
COARSE_CAPS = 8.0, 64.0  # what models have
SHORT_DOCUMENT = 48  # queries on average: below, a tile of several documents is faster than one of each
LARGEST = 2.0**127  # about, of float32


class TermTensors(NamedTuple):
    """What the kernels read of terms; seers: ranges seen from the keys; k, v: beside TMA descriptors."""

    ranges: torch.Tensor
    seers: torch.Tensor | None
    sinks: torch.Tensor | None
    slopes: torch.Tensor | None
    k: torch.Tensor | None = None
    v: torch.Tensor | None = None


class Terms(NamedTuple):
    """ranges is int32 [batch, 3, seq_q], see `kernels.tile.scores`; the others are None where there is none.

    sinks, float32 [heads]: a logit without a key. slopes, float32 [batch, heads]: what a score falls by a key
    of distance. softcap: scores become softcap tanh(score / softcap). seen says what the ranges do, if so few
    numbers can; these are made by `make` then, once they are needed.
    """

    ranges: torch.Tensor | None
    sinks: torch.Tensor | None = None
    slopes: torch.Tensor | None = None
    softcap: float | None = None
    seen: Seen | None = None
    make: Callable[[], torch.Tensor] | None = None

    def features(self, queries: int) -> frozenset[str]:
        """Of `kernels.algorithms.record.FEATURES`, what these ask for of so many queries a head."""
        asked = {
            "sinks": self.sinks is not None,
            "alibi_slopes": self.slopes is not None,
            "softcap": self.softcap is not None and not fine(self.softcap),
            "fine_softcap": fine(self.softcap),
            "ranges": self.seen is None,
        }
        if self.seen is not None:
            (left, right), prefix, starts, _ = self.seen
            asked["sides"] = bool(right) or (left is not None and right is None)
            packed = starts is not None
            short = packed and queries < SHORT_DOCUMENT * (len(starts) - 1)
            asked |= {"prefix": prefix is not None, "documents": packed, "short_documents": short}
        return frozenset(name for name, each in asked.items() if each)

    @property
    def kind(self) -> tuple:
        """What of these a launch is made for, beside the tensors."""
        _, sinks, slopes, softcap, seen, _ = self
        if seen is None:
            return sinks is None, slopes is None, softcap
        starts = seen.starts
        packed = None if starts is None else (len(starts), starts.dtype, starts is seen.key_starts)
        return sinks is None, slopes is None, softcap, seen.sides, seen.prefix, packed

    @property
    def tensors(self) -> tuple[torch.Tensor | None, ...]:
        """All of these, as `with_tensors` takes them: one of what packed sequences share."""
        starts, key_starts = self.seen[2:] if self.seen else (None, None)
        return self.ranges, self.sinks, self.slopes, starts, None if key_starts is starts else key_starts

    def with_tensors(self, ranges, sinks, slopes, starts, key_starts) -> "Terms":
        """The same of others: autograd keeps them apart, and looks whether they have changed."""
        seen = self.seen and self.seen._replace(
            starts=starts, key_starts=starts if key_starts is None else key_starts
        )
        return self._replace(ranges=ranges, sinks=sinks, slopes=slopes, seen=seen)

    def ranged(self) -> "Terms":
        """With ranges."""
        return self if self.ranges is not None or self.make is None else self._replace(ranges=self.make())

    def seers(self, seq_kv: int) -> torch.Tensor:
        """The ranges seen from the keys, int32 [batch, 2, seq_kv]."""
        keys = torch.arange(seq_kv, dtype=torch.int32, device=self.ranges.device)
        keys = keys.expand(len(self.ranges), 1, -1).contiguous()
        first_keys, ends = self.ranges[:, :1].contiguous(), self.ranges[:, 1:2].contiguous()
        found = [torch.searchsorted(rows, keys, right=True, out_int32=True) for rows in (ends, first_keys)]
        return torch.cat(found, 1)


def terms_of(ranges, sinks, slopes, softcap) -> Terms | None:
    """None where there are no ranges: the mask is a plain one."""
    return None if ranges is None else Terms(ranges, sinks, slopes, softcap)


def terms_with(ranges: torch.Tensor | None, q: torch.Tensor, options: Options, *seen) -> Terms:
    """Those of checked options, as the kernels take them."""
    sinks, slopes = resolved(options.sinks, options.alibi_slopes)
    softcap = None if options.softcap is None else float(options.softcap)
    return Terms(
        ranges,
        None if sinks is None else sinks.float().contiguous(),
        None if slopes is None else slopes.float().expand(q.shape[:2]).contiguous(),
        cap_of(softcap),
        *seen,
    )


def cap_of(softcap: float | None) -> float | None:
    """As the kernels take it: none where scores that float32 tells apart are far below it."""
    return None if softcap is None or softcap >= ENDLESS_CAP else max(float(softcap), SMALLEST_CAP)


def fine(softcap: float | None) -> bool:
    """Whether a tanh must hold every digit, however small it is: else it loses as little as rounding."""
    return softcap is not None and not COARSE_CAPS[0] <= softcap <= COARSE_CAPS[1]


def tensors_of(terms: Terms | None, seen_from: int | None = None) -> TermTensors | None:
    """As the kernels take them; seen_from: the number of keys, where they are to see the queries."""
    if terms is None:
        return None
    seers = None if seen_from is None else terms.seers(seen_from)
    return TermTensors(terms.ranges, seers, terms.sinks, terms.slopes)


def score_of(call: Call, terms: Terms | None) -> tuple[float, float | None]:
    """What makes scores of products, in units of log2, and what a cap multiplies them by before its tanh."""
    if terms is None or terms.softcap is None:
        return call.scale * LOG2_E.value, None
    return terms.softcap * LOG2_E.value, min(call.scale / terms.softcap, LARGEST)


def tile_of(call: Call, terms: Terms | None) -> Tile:
    """With the plain mask, or none where the ranges say what is seen."""
    if terms is None:
        return call.tile
    return call.tile_in_ranges._replace(FINE=True) if fine(terms.softcap) else call.tile_in_ranges

"""Where the bytes of counted calls go, level by level."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from engine.recordings.counters import RecordedCounters

SERVED = 0.01  # a share of the bytes from which on a cache is said to serve them
FETCHED_AGAIN = 1.02  # times the compulsory bytes, from which on a call is said to read more than those


@dataclass(frozen=True)
class Gaps:
    """How the bytes of a counted call differ from one level of memory to the next."""

    # of the bytes that tiles request, what comes from L1 and not from L2; below 0 if more comes
    l1_share: float
    from_l2_off: float  # of the modelled bytes from L2 to the SMs, relative to those counted
    l2_share: float  # of the bytes from L2 to the SMs, what L2 did not fetch from DRAM
    dram_over_compulsory: float  # DRAM reads, recorded, over the bytes that must be read once
    model_off: float  # of the modelled DRAM reads, relative to those counted

    @property
    def l1_serves(self) -> bool:
        """Whether L1 serves a share worth a word."""
        return self.l1_share > SERVED


def gaps(one: RecordedCounters) -> Gaps:
    """The gaps of one call."""
    return Gaps(
        l1_share=1 - one.read / one.requested_read,
        from_l2_off=one.modelled_read / one.read - 1,
        l2_share=1 - one.dram_read / one.read,
        dram_over_compulsory=one.dram_read / one.simulation.traffic.compulsory.total_read,
        model_off=one.modelled_dram_read / one.dram_read - 1,
    )


def in_range(rows: Iterable[RecordedCounters]) -> int:
    """Of how many calls what DRAM delivered lies within the model's range."""
    return sum(low <= row.dram_read <= high for row in rows for low, high in [row.dram_read_range])


def l1_serves(rows: Iterable[RecordedCounters]) -> tuple[str, ...]:
    """Algorithms of which a GPU counted fewer requested bytes of any call, because L1 serves the rest."""
    served = (row for row in rows if row.requested_read > (1 + SERVED) * row.read)
    return tuple(dict.fromkeys(row.experiment.algorithm for row in served))


def excess(one: RecordedCounters) -> tuple[float, float] | None:
    """Bytes read from DRAM beyond the compulsory ones, (modelled, counted); None where hardly any are."""
    compulsory = one.simulation.traffic.compulsory.total_read
    if one.dram_read <= FETCHED_AGAIN * compulsory:
        return None
    return one.modelled_dram_read - compulsory, one.dram_read - compulsory


def left_in_cache(rows: Sequence[RecordedCounters]) -> tuple[float, float]:
    """Written bytes that lay dirty in L2 when a kernel ended: in the median of the calls, and at most."""
    left = [row.left_in_cache / len(row.row.kernels) for row in rows]
    return median(left), max(left)


def busiest(one: RecordedCounters) -> tuple[str, float]:
    """The unit that the counters saw closest to its peak, and its share of that."""
    used = {unit: share for unit, share in one.utilisation.items() if share is not None and unit != "tail"}
    unit = max(used, key=used.get)
    return unit, used[unit]

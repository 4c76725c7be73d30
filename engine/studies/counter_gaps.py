"""Where the bytes of counted calls go, level by level."""

from collections.abc import Iterable

from engine.recordings.counters import RecordedCounters

FETCHED_AGAIN = 1.02  # times the compulsory bytes, from which on a call is said to read more than those


def in_range(rows: Iterable[RecordedCounters]) -> int:
    """Of how many calls what DRAM delivered lies within the model's range."""
    return sum(low <= row.dram_read <= high for row in rows for low, high in [row.dram_read_range])


def excess(one: RecordedCounters) -> tuple[float, float] | None:
    """Bytes read from DRAM beyond the compulsory ones, (modelled, counted); None where hardly any are."""
    compulsory = one.simulation.traffic.compulsory.total_read
    if one.dram_read <= FETCHED_AGAIN * compulsory:
        return None
    return one.modelled_dram_read - compulsory, one.dram_read - compulsory


def busiest(one: RecordedCounters) -> tuple[str, float]:
    """The unit that the counters saw closest to its peak, and its share of that."""
    used = {unit: share for unit, share in one.utilisation.items() if share is not None and unit != "tail"}
    unit = max(used, key=used.get)
    return unit, used[unit]

"""What a new GPU is recorded on: the calls of the recordings there are."""

from pathlib import Path

from engine.recordings.file import SHELF, recordings
from engine.recordings.recording import Row, unmeasured
from engine.studies.your_model import LAYERS


def plan(section: str, *folders: Path) -> list[Row]:
    """Every call of a section, the most telling first: a recording that runs out of time has those.

    >>> plan("counters")[0].problem.seq_kv
    512
    """
    shelves = (one for folder in folders or (SHELF, LAYERS) for one in recordings(folder))
    return list(dict.fromkeys(unmeasured(row) for one in shelves for row in getattr(one, section)))


def together(section: str, *alike: str) -> list[list[Row]]:
    """The calls of a section, those together of which these properties are equal: they are timed in turns.

    Without any each call is by itself.
    """
    found: dict[object, list[Row]] = {}
    for row in plan(section):
        found.setdefault(tuple(getattr(row, name) for name in alike) or row, []).append(row)
    return list(found.values())

"""What popular articles claim about attention on GPUs, held against the engine and the recordings."""

from __future__ import annotations

from functools import lru_cache

from engine.recordings.file import recordings
from engine.studies.claims import bytes_moved, exactness, machine, speed
from engine.studies.claims.verdict import Checked, check

CLAIMS = tuple(
    sorted(
        (*bytes_moved.CLAIMS, *machine.CLAIMS, *speed.CLAIMS, *exactness.CLAIMS),
        key=lambda claim: claim.number,
    )
)


@lru_cache(maxsize=1)
def checked() -> tuple[Checked, ...]:
    """Every claim with its findings and verdict, by the newest recording; computed once."""
    recording = next(iter(recordings()), None)
    return tuple(check(claim, recording) for claim in CLAIMS)

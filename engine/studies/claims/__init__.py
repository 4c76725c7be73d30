"""What popular articles claim about attention on GPUs, held against the engine and the recordings."""

from __future__ import annotations

from functools import lru_cache

from engine.recordings.file import recordings
from engine.studies.claims import bytes_moved, exactness, growth, listing, machine, peers, silicon, speed
from engine.studies.claims.verdict import Checked, check

ROOMS = (bytes_moved, machine, speed, exactness, growth, silicon, listing, peers)
CLAIMS = tuple(sorted((claim for room in ROOMS for claim in room.CLAIMS), key=lambda claim: claim.number))


@lru_cache(maxsize=1)
def checked() -> tuple[Checked, ...]:
    """Every claim with its findings and verdict, by the newest recording; computed once."""
    recording = next(iter(recordings()), None)
    return tuple(check(claim, recording) for claim in CLAIMS)

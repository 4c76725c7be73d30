"""What papers and popular articles claim about attention on GPUs, held against the engine and recordings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from engine.recordings.file import recordings
from engine.recordings.recording import Recording
from engine.studies.claims import articles, papers
from engine.studies.claims.verdict import Checked

CLAIMS = (*papers.CLAIMS, *articles.CLAIMS)


@lru_cache(maxsize=1)
def checked() -> tuple[Checked, ...]:
    """Every claim with its finding and verdict, computed once from the recordings that there are."""
    return check(recordings())


def check(shelf: Sequence[Recording]) -> tuple[Checked, ...]:
    """The same from these recordings, the newest first."""
    return tuple(Checked(at, claim, claim.check(tuple(shelf))) for at, claim in enumerate(CLAIMS, 1))

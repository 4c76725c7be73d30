"""What papers and popular articles claim about attention on GPUs, held against the engine and recordings."""

from __future__ import annotations

from functools import lru_cache

from engine.recordings.file import recordings
from engine.studies.claims import articles, papers
from engine.studies.claims.verdict import Checked, check

CLAIMS = (*papers.CLAIMS, *articles.CLAIMS)


@lru_cache(maxsize=1)
def checked() -> tuple[Checked, ...]:
    """Every claim with its number and verdict, computed once from the recordings that there are."""
    return tuple(check(number, claim, recordings()) for number, claim in enumerate(CLAIMS, 1))

"""What a watched run leaves behind of every step, in the order of time."""

from __future__ import annotations

from typing import NamedTuple

KINDS = ("load", "store", "atomic", "visit", "meet")  # meet: P times V
MOST_NOTED = 100_000  # steps, of all heads together


class Step(NamedTuple):
    """An access to memory or a matrix product: its program and line, bytes, and where that is known its rows.

    query and key are the first rows of Q, and of K or V, that it is about; head is of Q, or of K and V.
    """

    kind: str
    tensor: str
    launch: int
    program: tuple[int, int, int]
    line: int | None
    bytes: int = 0
    head: int | None = None
    query: int | None = None
    key: int | None = None

"""What is wrong with a kernel, as sentences."""

from dataclasses import dataclass
from typing import NamedTuple

Program = tuple[int, int, int]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, where it was first seen."""

    kind: str  # one word for it, such as out_of_bounds
    sentence: str  # what, where and why, for reading
    line: int | None = None  # of the file, or None
    # the index of the program in its grid, or None where no single one is at fault
    program: Program | None = None
    tensor: str | None = None  # Q, K, V, O or the kernel's own name; None where it is no tensor's


def at(line: int | None) -> str:
    """The line in a sentence."""
    return f" in line {line}" if line else ""


def rows(low: int, high: int) -> str:
    """Rows in a sentence, high included."""
    return f"row {low}" if low == high else f"rows {low} to {high}"


def times(count: int) -> str:
    """How often, in words where there is one."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


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

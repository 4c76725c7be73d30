"""A table as a file to take home holds it: raw numbers, each unit once, in the head of its column or row."""

import re
from collections.abc import Sequence

from app.figures.units import Quantity

PLAIN = re.compile(r"[-−]?[\d,]*\.?\d+(e[-+]?\d+)?")
WITH_UNIT = re.compile(r"([-−]?[\d,]*\.?\d+) ([A-Za-z/µ]+)")
Number = int | float


def sheet(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str | Number]]:
    """Rows of raw values under a head, as JSON and CSV hold them.

    A unit stands in a column's head where all its numbers share it, else in the first cell of a row whose
    numbers do, else behind its number.
    """
    cells = [[_raw(text) for text in row] for row in rows]
    columns = [_shared(column) for column in zip(*cells, strict=True)] or [""] * len(head)
    first = [_named(name, unit) for name, unit in zip(head, columns, strict=True)]
    return [first, *(_line(row, columns) for row in cells)]


def _line(row: Sequence[tuple], columns: Sequence[str]) -> list[str | Number]:
    """The row's values, units that its columns do not say beside its name or its numbers."""
    left = ["" if unit == said else unit for (_, unit), said in zip(row, columns, strict=True)]
    whole = _shared([(value, unit) for (value, _), unit in zip(row, left, strict=True)])
    values = [
        f"{value} {unit}" if unit and unit != whole else value
        for (value, _), unit in zip(row, left, strict=True)
    ]
    return [_named(values[0], whole), *values[1:]]


def _raw(text: str) -> tuple[str | Number, str]:
    """A cell as a number and its unit; words as they are."""
    if isinstance(text, Quantity):
        return text.value, text.unit
    found = WITH_UNIT.fullmatch(text)
    number, unit = found.groups() if found else (text, "")
    if not PLAIN.fullmatch(number):
        return text, ""
    plain = number.replace(",", "").replace("−", "-")
    return (int(plain) if plain.lstrip("-").isdigit() else float(plain)), unit


def _shared(cells: Sequence[tuple]) -> str:
    """The unit of all numbers, if it is one."""
    units = {unit for value, unit in cells if not isinstance(value, str)}
    return units.pop() if len(units) == 1 else ""


def _named(name: str | Number, unit: str) -> str | Number:
    return f"{name} ({unit})".strip() if unit else name

"""Tables, grids and bars as HTML: pictures that are mostly numbers, drawn far faster than by Plotly."""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from app.figures.colours import Palette
from app.figures.units import Quantity

TEXT = " class='words'"
USUAL_TYPE = 14  # px of the page's type, without a presenter
LABEL_WIDTH = 5.43  # rem that a bar leaves for its total


def table(rows: Sequence[Mapping[str, str]], title: str = "", words: Sequence[int] = (0,)) -> str:
    """A table of rows by their columns' names, of which a row may lack some: monospaced, right-aligned.

    Columns in `words` are text. The title names its file among those to take home, which holds raw numbers.
    """
    head = list(max(rows, key=len, default=()))
    cells = [[row.get(name, "") for name in head] for row in rows]
    looks = [TEXT * (column in words) for column in range(len(head))]
    heads = "".join(
        f"<th scope='col'{look}>{escape(name)}</th>" if name else "<td></td>"
        for name, look in zip(head, looks, strict=True)
    )
    lines = "".join(
        f"<tr>{''.join(f'<td{look}>{escape(text)}</td>' for text, look in zip(row, looks, strict=True))}</tr>"
        for row in cells
    )
    body = f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody>"
    return f"<table class='numbers'{_to_take(title, sheet(head, cells))}>{body}</table>"


def _to_take(title: str, values: list[list]) -> str:
    """What the list of files reads of a table: its title, and its cells as raw numbers."""
    named = f" data-title='{escape(title)}'" if title else ""
    return f"{named} data-sheet='{escape(json.dumps(values, ensure_ascii=False))}'"


def image(drawing: str, alt: str = "", style: str = "") -> str:
    """A drawing in SVG as an image of HTML, which may hold no SVG of its own."""
    data, look = b64encode(drawing.encode()).decode(), f" style='{style}'" * bool(style)
    return f"<img alt='{escape(alt)}'{look} src='data:image/svg+xml;base64,{data}'>"


def scrolled(content: str, height: int) -> str:
    """The same in a box that the keyboard can scroll, of at most this height, in pixels of the usual type."""
    most = f"max-height:{height / USUAL_TYPE:.2f}rem"
    return f"<div class='scrolled' tabindex='0' style='{most}'>{content}</div>"


@dataclass(frozen=True)
class Cell:
    """One cell of a grid: what it shows, and says when pointed at; how strong its colour is, 0 to 1.

    struck: whether a line crosses it out. framed: whether it is the scenario's.
    """

    text: str
    title: str
    share: float = 0.0
    struck: bool = False
    framed: bool = False


def grid(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[Cell]],
    axes: str,
    colours: Palette,
    title: str = "",
) -> str:
    """Cells by row and column; `axes` says what the two are, the title what the cells are."""
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in columns)
    lines = [
        f"<tr><th scope='row'>{escape(name)}</th>{''.join(_grid_cell(cell, colours) for cell in line)}</tr>"
        for name, line in zip(rows, cells, strict=True)
    ]
    foot = f"<tr><td></td><th class='axis' colspan='{len(columns)}'>{escape(axes)}</th></tr>"
    texts = [[name, *(cell.text for cell in line)] for name, line in zip(rows, cells, strict=True)]
    taken = _to_take(title, sheet([axes, *columns], texts))
    return f"<table class='grid'{taken}><tbody>{''.join(lines)}<tr><td></td>{head}</tr>{foot}</tbody></table>"


def by_blocks(
    rows: Sequence[int],
    columns: Sequence[int],
    cell: Callable[[int, int], Cell],
    colours: Palette,
    title: str,
) -> str:
    """A grid over block sizes, larger query blocks higher."""
    cells = [[cell(row, column) for column in columns] for row in reversed(rows)]
    axes = "query block ↑, key block →, in rows"
    return grid([*map(str, reversed(rows))], [*map(str, columns)], cells, axes, colours, title)


def _grid_cell(cell: Cell, colours: Palette) -> str:
    strength = f"{10 + 45 * cell.share:.0f}%"
    style = f"background-color:color-mix(in srgb, {colours.q} {strength}, {colours.panel})"
    if cell.struck:
        edges = "transparent calc(50% - 1px)", f"{colours.bad} calc(50% - 1px)"
        back = f"{colours.bad} calc(50% + 1px)", "transparent calc(50% + 1px)"
        style += f";background-image:linear-gradient(to top right, {', '.join((*edges, *back))})"
    if cell.framed:
        style += f";box-shadow:inset 0 0 0 2.5px {colours.ink}"
    return f"<td style='{style}' title='{escape(cell.title)}'>{escape(cell.text)}</td>"


@dataclass(frozen=True)
class Bar:
    """A stacked bar: its place, (name, colour, hatched, value, title) of each part, and its total as text."""

    place: str
    parts: Sequence[tuple[str, str, bool, float, str]]
    total: str


def bars(rows: Sequence[Bar], colours: Palette) -> str:
    """Stacked bars, one below the other, to one scale from 0, the legend above."""
    most = max(sum(value for *_, value, _ in row.parts) for row in rows) or 1
    seen = {name: (colour, hatched) for row in rows for name, colour, hatched, _, _ in row.parts}
    legend = "".join(
        f"<span><i style='{_fill(colour, hatched)}'></i>{escape(name)}</span>"
        for name, (colour, hatched) in seen.items()
    )
    lines = [f"<span></span><span class='key'>{legend}</span>"]
    for row in rows:
        parts = "".join(
            f"<i title='{escape(title)}' style='{_fill(colour, hatched)};border-color:{colours.ground};"
            f"width:calc((100% - {LABEL_WIDTH}rem) * {value / most:.5f})'></i>"
            for _, colour, hatched, value, title in row.parts
        )
        lines.append(
            f"<span class='place'>{escape(row.place)}</span>"
            f"<span class='bar'>{parts}<b>{escape(row.total)}</b></span>"
        )
    return f"<div class='bars'>{''.join(lines)}</div>"


def _fill(colour: str, hatched: bool) -> str:
    """A plain ground, or stripes of the colour."""
    if not hatched:
        return f"background:{colour}"
    stripes = f"{colour} 0 1.5px, transparent 1.5px 6px"
    pale = f"linear-gradient(color-mix(in srgb, {colour} 22%, transparent) 0 0)"
    return f"background:repeating-linear-gradient(135deg, {stripes}),{pale}"


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

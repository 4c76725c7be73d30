"""Tables, grids and bars as HTML: pictures that are mostly numbers, drawn far faster than by Plotly."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from app.figures.colours import Palette
from app.figures.units import Quantity

TEXT = " class='words'"
USUAL_TYPE = 14  # px of the page's type, without a presenter


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


def by_blocks(
    sizes: Iterable[tuple[int, int]], cell: Callable[[int, int], Cell], colours: Palette, title: str
) -> str:
    """Cells by rows of query blocks, larger ones higher, and of key blocks; the title says what they are."""
    rows, columns = (sorted({*each}) for each in zip(*sizes, strict=True))
    cells = {row: [cell(row, column) for column in columns] for row in reversed(rows)}
    head = "".join(f"<th scope='col'>{column}</th>" for column in columns)
    lines = "".join(
        f"<tr><th scope='row'>{row}</th>{''.join(_grid_cell(each, colours) for each in line)}</tr>"
        for row, line in cells.items()
    )
    axes = "query block ↑, key block →, in rows"
    foot = f"<tr><td></td><th class='axis' colspan='{len(columns)}'>{axes}</th></tr>"
    texts = [[str(row), *(each.text for each in line)] for row, line in cells.items()]
    taken = _to_take(title, sheet([axes, *map(str, columns)], texts))
    return f"<table class='grid'{taken}><tbody>{lines}<tr><td></td>{head}</tr>{foot}</tbody></table>"


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


def sheet(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str | float]]:
    """Rows of raw values under a head, as JSON and CSV hold them.

    A unit stands in a column's head where all its quantities share it, else behind its number.
    """
    columns = [[cell for cell in column if isinstance(cell, Quantity)] for column in zip(*rows, strict=True)]
    units = [{cell.unit for cell in column} for column in columns] or [set()] * len(head)
    alone = [next(iter(of)) if len(of) == 1 else "" for of in units]
    named = [f"{name} ({unit})".strip() if unit else name for name, unit in zip(head, alone, strict=True)]
    lines = [[_raw(cell, len(of) == 1) for cell, of in zip(row, units, strict=True)] for row in rows]
    return [named, *lines]


def _raw(cell: str, alone: bool) -> str | float:
    """A quantity's number, with its unit unless that stands elsewhere; a whole number; words as they are."""
    if isinstance(cell, Quantity):
        return cell.value if alone or not cell.unit else f"{cell.value} {cell.unit}"
    digits = cell.replace(",", "")
    return int(digits) if digits.isdecimal() else cell

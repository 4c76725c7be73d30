"""Tables, grids and bars as HTML: pictures that are mostly numbers, drawn far faster than by Plotly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from app.figures.base import MONO
from app.figures.colours import Palette
from app.figures.sheet import sheet

LINE = "color-mix(in srgb, currentColor 16%, transparent)"
STYLE = f"""
<style>
  .numbers {{ border-collapse: collapse; width: 100%; margin: 0; font-size: 0.93rem; border: none; }}
  .numbers th, .numbers td {{ border: none; border-bottom: 1px solid {LINE}; padding: 3px 0 3px 10px; }}
  .numbers th {{ font-weight: 600; text-align: right; vertical-align: bottom; }}
  .numbers td {{ text-align: right; font-family: {MONO}; font-variant-numeric: tabular-nums; }}
  .numbers th:first-child, .numbers td:first-child {{ text-align: left; padding-left: 0; }}
  .numbers .words {{ text-align: left; font-family: inherit; }}
  .numbers td:not(.words), .numbers th:not(.words) {{ white-space: nowrap; }}
  .scrolled {{ overflow: auto; }}
  @media (max-width: 1200px) {{ .numbers {{ font-size: 0.86rem; }} }}
  @media (max-width: 760px) {{
    .numbers .words {{ min-width: 6rem; }}
    .scrolled .words {{ min-width: 14rem; }}
    .scrolled .words:first-child {{ min-width: 9rem; }}
  }}
  .scrolled th {{ position: sticky; top: 0; }}
  .scrolled .numbers th {{ white-space: normal; }}
  .grid {{ border-collapse: separate; border-spacing: 2px; width: 100%; table-layout: fixed; }}
  .grid {{ margin: 0; border: none; }}
  .grid th, .grid td {{ border: none; padding: 0; text-align: center; height: 2.14rem; white-space: nowrap; }}
  .grid th, .grid td {{ font: 0.86rem {MONO}; overflow: hidden; }}
  .grid th {{ color: color-mix(in srgb, currentColor 65%, transparent); font-weight: 400; }}
  .grid th:first-child {{ width: 3rem; }}
  .grid .axis {{ font-family: inherit; height: 1.29rem; }}
  @media (max-width: 1400px) {{ .grid td {{ font-size: 0.79rem; }} .grid th:first-child {{ width: 2rem; }} }}
  .bars {{ display: grid; grid-template-columns: auto 1fr; gap: 5px 10px; align-items: center; }}
  .bars .key {{ grid-column: 2; display: flex; flex-wrap: wrap; gap: 0 16px; font-size: 0.93rem; }}
  .bars .key {{ min-height: 1.43rem; }}
  .bars .key span {{ white-space: nowrap; }}
  .bars .key i {{ display: inline-block; width: 0.79rem; height: 0.79rem; margin-right: 0.43rem; }}
  .bars .place {{ font: 0.86rem {MONO}; white-space: pre; opacity: 0.8; }}
  .bars .bar {{ display: flex; align-items: center; height: 1.71rem; white-space: nowrap; }}
  .bars .bar {{ font: 0.93rem {MONO}; }}
  .bars .bar i {{ height: 100%; box-sizing: border-box; flex: none; border-right: 1px solid; }}
  .bars .bar b {{ font-weight: 400; padding-left: 8px; }}
</style>
"""
TEXT = " class='words'"
LABEL_WIDTH = 5.43  # rem that a bar leaves for its total


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[int] = (0,), title: str = ""
) -> str:
    """A table of numbers: monospaced, right-aligned; the columns in `words` are text.

    The title names its file among those to take home, which holds raw numbers.
    """
    heads = "".join(_head(name, column in words) for column, name in enumerate(head))
    lines = [
        "<tr>" + "".join(_cell(text, column in words) for column, text in enumerate(row)) + "</tr>"
        for row in rows
    ]
    body = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f"<table class='numbers'{_to_take(title, sheet(head, rows))}>{body}</table>"


def _to_take(title: str, values: list[list]) -> str:
    """What the list of files reads of a table: its title, and its cells as raw numbers."""
    named = f" data-title='{escape(title)}'" if title else ""
    return f"{named} data-sheet='{escape(json.dumps(values, ensure_ascii=False))}'"


def _head(name: str, words: bool) -> str:
    return f"<th scope='col'{TEXT * words}>{escape(name)}</th>" if name else "<td></td>"


def _cell(text: str, words: bool) -> str:
    return f"<td{TEXT * words}>{escape(text)}</td>"


def scrolled(content: str, height: int) -> str:
    """The same in a box of at most this height, in pixels, that the keyboard can scroll."""
    return f"<div class='scrolled' tabindex='0' style='max-height:{height}px'>{content}</div>"


@dataclass(frozen=True)
class Cell:
    """One cell of a grid.

    Attributes:
        text, title: what it shows, and what it says when pointed at.
        share: how strong its colour is, 0 to 1.
        struck: whether a line crosses it out.
        framed: whether it is the scenario's.
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

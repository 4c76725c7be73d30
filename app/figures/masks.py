"""The tile grid of a mask as a small picture: skipped tiles hatched, partial ones pale, full ones solid."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from app.figures.colours import Palette
from app.figures.tables import image
from engine.problem.problem import Problem
from engine.studies.masks import Density

LEVELS = 16  # shades of a pixel that stands for many tiles
SIDE = 384  # units of the width
SHARES = (0.0, 0.25, 0.5, 1.0)  # of which the key says what they are
EXACT = ("skipped", "partial: crossed by the mask's edge", "full")
FLATTEST, TALLEST = 0.1, 1.5  # of the height over the width, whatever the queries are over the keys


class Panel(NamedTuple):
    """A tile grid with its name, what it shows and costs, a line each, and whether it is the scenario's."""

    name: str
    what: str
    density: Density
    costs: Sequence[str] = ()
    own: bool = False


def multiples(
    panels: Sequence[Panel], problem: Problem, colours: Palette, title: str = "Tiles that each mask leaves"
) -> str:
    """Pictures side by side as HTML, as high as queries are over keys whatever the blocks: nothing moves."""
    figures, aspect = [], min(max(problem.seq_q / problem.seq_kv, FLATTEST), TALLEST)
    for name, what, density, costs, own in panels:
        picture = _picture(density, f"{name}: {', '.join(costs)}", colours, aspect)
        picture = f"<div class='{'own' * own}'>{picture}</div>"
        caption = f"<figcaption><b>{escape(name)}</b>{escape(what)}</figcaption>"
        figures.append(f"<figure>{caption}{picture}<p>{'<br>'.join(map(escape, costs))}</p></figure>")
    return f"<div class='masks' data-title='{escape(title)}'>{''.join(figures)}</div>"


def key(exact: bool, colours: Palette, names: tuple[str, ...] | None = None) -> str:
    """What the shades mean; names are those of four shares that are not of tiles visited."""
    shares = ((share, share) for share in SHARES)
    names = names or tuple(f"{share:.0%} visited" for share in SHARES)
    if exact:
        shares, names = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0)), EXACT
    marks = []
    for (visited, full), name in zip(shares, names, strict=True):
        density = Density(np.array([[visited]]), np.array([[full]]), 1 if exact else 2)
        marks.append(f"<span>{_picture(density, '', colours)}{escape(name)}</span>")
    return f"<div class='masks-key'>{''.join(marks)}</div>"


def _picture(density: Density, alt: str, colours: Palette, aspect: float = 1.0) -> str:
    return image(_svg(density, aspect, colours), alt, f"aspect-ratio:{1 / aspect:.4g}")


def _svg(density: Density, aspect: float, colours: Palette) -> str:
    """The grid as SVG; what is visited lies on plain ground, so that no hatch shows through."""
    rows, columns = density.visited.shape
    # whole units, so that no seam shows; what that rounds is made good where the picture is placed
    wide, high = max(1, round(SIDE / columns)), max(1, round(aspect * SIDE / rows))
    size = 12 if rows * columns > 1 else SIDE // 3
    stripes = (
        f"<pattern id='hatch' width='{size}' height='{size}' patternUnits='userSpaceOnUse' "
        f"patternTransform='rotate(45)'><line y2='{size}' stroke='{colours.muted}' stroke-opacity='0.55' "
        f"stroke-width='{size / 5:.2f}'/></pattern>"
    )
    whole = f"width='{columns * wide}' height='{rows * high}'"
    ground = f"<rect {whole} fill='{colours.panel}'/><rect {whole} fill='url(#hatch)'/>"
    visited = f"<g fill='{colours.ground}'>{_rects(np.sign(density.visited), wide, high)}</g>"
    tiles = f"<g fill='{colours.s}'>{_rects(_shades(density), wide, high)}</g>"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {columns * wide} {rows * high}' {whole} "
        f"preserveAspectRatio='none' shape-rendering='crispEdges'>"
        f"<defs>{stripes}</defs>{ground}{visited}{tiles}{_lines(density, wide, high, colours)}</svg>"
    )


def _rects(opacities: np.ndarray, wide: int, high: int) -> str:
    """Each row of pixels, in runs of one opacity."""
    return "".join(
        f"<rect x='{start * wide}' y='{row * high}' width='{length * wide}' height='{high}' "
        f"fill-opacity='{opacity:.3g}'/>"
        for row, start, length, opacity in _runs(opacities)
    )


def _shades(density: Density) -> np.ndarray:
    """[rows, columns] opacity: of a tile by what the mask leaves of it, of many by the share visited."""
    if density.exact:
        return np.where(density.full > 0, 0.9, np.where(density.visited > 0, 0.42, 0.0))
    return np.ceil(density.visited * LEVELS) / LEVELS * 0.9


def _runs(values: np.ndarray):
    """(row, first column, length, value) of each run of equal values in a row that are not 0."""
    begins = np.ones(values.shape, bool)
    begins[:, 1:] = values[:, 1:] != values[:, :-1]
    first = np.flatnonzero(begins)
    length, found = np.diff(first, append=values.size), values.ravel()[first]
    rows, columns = np.divmod(first[found != 0], values.shape[1])
    return zip(*(of.tolist() for of in (rows, columns, length[found != 0], found[found != 0])), strict=True)


def _lines(density: Density, wide: int, high: int, colours: Palette) -> str:
    """The edges of the tiles, where they are large enough to be told apart."""
    rows, columns = density.visited.shape
    if not density.exact or min(wide, high) < 6 or rows * columns == 1:
        return ""
    down = "".join(f"M{x * wide} 0V{rows * high}" for x in range(1, columns))
    across = "".join(f"M0 {y * high}H{columns * wide}" for y in range(1, rows))
    return f"<path d='{down}{across}' stroke='{colours.ground}' stroke-width='1' fill='none'/>"

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
    shares = [(share, share) for share in SHARES]
    names = names or tuple(f"{share:.0%} visited" for share in SHARES)
    if exact:
        shares, names = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)], EXACT
    marks = []
    for (visited, full), name in zip(shares, names, strict=True):
        density = Density(np.array([[visited]]), np.array([[full]]), 1 if exact else 2)
        marks.append(f"<span>{_picture(density, '', colours)}{escape(name)}</span>")
    return f"<div class='masks-key'>{''.join(marks)}</div>"


def _picture(density: Density, alt: str, colours: Palette, aspect: float = 1.0) -> str:
    """The grid as SVG; what is visited lies on plain ground, so that no hatch shows through."""
    rows, columns = density.visited.shape
    # whole units, so that no seam shows; what that rounds is made good where the picture is placed
    wide, high = max(1, round(SIDE / columns)), max(1, round(aspect * SIDE / rows))
    size, edges = 12 if rows * columns > 1 else SIDE // 3, ""
    stripes = (
        f"<pattern id='hatch' width='{size}' height='{size}' patternUnits='userSpaceOnUse' "
        f"patternTransform='rotate(45)'><line y2='{size}' stroke='{colours.muted}' stroke-opacity='0.55' "
        f"stroke-width='{size / 5:.2f}'/></pattern>"
    )
    # a tile's opacity is by what the mask leaves of it, of many by the share visited
    shades = np.ceil(density.visited * LEVELS) / LEVELS * 0.9
    if density.exact:
        shades = np.where(density.full > 0, 0.9, np.where(density.visited > 0, 0.42, 0.0))
        if min(wide, high) >= 6 and rows * columns > 1:  # large enough to be told apart
            down = "".join(f"M{x * wide} 0V{rows * high}" for x in range(1, columns))
            across = "".join(f"M0 {y * high}H{columns * wide}" for y in range(1, rows))
            edges = f"<path d='{down}{across}' stroke='{colours.ground}' stroke-width='1' fill='none'/>"
    whole = f"width='{columns * wide}' height='{rows * high}'"
    ground = f"<rect {whole} fill='{colours.panel}'/><rect {whole} fill='url(#hatch)'/>"
    visited = f"<g fill='{colours.ground}'>{_rects(np.sign(density.visited), wide, high)}</g>"
    tiles = f"<g fill='{colours.s}'>{_rects(shades, wide, high)}</g>"
    drawing = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {columns * wide} {rows * high}' {whole} "
        f"preserveAspectRatio='none' shape-rendering='crispEdges'>"
        f"<defs>{stripes}</defs>{ground}{visited}{tiles}{edges}</svg>"
    )
    return image(drawing, alt, f"aspect-ratio:{1 / aspect:.4g}")


def _rects(opacities: np.ndarray, wide: int, high: int) -> str:
    """Each row of pixels, in runs of one opacity that is not 0."""
    begins = np.ones(opacities.shape, bool)
    begins[:, 1:] = opacities[:, 1:] != opacities[:, :-1]
    first = np.flatnonzero(begins)
    length, found = np.diff(first, append=opacities.size), opacities.ravel()[first]
    rows, columns = np.divmod(first[found != 0], opacities.shape[1])
    runs = (of.tolist() for of in (rows, columns, length[found != 0], found[found != 0]))
    return "".join(
        f"<rect x='{start * wide}' y='{row * high}' width='{many * wide}' height='{high}' "
        f"fill-opacity='{opacity:.3g}'/>"
        for row, start, many, opacity in zip(*runs, strict=True)
    )

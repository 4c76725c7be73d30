"""Figures of the Decoding page: blocks on SMs, a decoding's time over splits, and a KV cache in pages."""

from collections.abc import Mapping
from html import escape

import numpy as np

from app.figures.base import Figure
from app.figures.colours import Palette
from app.figures.curves import Curve, curves
from app.figures.units import seconds_text
from engine.studies.decoding import Paging

TONES = ("q", "k", "v", "s", "o", "violet", "lime", "statistics")  # of sequences


def sms(blocks: np.ndarray, colours: Palette) -> str:
    """One square per SM as HTML: how many blocks it runs; hatched where it has none."""
    busy = f"background:color-mix(in srgb, {colours.k} 45%, {colours.panel});color:{colours.ink}"
    idle = f"background:{_hatched(colours.muted)};border:1px solid {colours.grid}"
    squares = "".join(f"<i style='{busy if n else idle}'>{n if n else ''}</i>" for n in blocks.tolist())
    label = f"{int((blocks > 0).sum())} of {len(blocks)} SMs have a block"
    return f"<div class='sms' role='img' aria-label='{escape(label)}'>{squares}</div>"


def times(lines: Mapping[str, Curve], mark: int | None, colours: Palette) -> Figure:
    """Seconds over the number of splits; higher where there are more names, each a line on a phone."""
    axes = {"x": "number of splits", "y": "time", "told": seconds_text}
    return curves(lines, colours, **axes, marked=mark and {mark: "dot"}, height=230 + 22 * len(lines))


def pools(titles: Mapping[str, Paging], colours: Palette) -> str:
    """KV caches in pages as HTML, each below what is said of it; a sequence has a colour and a letter."""
    figures = "".join(
        f"<figure><figcaption>{said}</figcaption>{_pool(one, colours)}</figure>"
        for said, one in titles.items()
    )
    return f"<div class='paging' data-title='A KV cache in pages'>{figures}</div>"


def _pool(paging: Paging, colours: Palette) -> str:
    """Every page, in rows of as many keys as a sequence has room for: filled, taken without keys, or free."""
    across, cells = paging.room // paging.page_size, ""
    for sequence, held in paging.owners.tolist():
        share = held / paging.page_size
        named = chr(ord("A") + sequence) if share * 50 > across else ""
        tone = getattr(colours, TONES[sequence]) if share else ""
        cells += f"<i style='--tone:{tone};--held:{share:.1%}'>{named}</i>" if share else "<u></u>"
    rows = f"grid-template:repeat({len(paging.lengths)},1fr)/repeat({across},minmax(0,1fr))"
    look = f"color:{colours.ground};--unused:{_hatched(colours.bad)};--edge:{colours.muted}"
    return f"<div class='pool' style='{rows};{look}'>{cells}</div>"


def _hatched(colour: str) -> str:
    return f"repeating-linear-gradient(135deg, {colour} 0 1px, transparent 1px 5px)"

"""Figures of the Agreement page: differences in every tile, and counters of a chip against the model."""

from collections.abc import Sequence

import numpy as np

from app.figures.algorithms import look, short
from app.figures.base import EDGE, Figure, drawn, marks
from app.figures.colours import Palette
from app.figures.curves import Curve, curves
from app.figures.units import bytes_text
from engine.measuring.agreement import Agreement
from engine.recordings.counters import RecordedCounters

LEAST = -4.0  # log10 of the share of the tolerance at the dark end of the scale


def differences(agreement: Agreement, quantity: str, pair: tuple[str, str], colours: Palette) -> Figure:
    """One heat map over tiles: query blocks down, key blocks across; skipped tiles are hatched."""
    tiles = agreement.tiles[quantity, pair]
    with np.errstate(divide="ignore"):
        share = np.log10(tiles / agreement.tolerance[quantity])
    shown = np.where(np.isnan(tiles), np.nan, np.clip(share, LEAST, 0))
    words = f"{quantity} differs by %{{customdata:.2e}}{', relative' if quantity == 'l' else ''}"
    strong = colours.tensor(quantity)
    heat = {
        "type": "heatmap",
        "z": shown,
        "customdata": tiles,
        "zmin": LEAST,
        "zmax": 0,
        "colorscale": [[0, colours.panel], [0.75, strong], [0.999, colours.ink], [1, colours.bad]],
        "xgap": 1.5,
        "ygap": 1.5,
        "colorbar": {
            "title": {"text": "share of the tolerance", "side": "right", "font": {"size": 12}},
            "tickvals": [-4, -3, -2, -1, 0],
            "ticktext": ["≤ 0.01%", "0.1%", "1%", "10%", "100%"],
            "thickness": 10,
            "outlinewidth": 0,
        },
        "hovertemplate": f"query block %{{y}}, key block %{{x}}: {words}<extra></extra>",
        "hoverongaps": False,
    }
    rows, columns = np.nonzero(np.isnan(tiles))
    skipped = "query block %{y}, key block %{x}: skipped by the mask"
    hatch = {"symbol": "line-ne-open", "size": 9, "edge": {"width": 1.5}}
    hatched = [marks(columns, rows, colours.grid, skipped, **hatch)] if len(rows) else []
    one, plain = tiles.shape[1] == 1, {"showgrid": False, "zeroline": False}
    return drawn(
        [heat, *hatched],
        colours,
        height=290,
        legend=False,
        x={"title_text": "" if one else "key block", "showticklabels": not one, **plain},
        y={"title_text": "query block", "autorange": "reversed", **plain},
        margin={"l": 48, "r": 99, "b": EDGE if one else 49},  # labels, and on the right the colours' key
    )


def counters(rows: Sequence[RecordedCounters], real: str, modelled: str, colours: Palette) -> Figure:
    """Recorded over modelled bytes, both axes logarithmic; `real` and `modelled` are attributes of a row."""
    amounts = [(getattr(row, modelled), getattr(row, real)) for row in rows]
    ends = min(map(min, amounts)) / 2, max(map(max, amounts)) * 2
    lines = {"equal": Curve({end: end for end in ends}, "muted", "dot")}
    for name in dict.fromkeys(row.experiment.algorithm for row in rows):
        own = [pair for row, pair in zip(rows, amounts, strict=True) if row.experiment.algorithm == name]
        lines[short(name)] = Curve(dict(own), look(name).tone, "marks")
    ticks = [10.0**power for power in range(3, 13)]
    axes = {"x": "modelled", "y": "recorded by the counters", "told": bytes_text, "words": bytes_text}
    return curves(lines, colours, **axes, ticks=ticks)

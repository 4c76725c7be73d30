"""Figures of the Agreement page: differences in every tile, and the kernel's bytes beside the schedule's."""

import numpy as np

from app.figures.base import EDGE, Figure, drawn, marks
from app.figures.colours import Palette
from app.figures.shared_tables import tensor_name
from app.figures.tables import Cell, grid, scrolled
from engine.measuring.agreement import Agreement
from engine.measuring.kernel_traffic import RealTraffic
from engine.schedule.schedule import Schedule

LOW = 420  # px that the grid takes
LEAST = -4.0  # log10 of the share of the tolerance at the dark end of the scale


def awaited(schedule: Schedule, colours: Palette) -> Figure:
    """The same tiles before anything was compared: pale where they will be, hatched where skipped."""
    visited = schedule.bounds.visited(len(schedule.key_rows))
    tiles = np.where(visited, 0.0, np.nan)
    return _grid(tiles, np.where(visited, LEAST, np.nan), colours.ink, "not compared yet", colours)


def differences(agreement: Agreement, quantity: str, pair: tuple[str, str], colours: Palette) -> Figure:
    """One heat map over tiles: query blocks down, key blocks across; skipped tiles are hatched."""
    tiles = agreement.tiles[quantity, pair]
    with np.errstate(divide="ignore"):
        share = np.log10(tiles / agreement.tolerance[quantity])
    shown = np.where(np.isnan(tiles), np.nan, np.clip(share, LEAST, 0))
    words = f"{quantity} differs by %{{customdata:.2e}}{', relative' if quantity == 'l' else ''}"
    return _grid(tiles, shown, colours.tensor(quantity), words, colours)


def _grid(tiles: np.ndarray, shown: np.ndarray, strong: str, words: str, colours: Palette) -> Figure:
    """Tiles in shades of a colour; NaN is hatched."""
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


def by_tensor(counted: RealTraffic) -> list[dict[str, str]]:
    """Bytes read and written of every tensor, the kernel's and the schedule's, in rows."""
    return [
        {
            "bytes": f"{tensor_name(tensor)} {verb}",
            "Triton kernel, watched": f"{kernel:,}",
            "schedule, counted": f"{schedule:,}",
            "": "equal" if kernel == schedule else "differ",
        }
        for verb, moved in (("read", counted.read), ("written", counted.written))
        for tensor, (kernel, schedule) in moved.items()
    ]


def by_tile(counted: RealTraffic, colours: Palette) -> str:
    """kB of Q, K and V that are read for a visit, by query and key block; struck out where they differ."""
    rows, columns = (range(1 + max((tile[at] for tile in counted.tiles), default=-1)) for at in (0, 1))
    most = max((max(pair) for pair in counted.tiles.values()), default=1)

    def cell(place: tuple[int, int]) -> Cell:
        if place not in counted.tiles:
            return Cell("", "not visited")
        kernel, schedule = counted.tiles[place]
        same = kernel == schedule
        words = f"kernel {kernel:,} bytes, schedule {schedule:,} bytes: {'equal' if same else 'differ'}"
        return Cell(f"{kernel / 1e3:.3g}", words, kernel / most, struck=not same)

    cells = [[cell((query, key)) for key in columns] for query in rows]
    axes, title = "key block; the rows are query blocks", "kB of Q, K and V by tile"
    return scrolled(grid([*map(str, rows)], [*map(str, columns)], cells, axes, colours, title), LOW)

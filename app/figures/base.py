"""What every Plotly figure shares: face, ground, margins, hover, and a zoom that stays when values change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.figures.colours import Palette

if TYPE_CHECKING:
    import plotly.graph_objects as go

SANS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
CONFIG = {
    "displaylogo": False,
    "displayModeBar": False,
    "responsive": True,
    "scrollZoom": False,
    "doubleClick": "reset",
}


def finish(figure: go.Figure, colours: Palette, *, height: int, legend: bool = True) -> go.Figure:
    """Give a figure the layout that all figures share, and return it.

    Args:
        figure: its traces and axis titles are kept.
        colours: the palette of the theme.
        height: pixels; fixed, so that nothing moves when values change.
        legend: whether a horizontal legend stands above the plot.
    """
    axis = {
        "gridcolor": colours.grid,
        "linecolor": colours.grid,
        "zerolinecolor": colours.grid,
        "tickfont": {"family": MONO, "size": 12, "color": colours.muted},
        "title": {"font": {"size": 13, "color": colours.muted}, "standoff": 8},
        "automargin": True,
    }
    figure.update_layout(
        height=height,
        template="none",
        font={"family": SANS, "size": 13, "color": colours.ink},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 8, "r": 8, "t": 28 if legend else 8, "b": 8},
        showlegend=legend,
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "font": {"size": 13}},
        hoverlabel={
            "bgcolor": colours.panel,
            "bordercolor": colours.grid,
            "font": {"family": MONO, "size": 12, "color": colours.ink},
        },
        transition={"duration": 0},
        uirevision="keep",
        bargap=0.3,
    )
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    return figure

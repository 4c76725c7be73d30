"""What every page shows in one way: a chart, a row of buttons, whether what was compared agrees."""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st
from plotly.basedatatypes import BaseFigure

from app.figures.base import CONFIG, Figure
from app.figures.tables import scrolled, table
from app.figures.units import bytes_range_text
from engine.model.traffic import Traffic
from engine.problem.problem import Problem

GREY = {"delta_color": "off", "delta_arrow": "off"}  # of a metric, whose words below are no change


class Unchecked(BaseFigure):
    """A figure as Streamlit takes one, without Plotly's check of every value and the template it adds.

    The check takes ten times as long as all else that a chart needs; the tests make it in place of this.
    """

    def __init__(self, figure: Figure):
        self._figure = figure

    def to_dict(self) -> Figure:
        """The figure's data and layout."""
        return self._figure


def chart(figure: Figure, alt: str, key: str = "") -> None:
    """A Plotly figure; `alt` says what it shows, and keeps its zoom unless a key does."""
    st.plotly_chart(Unchecked(figure), theme=None, config=CONFIG, key=key or alt, alt=alt)


def selected(figure: Figure, alt: str, key: str) -> tuple | None:
    """The custom data of the point that is pressed in a figure; None where none is."""
    asked = {"on_select": "rerun", "selection_mode": "points"}
    found = st.plotly_chart(Unchecked(figure), theme=None, config=CONFIG, key=key, alt=alt, **asked)
    points = found.selection.points
    return tuple(points[0]["customdata"]) if points else None


def numbers(head, rows, title: str, *, words: Sequence[int] = (0,), height: int = 0) -> None:
    """A table of numbers, as `table` makes it; with a height in a box that scrolls."""
    content = table(head, rows, words=words, title=title)
    st.html(scrolled(content, height) if height else content)


def one_of(label: str, options: Sequence[str] | Mapping[str, str], key: str, first: str = "", **tied) -> str:
    """The option whose button is pressed in a row of them, at first the first; a mapping has their names."""
    return st.segmented_control(
        label,
        list(options),
        format_func=options.get if isinstance(options, Mapping) else str,
        default=first or next(iter(options)),
        required=True,
        key=key,
        label_visibility="collapsed",
        **tied,
    )


def fold(key: str, draw: Callable[[], None], label: str = "How is this counted?") -> None:
    """A closed part of a page, drawn only while it is open: what nobody sees delays no slider."""
    part = st.expander(label, key=f"fold {key}", on_change="rerun")
    if part.open:
        with part:
            draw()


def unsure(moved: Mapping[str, Traffic]) -> None:
    """Between what the modelled bytes across HBM lie, where the model is sure of no more; by their names."""
    wide = {name: each.dram_range for name, each in moved.items() if each.dram_range.is_wide}
    if wide:
        ends = ", ".join(f"{name} {bytes_range_text(*found.total)}" for name, found in wide.items())
        st.caption(
            "Here little decides whether L2 still holds what tiles need again, so the modelled bytes across "
            f"HBM are sure only within a range: {ends}."
        )


def smaller_sibling(run: Problem, scenario: Problem) -> str:
    """That what runs is shorter than the scenario, as the end of a clause; empty where it is not."""
    if (run.seq_q, run.seq_kv) == (scenario.seq_q, scenario.seq_kv):
        return ""
    return f", scaled down from the scenario's {scenario.seq_q:,} and {scenario.seq_kv:,}"

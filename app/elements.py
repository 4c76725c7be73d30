"""What every page shows in one way: a chart, a table, controls, whether what was compared agrees."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import streamlit as st
from plotly.basedatatypes import BaseFigure

from app import scenario
from app.figures.base import CONFIG, Figure
from app.figures.tables import scrolled, table
from app.figures.units import bytes_range_text, bytes_text
from app.scenario.page_values import OWN
from engine.experiment import Experiment
from engine.model.traffic import Traffic
from engine.problem.problem import Problem
from engine.studies.survey import growth

TALL = 900  # pixels of a table that scrolls sideways only, on narrow screens
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


def chart(figure: Figure, alt: str, key: str = "", where: Any = st, **asked) -> Any:
    """A Plotly figure; `alt` says what it shows, and keeps its zoom unless a key does."""
    look = {"theme": None, "config": CONFIG, "key": key or alt, "alt": alt}
    return where.plotly_chart(Unchecked(figure), **look, **asked)


def plot(
    title: str,
    figure: Figure,
    notice: str = "",
    *,
    after: str = "",
    alt: str = "",
    key: str = "",
    where: Any = st,
) -> None:
    """A chart below its title, which words may follow, and above what there is to notice."""
    where.markdown(f"**{title}**{after}")
    chart(figure, alt or title, key, where)
    if notice:
        where.caption(notice)


def numbers(
    rows: Sequence[Mapping[str, str]],
    title: str,
    *,
    words: Sequence[int] = (0,),
    height: int = 0,
    where: Any = st,
) -> None:
    """A table of numbers, as `table` makes it; with a height in a box that scrolls."""
    content = table(rows, words=words, title=title)
    where.html(scrolled(content, height) if height else content)


def one_of(label: str, options: Sequence[str] | Mapping[str, str], key: str, first: str = "") -> str:
    """The option whose button is pressed in a row of them, at first the first; a mapping has their names."""
    return st.segmented_control(
        label,
        list(options),
        format_func=options.get if isinstance(options, Mapping) else str,
        default=first or next(iter(options)),
        required=True,
        key=key,
        label_visibility="collapsed",
    )


def own_one_of(label: str, name: str, options: Mapping[str, str], key: str = "") -> str:
    """The same of a value of the page's own; the first where what is asked is not to be had."""
    value = scenario.own(name) if scenario.own(name) in options else next(iter(options))
    return one_of(label, options, first=value, **scenario.tie(name, value, key))


def own_slider(label: str, name: str, text: Callable[[Any], str] = str, where: Any = st) -> Any:
    """A slider of a value of the page's own."""
    value = scenario.own(name)
    return where.select_slider(label, OWN[name].options, value, format_func=text, **scenario.tie(name, value))


def placed(here: bool) -> AbstractContextManager:
    """Where something is drawn later: here, or else where it is drawn."""
    return st.container() if here else nullcontext()


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


def too_large(experiment: Experiment) -> str:
    """That unfused attention's S and P have no room in the GPU's memory; empty where they have."""
    need, gpu = growth(experiment), experiment.gpu
    if need.unfused <= need.capacity:
        return ""
    return (
        f" Unfused attention could not run here: it needs {bytes_text(need.unfused)}, and "
        f"{gpu.with_article} has {bytes_text(need.capacity)}. Its time and bytes are what it would take with "
        "enough memory."
    )

"""The parts of a query whose keys are split, and their merge: numbers that step."""

from functools import partial

import numpy as np
import streamlit as st

from app.elements import chart, numbers
from app.figures import decoding as figures
from app.figures.colours import Palette
from app.figures.units import number_text, unbroken
from app.scenario import widgets
from engine.studies.decoding import Parts

SHOWN = 10  # rows of the table of parts
COMPONENTS = 3  # of O that are shown as numbers
FORMULA = (
    r"m = \max_i \mathrm{lse}_i, \quad "
    r"O = \frac{\sum_i e^{\,\mathrm{lse}_i - m}\, O_i}{\sum_i e^{\,\mathrm{lse}_i - m}}"
)


@st.fragment
def show(parts: Parts, scenario_keys: int, colours: Palette) -> None:
    """The parts of one query and how they become one; its own control redraws only this."""
    most = len(parts.lse)
    step = _stepped(most)
    picture, values = st.columns([1, 1.25], gap="medium")
    with picture:
        chart(figures.merge(parts, step, colours), "What each part counts for")
        st.latex(FORMULA)
    with values:
        st.markdown(unbroken(_sentence(parts, step)))
        _parts_table(parts, step)
        _merged_table(parts, step)
        st.caption(_what_ran(parts, scenario_keys))


def _stepped(most: int) -> int:
    """A slider over the parts that are merged, between two buttons: what a lecturer clicks through."""
    counter = widgets.counter("decoding step", most, 1)
    with st.container(key="in_a_row_decoding_step"):
        before, slider, after = st.columns([1, 12, 1], vertical_alignment="bottom")
    for place, sign, word, by in (before, "◀", "previous", -1), (after, "▶", "next", 1):
        arguments = (counter["key"], by, most)
        place.button(sign, help=f"{word} part", on_click=widgets.count, args=arguments, width="stretch")
    return slider.slider("Parts merged", 0, most, **counter)


def _sentence(parts: Parts, step: int) -> str:
    if step == 0:
        return "Every split has its own m, l and O, computed at the same time. Nothing is merged yet."
    lse, m = parts.lse[step - 1], parts.steps.m[step - 1]
    before = parts.steps.m[step - 2] if step > 1 else -np.inf
    if np.isneginf(lse):
        return f"Split {step} had no keys left, so its lse is −∞ and it adds nothing."
    if np.isneginf(before):
        return f"Split {step} is the first, so m = {_number(m)} and O is its own."
    if m > before:
        alpha = parts.steps.alpha[step - 1]
        return (
            f"Split {step} has the largest lse so far, {_number(m)}, so everything merged before it is "
            f"multiplied by α = {_number(alpha)}."
        )
    weight = parts.steps.weights[step - 1][step - 1]
    return f"Split {step} is added with weight exp(lse − m) = {_number(weight)}, and m stays {_number(m)}."


_number = partial(number_text, figures=4)


def _parts_table(parts: Parts, step: int) -> None:
    """Some splits around the one that is merged now; always as many lines."""
    most = len(parts.lse)
    start = min(max(0, step - SHOWN // 2), max(0, most - SHOWN))
    rows = []
    for at in range(start, min(start + SHOWN, most)):
        low, high = parts.keys[at]
        keys = f"{low:,} to {high - 1:,}" if low < high else "none"
        mark = "▸ " if at == step - 1 else "✓ " if at < step else ""
        held = (parts.m[at], parts.l[at], parts.lse[at], *parts.out[at, :COMPONENTS])
        rows.append([f"{mark}{at + 1}", keys, *map(_number, held)])
    numbers(("split", "keys", "m", "l", "lse", *_components(parts)), rows, "Parts of one query", height=440)


def _merged_table(parts: Parts, step: int) -> None:
    """What is merged so far, what the kernel stores, and float64 over all keys at once."""
    merged = parts.merged[step, : 3 + COMPONENTS]
    exact = [parts.exact_lse, *parts.exact[:COMPONENTS]]
    rows = [
        [f"{step} merged", *map(_number, merged)],
        [f"stored, {parts.experiment.problem.dtype}", "", "", "", *map(_number, parts.result[:COMPONENTS])],
        ["float64, unsplit", "", "", *map(_number, exact)],
    ]
    numbers(("", "m, of lse", "sum", "lse", *_components(parts)), rows, "Parts merged so far", height=240)


def _components(parts: Parts) -> list[str]:
    return [f"O[{index}]" for index in range(len(parts.result[:COMPONENTS]))]


def _what_ran(parts: Parts, scenario_keys: int) -> str:
    run = parts.experiment.problem
    smaller = f", scaled down from the scenario's {scenario_keys:,}" if run.seq_kv < scenario_keys else ""
    return (
        f"These numbers are executed here in the kernel's arithmetic (counted), on {run.seq_kv:,} "
        f"keys{smaller}. O has {run.head_dim} values; as stored it differs from float64 by at most "
        f"{parts.error:.1e}."
    )

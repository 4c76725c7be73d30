"""A slider over steps between two buttons: what a lecturer clicks through."""

from __future__ import annotations

import streamlit as st

from app.scenario import widgets


def stepper(label: str, most: int, first: int, *, name: str, unit: str) -> int:
    """The step that is shown, from 0 (before the first) to `most`.

    `first` is where it starts, `name` keeps it, a `unit` is what a button moves by.
    """
    counter = widgets.counter(name, most, first)
    key = counter["key"]
    with st.container(key=f"in_a_row_{name.replace(' ', '_')}"):
        before, slider, after = st.columns([1, 12, 1], vertical_alignment="bottom")
    before.button("◀", help=f"previous {unit}", on_click=widgets.count, args=(key, -1, most), width="stretch")
    after.button("▶", help=f"next {unit}", on_click=widgets.count, args=(key, 1, most), width="stretch")
    return slider.slider(label, 0, most, **counter)

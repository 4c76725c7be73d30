"""A slider over steps between two buttons: what a lecturer clicks through."""

import streamlit as st

from app.scenario import widgets


def stepper(label: str, most: int, first: int, *, name: str, unit: str) -> int:
    """The step that is shown, from 0 (before the first) to `most`.

    `first` is where it starts, `name` keeps it, and a `unit` is what a button moves by.
    """
    counter = widgets.counter(name, most, first)
    with st.container(key=f"in_a_row_{name.replace(' ', '_')}"):
        before, slider, after = st.columns([1, 12, 1], vertical_alignment="bottom")
    turn = (before, "◀", "previous", -1), (after, "▶", "next", 1)
    for place, sign, word, by in turn:
        arguments = (counter["key"], by, most)
        place.button(sign, help=f"{word} {unit}", on_click=widgets.count, args=arguments, width="stretch")
    return slider.slider(label, 0, most, **counter)

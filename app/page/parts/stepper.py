"""A slider over steps between two buttons: what a lecturer clicks through, or lets play."""

import time
from collections.abc import Callable

import streamlit as st

from app.scenario import kept, widgets

STEP_SECONDS = 1.0


def played(name: str, draw: Callable[[], None]) -> None:
    """A part of a page with the stepper of that name; while that plays, it is drawn anew for every step."""
    st.fragment(draw, run_every=STEP_SECONDS if name in _playing() else None)()


def stepper(label: str, most: int, first: int, *, name: str, unit: str, plays: bool = False) -> int:
    """The step that is shown, from 0 (before the first) to `most`.

    `first` is where it starts, `name` keeps it, a `unit` is what a button moves by; one that `plays` stands
    in what `played` draws.
    """
    key = widgets.counter(name, most, first)["key"]
    if name in _playing():
        _go_on(name, key, most)
    counter = widgets.counter(name, most, first)
    with st.container(key=f"in_a_row_{name.replace(' ', '_')}"):
        before, slider, after, *play = st.columns([1, 12, 1, 1.6][: 3 + plays], vertical_alignment="bottom")
    before.button("◀", help=f"previous {unit}", on_click=widgets.count, args=(key, -1, most), width="stretch")
    after.button("▶", help=f"next {unit}", on_click=widgets.count, args=(key, 1, most), width="stretch")
    words = "Pause" if name in _playing() else "Play"
    if plays and play[0].button(words, on_click=_toggle, args=(name, key, most), width="stretch"):
        st.rerun()  # with the pace of its fragment
    return slider.slider(label, 0, most, **counter)


def _playing() -> dict[str, float]:
    """What plays, with the moment of its last step."""
    return kept("playing", {})


def _toggle(name: str, key: str, most: int) -> None:
    """Pause, or play on; at the end, from the start."""
    if _playing().pop(name, None) is None:
        _playing()[name] = time.monotonic()
        if widgets.count(key, 0, most) == most:
            widgets.count(key, -most, most)


def _go_on(name: str, key: str, most: int) -> None:
    """One step further where it is time, as other controls draw the part anew too."""
    now = time.monotonic()
    if now - _playing()[name] < 0.8 * STEP_SECONDS:
        return
    _playing()[name] = now
    if widgets.count(key, 1, most) == most:
        del _playing()[name]
        st.rerun()

"""The dashboard itself, run for every visit and every change; `main.py` serves it."""

# Two visitors who open a fresh server at once would import it in two threads, and one would get half of it.
import pandas  # noqa: F401
import streamlit as st

from app import frame, glossary, presenter, scenario, sidebar, take_home
from app.contents import HOME
from app.figures.hardware import unchecked
from app.frame import style
from app.page.parts import beside
from app.presenter import lectern
from app.room import screen
from app.scenario.presentation import lecturing, presenting
from app.sidebar import inputs


def _tools(name: str) -> None:
    # Start has no scenario to set: it has no sidebar, and its tools stand below the page.
    with st.container() if name == HOME else st.sidebar, st.container(horizontal=True, key="tools"):
        _popovers()
        if not presenting():
            presenter.button()


@st.fragment
def _popovers() -> None:
    """Filled when they are opened, which runs them alone."""
    with st.container(horizontal=True, width="content"):
        take_home.show()
        glossary.show()


def _draw() -> None:
    scenario.adopt()
    if lecturing():
        st.set_page_config(layout="wide")
        style.send(style.SECTIONS["lectern"])
        lectern.show()
        st.stop()
    opened = frame.navigate()
    name = frame.name_of(opened)
    scenario.settle(name)
    screen.offer_votes()
    style.apply(name)
    if not presenting():
        frame.navigation(name)
    if scenario.notices():
        # As text, not Markdown: the sentences quote what came with the link.
        with st.container(border=True, key="notices"):
            st.text("\n".join(scenario.notices()))
    if presenting():
        presenter.show(name)
    # The page goes first: it is what a moved slider changes, and the browser shows what arrives first.
    if name != HOME and (words := unchecked(scenario.current().gpu, presenting())):
        st.caption(words)
    failures = []
    controls = [] if name == HOME else [sidebar.show]
    heads = [inputs.show] if name in inputs.PAGES else []
    for part in (
        *heads,
        lambda: beside.show(name) or opened.run(),
        lambda: _tools(name),
        *controls,
    ):
        try:
            part()
        except Exception as error:  # the others still come: another scenario may be shown
            failures.append(error)
    # What takes no room comes last: until its style is there, it would push the page down.
    if not presenting():
        presenter.bind()
    frame.show(name)
    scenario.publish(name)
    if failures:
        raise failures[0]  # to the terminal; the page says it in the theme's words


_draw()

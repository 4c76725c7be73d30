"""Presenter mode: the page alone on the screen, large, moved by keys; and a link for the audience."""

from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st

from app import scenario
from app.contents import HOME, pages
from app.presenter import keys, lectern
from app.room import screen
from app.scenario import presentation

WHILE_PRESENTING = {"p": "present", "f": keys.FULL_SCREEN, "a": "audience", "j": keys.DOWN, "k": keys.UP}
TURN_PAGES = {"PageDown": "page_next", "PageUp": "page_back"}
HINT = "PageUp, PageDown turn pages · j, k scroll · f full screen · a the audience's link · p leaves"
TOUR_HINT = (
    "PageDown goes on, PageUp back · 1 to 5 vote · Enter plays · f full screen · a the audience's link · "
    "p leaves"
)
THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]", "::1")


def button() -> None:
    """Begin or end the presentation; the sidebar's own button, which the key presses too."""
    st.button(
        "Present",
        key="present",
        help="p begins and ends the presentation; f fills the screen.",
        on_click=presentation.turn,
    )


def bind() -> None:
    """The key that begins a presentation."""
    keys.bind({"p": "present"})
    screen.step_down()


def show(opened: str) -> None:
    """The keys of a page in a presentation, the buttons that they press, and the audience's link."""
    with st.container(key="presenter"):
        button()
        st.button("Link for the audience", key="audience", on_click=presentation.turn_link)
        there = pages()
        names = tuple(there)
        at = names.index(opened)
        back = st.button("Page before", key="page_back", disabled=at == 0)
        on = st.button("Page after", key="page_next", disabled=at == len(names) - 1)
    if back or on:
        scenario.turn_to(names[at + (1 if on else -1)])
    if opened != "tour":  # which tells its steps
        after = there[names[at + 1]] if at + 1 < len(names) else ""
        place = f"page {at + 1} of {len(names)}"
        lectern.tell({"now": there[opened], "next": after, "place": place})
        screen.publish_page(opened, there[opened], place)
    turns = {} if opened == "tour" else TURN_PAGES  # there these keys turn the steps
    keys.bind({**WHILE_PRESENTING, **turns})
    with st.container(key="presenter_hint"):
        st.caption(TOUR_HINT if opened == "tour" else HINT)
    if scenario.place("audience"):
        with st.container(key="audience_link", border=True):
            screen.join() if screen.opened() else _link(opened)
    screen.badge()


def _link(page: str) -> None:
    """The same scenario without the presentation, in as few values as it takes."""
    here = urlsplit(st.context.url or "")
    folder = here.path.rpartition("/")[0]
    values = urlencode(scenario.short_values(page))
    link = urlunsplit((here.scheme, here.netloc, f"{folder}/{'' if page == HOME else page}", values, ""))
    st.markdown("**The same scenario on your own screen** (a closes this)")
    st.code(link, language=None, wrap_lines=True)
    if here.hostname in THIS_MACHINE:
        st.caption(
            "This address leads to this machine only: open the dashboard by its network address, "
            "started with `--server.address 0.0.0.0`, to show a link that others can open."
        )

"""What stands around every page: the document that holds it, the navigation in groups, tidy addresses."""

from pathlib import Path

import streamlit as st

from app import contents, glossary, scenario
from app.canvas.moving import Component
from app.contents import HOME, NAME, groups, pages
from app.presenter import keys, lectern
from app.room import screen
from app.scenario import presentation

LINKED = "tiles"  # the page that opens a link which names a scenario and no page
FRAME = Component("frame", Path(__file__).with_name("frame.html"))


def navigate() -> st.Page:
    """The page that is opened, of all that there are; one whose name was pressed is turned to."""
    there = scenario.kept_in_run("pages", {name: _page(name, title) for name, title in pages().items()})
    opened = st.navigation(list(there.values()), position="hidden")
    if (pressed := scenario.told("opened")) in list(there):  # whatever a message says
        st.switch_page(there[pressed])
    if name_of(opened) == HOME and scenario.leads_on():
        scenario.turn_to(LINKED)
    title = NAME if name_of(opened) == HOME else f"{opened.title} · {NAME}"
    st.set_page_config(page_title=title, layout="wide")
    return opened


def navigation(opened: str) -> None:
    """Every page by name, in groups that stay together where the window is too narrow for all in a line.

    It is one element, of which `frame.js` tells the names that are pressed: a link of Streamlit's each would
    take a fifth of the time of every run.
    """
    links = ""
    for group, names in groups().items():
        links += f"<div><span>{group}</span>"
        for name, title in names.items():
            here = ' aria-current="page"' if name == opened else ""
            links += f'<a href="./{"" if name == HOME else name}" data-page="{name}"{here}>{title}</a>'
        links += "</div>"
    st.html(f'<nav class="pages">{links}</nav>')


def name_of(page: st.Page) -> str:
    """The name of a page in the list; Streamlit gives the one at the bare address no path."""
    return page.url_path or HOME


def _page(name: str, title: str) -> st.Page:
    """A page whose module is imported when it is first opened."""

    def show():
        contents.page(name).show()

    return st.Page(show, title=title, url_path=name, default=name == HOME)


def show(page: str) -> None:
    """Let the browser keep to what `frame.js` says, on the page of that name."""
    size = presentation.type_size() if presentation.presenting() else 0
    data = {"page": page, "meanings": glossary.meanings(), "keys": keys.bound(), "leads": screen.leading()}
    data |= {"told": lectern.told() or None, "type": size}
    heard = dict.fromkeys((f"on_{name}_change" for name in ("back", "opened", "type")), lambda: None)
    FRAME.mount(key="frame", data=data, height=0, **heard)

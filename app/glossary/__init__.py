"""What the terms of the pages mean: a hover away on every page, and listed in one place."""

import json
from functools import lru_cache
from pathlib import Path

import streamlit as st

from app.canvas.moving import Component
from app.canvas.scripts import address
from app.figures.tables import scrolled
from app.glossary.terms import found_on_pages, listed

HOVER = Component("glossary", Path(__file__).with_name("glossary.html"))
LIST_HEIGHT = 460  # px


@lru_cache(maxsize=1)
def _meanings() -> str:
    """Where a browser finds the meanings of all terms, once."""
    return address("glossary", json.dumps(found_on_pages()), "json")


def hover() -> None:
    """Mark the first of each term on the page; pointing at any of them tells what it means."""
    HOVER.mount(key="glossary", data=_meanings(), height=0)


def show() -> None:
    """The popover that lists every term, once it is opened."""
    popover = st.popover("Glossary", key="words", on_change="rerun")
    if popover.open:
        popover.caption(
            "Point at an underlined word on a page to read its meaning there. By keyboard, Tab past the last "
            "control of the page; arrows then go from term to term."
        )
        popover.html(scrolled(listed(), LIST_HEIGHT))

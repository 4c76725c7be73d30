"""What the terms of the pages mean: a hover away on every page, and listed in one place."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app.canvas.moving import Component
from app.figures.tables import scrolled
from app.glossary.terms import found_on_pages, listed
from app.scenario.again import PARTS
from app.serving.said import said_once

HOVER = Component("glossary", Path(__file__).with_name("glossary.html"))
LIST_HEIGHT = 460  # px


def hover() -> None:
    """Mark the first of each term on the page; pointing at any of them tells what it means."""
    PARTS.show(_mark)


def _mark() -> None:
    HOVER.mount(key="glossary", data=found_on_pages(), height=0)


def show() -> None:
    """The popover that lists every term."""
    said_once(st.popover("Glossary", key="words"), "glossary", _list)


def _list() -> None:
    st.caption(
        "Point at an underlined word on a page to read its meaning there. By keyboard, Tab past the last "
        "control of the page; arrows then go from term to term."
    )
    st.html(scrolled(listed(), LIST_HEIGHT))

"""The lecturer's window, and what the presented window tells it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import streamlit as st

from app.room import screen

HERE = Path(__file__).parent
ALONE = """
<style>
  [data-testid="stSidebar"], [data-testid="stHeader"] { display: none; }
</style>
"""


@lru_cache(maxsize=1)
def _window():
    html, css, js = ((HERE / f"lectern.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    return st.components.v2.component("lectern", html=html, css=css, js=js)


@lru_cache(maxsize=1)
def _teller():
    return st.components.v2.component("lectern_teller", js=(HERE / "lectern.js").read_text("utf-8"))


def show() -> None:
    """The lecturer's window, alone on its page."""
    st.html(ALONE)
    _window()(key="lectern")
    screen.lectern()


def tell(shown: Mapping[str, str]) -> None:
    """Tell a lecturer's window in the same browser what is shown.

    Args:
        shown: now, next and place; of a step its question, answer and votes too.
    """
    _teller()(key="lectern_teller", data=dict(shown), height=0)

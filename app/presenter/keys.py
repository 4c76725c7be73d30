"""Keys for a page's buttons: a lecturer moves on without a pointer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent
FULL_SCREEN, DOWN, UP = "full screen", "down", "up"  # what a key may do besides pressing a button


@lru_cache(maxsize=1)
def _component():
    return st.components.v2.component("page_keys", js=(HERE / "keys.js").read_text("utf-8"))


def bind(buttons: Mapping[str, str], *, key: str) -> None:
    """Let keys, named as browsers name them, press the buttons in containers of these keys."""
    _component()(key=key, data=dict(buttons), height=0)

"""The online softmax: one row of scores, score by score and block by block."""

from __future__ import annotations

import streamlit as st


def show() -> None:
    """Draw the page."""
    st.header("Online softmax")

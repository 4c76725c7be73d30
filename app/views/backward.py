"""The Backward page: gradients tile by tile."""

from __future__ import annotations

import streamlit as st

from app import scenario
from app.player import player
from app.player.backward import build


def show() -> None:
    """Draw the page."""
    experiment = scenario.current()
    st.header(
        "Training needs dQ, dK and dV. P was never kept, so the backward pass computes it again from Q, K and "
        "lse, twice: look at what stays on the chip in each kernel, and at the N × N matrix that never moves.",
        anchor=False,
    )
    player(build(experiment), key="backward")

"""The player of a page, or why nothing plays."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from app.player import PLAYER
from engine import simulate
from engine.experiment import Experiment


def player_panel(experiment: Experiment, payload: Callable[[], bytes], key: str) -> None:
    """Play what the payload holds, or say in a sentence that a thread block does not fit the GPU."""
    footprint = simulate(experiment).footprint
    if footprint.fits:
        PLAYER.show(payload(), key=key)
    else:
        st.text(f"Nothing plays with these blocks. {footprint.consequence}")

"""The player: one canvas with one clock, drawn in the browser from one packed payload."""

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from app.canvas.moving import Played
from engine.experiment import Experiment
from engine.model.simulation import simulate

HERE = Path(__file__).parent
PLAYER = Played("attention_player", HERE / "player.js", "Player")  # of what `payload` packs


def play(experiment: Experiment, payload: Callable[[], bytes], key: str) -> None:
    """Play what the payload holds, or say in a sentence that a thread block does not fit the GPU."""
    footprint = simulate(experiment).footprint
    if footprint.fits:
        PLAYER.show(payload(), key=key)
    else:
        st.text(f"Nothing plays with these blocks. {footprint.consequence}")

"""The player: one canvas with one clock, drawn in the browser from one packed payload."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import streamlit as st

from app import scenario
from app.canvas.moving import Played
from engine.algorithms import flash2
from engine.experiment import Experiment
from engine.model.simulation import simulate

HERE = Path(__file__).parent
PLAYER = Played("attention_player", HERE / "player.js", "Player")  # of what `payload` packs

SMALL = (64, 32, 16)  # rows of a block


def play(experiment: Experiment, payload: Callable[[], bytes], key: str) -> None:
    """Play what the payload holds, or say in a sentence that a thread block does not fit the GPU."""
    footprint = simulate(experiment).footprint
    if footprint.fits:
        PLAYER.show(payload(), key=key)
    else:
        st.text(f"Nothing plays with these blocks. {footprint.consequence}")
        if (other := _that_fits(experiment)) is not None:
            name, tiling = other.record.label, other.tiling
            label = f"Use {name} in blocks of {tiling.block_q} × {tiling.block_kv}"
            st.button(label, on_click=scenario.replace, args=(other,))


def _that_fits(experiment: Experiment) -> Experiment | None:
    """The same problem in blocks that fit: a kernel's own, or else the largest small ones."""
    names = (experiment.algorithm,) * (not experiment.record.chooses_tiling) + (flash2.ALGORITHM.key,)
    for name, size in product(names, (None, *SMALL)):
        one = experiment.changed(algorithm=name)
        own = one.in_own_tiling().tiling
        rows, keys = (size, size) if size else (own.block_q, own.block_kv)
        one = one.changed(block_q=rows, block_kv=keys)
        if simulate(one).footprint.fits:
            return one
    return None

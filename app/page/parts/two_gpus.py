"""Any two GPUs side by side: as recorded where both were, and as modelled."""

from functools import partial

import streamlit as st

from app.elements import fold, numbers
from app.figures.hardware import unchecked
from app.figures.units import seconds_text
from engine.experiment import Experiment
from engine.problem.hardware import GPUS
from engine.studies.two_gpus import modelled_on, recorded_on


def show(experiment: Experiment) -> None:
    """A fold with a choice of two GPUs and a table."""
    fold("two gpus", partial(_draw, experiment), "Two GPUs side by side")


def _draw(experiment: Experiment) -> None:
    names = {key: gpu.name for key, gpu in GPUS.items()}
    first = experiment.hardware
    second = next(key for key in ("h200", "h100") if key != first)
    with st.container(horizontal=True):
        keys = tuple(
            st.selectbox(label, names, list(names).index(key), format_func=names.get, key=f"speed {label}")
            for label, key in (("One GPU", first), ("Another", second))
        )
    one, other = (GPUS[key] for key in keys)
    recorded = recorded_on(experiment, keys)
    rows = [
        [
            *(row.label, "recorded" if row.recorded else "modelled", f"{row.keys:,}"),
            *(*map(seconds_text, row.seconds), f"{row.ratio:.2f}"),
        ]
        for row in (*modelled_on(experiment, keys), *recorded)
    ]
    head = ["kernel", "origin", "N", one.name, other.name, "first over second"]
    numbers(head, rows, f"{one.name} and {other.name}", words=(0, 1), height=420)
    shape = "" if recorded else f"Not both of {one.name} and {other.name} were recorded, so all is modelled. "
    st.caption(
        f"{shape}Modelled rows are of this scenario at other lengths; recorded ones of the recorded shape "
        f"nearest to it. {' '.join(dict.fromkeys(filter(None, map(unchecked, (one, other)))))}"
    )

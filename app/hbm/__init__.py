"""What crosses HBM, while it happens: calls above one another on one axis of time, drawn in the browser."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from app.canvas.moving import Played
from app.figures.colours import Palette
from app.hbm.payload import build, facts
from app.scenario.presentation import presenting
from engine.experiment import Experiment
from engine.studies.sampled_calls import SampledCall, sampled_calls

# of what `payload` packs
HBM = Played("hbm_over_time", Path(__file__).with_name("hbm.js"), "What crosses HBM, while it happens")


def show(
    experiment: Experiment,
    colours: Palette | None = None,
    only: Sequence[str] = (),
    measured: Sequence[SampledCall] = (),
) -> None:
    """The recorded calls nearest to a scenario, or `only` some algorithms', below what was `measured`."""
    calls = [call for call in sampled_calls(experiment) if not only or call.row.provider in only]
    if measured:  # beside which another problem's calls would say nothing
        calls = [*measured, *(call for call in calls if call.row.problem == measured[0].row.problem)]
    if not calls:
        st.text("No call was sampled on any GPU of the recordings, so nothing is shown here.")
        return
    HBM.show(build(tuple(calls)), key="hbm")
    if not presenting():  # a room's screen has the picture's own words
        st.caption(words(calls, experiment))


def words(calls: Sequence[SampledCall], experiment: Experiment) -> str:
    """How the picture came to be, and whose it is."""
    row, near = calls[0].row, ""
    if row.problem != experiment.problem:
        near = f" This is the call nearest to the scenario that was sampled: {', '.join(facts(row.problem))}."
    return (
        f"Every {row.interval * 1e6:.0f} µs the chip counted what crossed its HBM, while the call ran from "
        f"cold caches: areas are bytes, {calls[0].origin}. What lay in L2 at the end was written later, "
        f"and is drawn there.{near}"
    )

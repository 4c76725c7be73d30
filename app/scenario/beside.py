"""A second scenario that pages show beside the first: the session's, in the address by what differs in it."""

import streamlit as st

from app.scenario import state, widgets
from engine.experiment import Experiment, ExperimentError

BESIDE = "compare"  # in the address: names and values in turns, as window~128~hardware~h100
SAME, APART = "same", "~"
KEPT = "experiment beside"


def other() -> Experiment | None:
    """What stands beside the scenario; None where nothing does."""
    return st.session_state.get(KEPT)


def put(experiment: Experiment | None) -> None:
    """Show an experiment beside the scenario, or nothing."""
    st.session_state[KEPT] = experiment


def swap() -> None:
    """Let the two change places, so that the sidebar changes the other one."""
    here, there = state.current(), other()
    put(here)
    state.replace(there)


def differing() -> dict[str, str]:
    """The values of what stands beside that are not the scenario's, as a link has them."""
    here = state.current().flat()
    return {name: widgets.text(value) for name, value in other().flat().items() if value != here[name]}


def link_value() -> dict[str, str]:
    """What a link says of it."""
    if other() is None:
        return {}
    pairs = [part for pair in differing().items() for part in pair]
    return {BESIDE: APART.join(pairs) or SAME}


def adopt(text: str | None) -> tuple[ExperimentError, ...]:
    """Take what a link says, whose other values are the scenario's; what is wrong with it."""
    put(None)
    if text is None:
        return ()
    parts = [] if text == SAME else text.split(APART)
    if len(parts) % 2:
        must = f"{SAME}, or names and values in turns, such as window{APART}128"
        return (ExperimentError(BESIDE, repr(text)[:60], must),)
    values = {name: widgets.text(value) for name, value in state.current().flat().items()}
    values |= dict(zip(parts[::2], parts[1::2], strict=True))
    experiment, errors = Experiment.lenient({name: value for name, value in values.items() if value})
    put(experiment)
    return errors

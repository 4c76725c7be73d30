"""What the session holds: the Experiment, what was wrong with its link, and where the reader is."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import streamlit as st

from engine.experiment import Experiment

EXPERIMENT, OWN, NOTICES, PLACE = "experiment", "own experiment", "notices", "place"
ARRIVED, RUN = "arrived", "run"
BY_LINK = "by link"  # where a scenario that a link brought has arrived at: wherever the link leads
Value = TypeVar("Value")


def current() -> Experiment:
    """The experiment that the sidebar shows."""
    return st.session_state[EXPERIMENT]


def replace(experiment: Experiment) -> None:
    """Show another experiment, the reader's own from now on unless the place has one of its own.

    What was said of the link's values is said no longer.
    """
    st.session_state[EXPERIMENT], st.session_state[NOTICES] = experiment, ()
    if st.session_state[ARRIVED] in ("", BY_LINK):
        st.session_state[OWN] = experiment


def notices() -> tuple[str, ...]:
    """One sentence for each value of the link that could not be used, until the scenario is changed."""
    return st.session_state[NOTICES]


def note(sentence: str) -> None:
    """Say one more sentence, until the scenario is changed."""
    st.session_state[NOTICES] = (*notices(), sentence)


def started() -> bool:
    """Whether the session has an experiment."""
    return EXPERIMENT in st.session_state


def start(experiment: Experiment, notices: Sequence[str], places: Mapping[str, str], by_link: bool) -> None:
    """Begin anew with what a link says, or with the usual scenario where it says nothing.

    A link into a tour brings the scenario of a step: the reader's own stays what it was.
    """
    st.session_state[EXPERIMENT], st.session_state[NOTICES] = experiment, tuple(notices)
    recording = st.session_state.get(PLACE, {}).get("recording", "")  # which no link says
    st.session_state[PLACE] = {"recording": recording, **places}
    st.session_state[ARRIVED] = BY_LINK if by_link else ""
    st.session_state.setdefault(OWN, None)
    if by_link and "step" not in places:
        st.session_state[OWN] = experiment


def came_by_link() -> bool:
    """Whether a link has brought the scenario and no page has shown it yet."""
    return st.session_state[ARRIVED] == BY_LINK


def told(name: str) -> Any:
    """What `frame.js` has told of a name; None where it has not, or once a run has heard of a press."""
    return st.session_state.get("frame", {}).get(name)


def place(name: str) -> str:
    """Where the reader is: the tour, its step, or "true" of present; empty where the link says nothing."""
    return st.session_state[PLACE].get(name, "")


def go(**places: str) -> None:
    """Set where the reader is."""
    st.session_state[PLACE].update(places)


def arrive(where: str, experiment: Experiment) -> None:
    """Show a place's own scenario when the reader comes there; a link that brings its own keeps it."""
    arrived, st.session_state[ARRIVED] = st.session_state[ARRIVED], where
    if arrived not in (where, BY_LINK):
        st.session_state[EXPERIMENT], st.session_state[NOTICES] = experiment, ()


def leave(usual: Experiment) -> None:
    """Show the reader's own scenario, whatever the place before has shown; `usual` until there is one.

    What a link has brought is their own here, whatever step of the tour it names.
    """
    if came_by_link():
        st.session_state[OWN] = current()
    st.session_state[EXPERIMENT] = st.session_state[OWN] or usual
    st.session_state[ARRIVED] = ""


def kept(name: str, first: Value) -> Value:
    """What a part of the dashboard keeps for this visitor, to be changed in place; `first` to begin with."""
    return st.session_state.setdefault(name, first)


def held() -> dict[str, tuple[str, Any]]:
    """Of every value that a widget shows the widget's key, and what that held when it was last seen."""
    return kept("held", {})


def begin_run() -> None:
    """Forget what was kept in the run before."""
    st.session_state[RUN] = {}


def kept_in_run(name: str, first: Value) -> Value:
    """What a part of the dashboard keeps while a page is run once, to be changed in place."""
    return st.session_state[RUN].setdefault(name, first)

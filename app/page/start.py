"""The Start page: what this is, the same work twice as an H200 sampled it, and the two ways on."""

import streamlit as st

from app import hbm, scenario, start
from app.contents import NAME
from app.gallery.picture import Drawn, Picture
from app.page.parts import live
from app.scenario import presentation
from engine.experiment import Experiment
from engine.measuring.live import Live
from engine.studies.sampled_calls import SampledCall


def show() -> None:
    """Draw the page."""
    st.title(NAME, anchor=False)
    if not presentation.presenting():  # to a room the lecturer says it
        st.markdown(start.SENTENCE)
    with st.container(horizontal=True, key="start_ways"):
        lecture = st.button("Start the lecture", type="primary")
        explore = st.button("Explore")
    picture = st.container()
    found = live.show({call.experiment.record.label: call.experiment for call in start.race()}, page="start")
    calls = _calls(found)
    with picture:
        hbm.HBM.show(start.payload(calls), key="opening")
        st.markdown(f"**{start.conclusion(calls)}**")
        st.caption(hbm.words(calls, start.WORK))
    if lecture:
        scenario.turn_to("tour")
    if explore:
        scenario.replace(Experiment())
        scenario.turn_to("tiles")


def _calls(found: Live | None) -> list[SampledCall]:
    """The two that race: measured here, where both were."""
    measured = live.sampled(found, start.WORK)
    return measured if len(measured) == len(start.RACE) else start.race()


def _drawn(_: Experiment, measured: Live | None = None) -> Drawn:
    return Drawn(moving=hbm.HBM, data=start.payload(_calls(measured)))


PICTURE = Picture(_drawn)  # the static site's first page has it by itself

"""The Start page: what this is, the same work twice as an H200 sampled it, and the two ways on."""

import streamlit as st

from app import scenario, start
from app.contents import NAME
from app.gallery.picture import Drawn, Picture
from app.hbm import HBM
from app.scenario import presentation
from engine.experiment import Experiment


def show() -> None:
    """Draw the page."""
    st.title(NAME, anchor=False)
    if not presentation.presenting():  # to a room the lecturer says it
        st.markdown(start.SENTENCE)
    with st.container(horizontal=True, key="start_ways"):
        lecture = st.button("Start the lecture", type="primary")
        explore = st.button("Explore")
    if calls := start.race():
        HBM.show(start.payload(calls), key="opening")
        st.markdown(f"**{start.conclusion(calls)}**")
        st.caption(start.origin(calls))
    else:
        st.text("There is no recording with both algorithms on one problem, so nothing is shown here.")
    if lecture:
        scenario.turn_to("tour")
    if explore:
        scenario.replace(Experiment())
        scenario.turn_to("tiles")


PICTURE = Picture(  # the static site's first page has it by itself
    lambda _: Drawn(moving=HBM, data=start.payload(calls)) if (calls := start.race()) else Drawn()
)

"""The Start page: what this is, the same work twice as an H200 recorded it, and the two ways on."""

import streamlit as st

from app import scenario, start
from app.contents import NAME
from app.gallery.picture import Drawn, Picture
from app.scenario import presentation
from engine.experiment import Experiment

ROOM_HEIGHT = 23.5  # of the picture in a room: times the size of a presenter's type


def show() -> None:
    """Draw the page."""
    st.title(NAME, anchor=False)
    if not presentation.presenting():  # to a room the lecturer says it
        st.markdown(start.SENTENCE)
    with st.container(horizontal=True, key="start_ways"):
        lecture = st.button("Start the lecture", type="primary")
        explore = st.button("Explore")
    work = start.shown()
    if work is None:
        st.text("There is no recording with both algorithms on one problem, so nothing is shown here.")
    else:
        height = int(ROOM_HEIGHT * presentation.type_size()) if presentation.presenting() else None
        start.OPENING.show(start.payload(work, height), key="opening", height=height)
        st.markdown(f"**{start.conclusion(work)}**")
        st.caption(start.origin(work))
    if lecture:
        scenario.turn_to("tour")
    if explore:
        scenario.replace(Experiment())
        scenario.turn_to("tiles")


PICTURE = Picture(  # the static site's first page has it by itself
    lambda _: Drawn(moving=start.OPENING, data=start.payload(work)) if (work := start.shown()) else Drawn()
)

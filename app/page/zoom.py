"""The Zoom page: one movement from a layer to one of its scores, and the pages that show each depth whole."""

import streamlit as st

from app import contents, scenario
from app.gallery.picture import EXAMPLE, Drawn, Picture, tokens
from app.scenario.page_values import own
from app.zoom import ZOOM, payload
from engine.experiment import Experiment

NAME = "zoom"
WHOLE = {  # the page that shows a depth whole
    "layer": ("start", "What all heads send across HBM"),
    "head": ("tiles", "Its tiles, one by one"),
    "tile": ("gpu", "Which SM runs its thread block"),
    "warp": ("flash3", "What warps do over time"),
    "score": ("softmax", "What its row does with it"),
}


def show() -> None:
    """Draw the zoom at the depth that the link names, and the ways on."""
    found = ZOOM.show(payload(scenario.current(), own(NAME)), key=NAME, on_depth_change=lambda: None)
    if found.depth is not None:
        scenario.go(zoom=str(found.depth))
    with st.container(horizontal=True, gap="medium", key="zoom_ways"):
        for depth, (page, words) in WHOLE.items():
            label = f"{depth.capitalize()}: {contents.PAGES[page]}"
            st.page_link(scenario.kept_in_run("pages", {})[page], label=label, help=words)


def _drawn(experiment: Experiment, zoom: str = "0") -> Drawn:
    return Drawn(moving=ZOOM, data=payload(experiment, int(zoom)))


PICTURE = Picture(_drawn, tokens(EXAMPLE), EXAMPLE)

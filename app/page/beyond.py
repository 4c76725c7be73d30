"""The page Beyond: latents, chosen keys, fewer bits and a state in place of a cache, each run on numbers."""

from contextlib import nullcontext
from functools import partial

import streamlit as st

from app import scenario
from app.beyond import BOXES
from app.beyond.topics import PICTURES
from app.elements import fold, one_of
from app.gallery.picture import Drawn, Picture, SiteFile
from app.page.parts import block_scales, latents, linear_attention, selected_keys
from app.scenario.page_values import own, tie
from app.scenario.presentation import presenting
from app.scenario.presets import first
from app.sidebar.unused import unused
from engine.experiment import Experiment
from engine.studies.beyond import BITS, KEYS, LATENTS, STATE

NAME, PAGE = "topic", "beyond"
# each with TITLE, headline, below and counted
TOPICS = {LATENTS: latents, KEYS: selected_keys, BITS: block_scales, STATE: linear_attention}


def show() -> None:
    """Draw the topic that the link names."""
    experiment, asked = scenario.current(), own(NAME)
    unused("This page has algorithms of its own.", "algorithm", "splits", "block_q", "block_kv")
    with st.container(key="beyond_topics"):
        titles = {key: each.TITLE for key, each in TOPICS.items()}
        chosen = one_of("Topic", titles, first=asked, **tie(NAME, asked))
    topic = TOPICS[chosen]
    above = st.container() if presenting() else None  # in a room the picture has the first screen
    st.header(topic.headline(experiment), anchor=False)
    with above or nullcontext():
        BOXES.show(PICTURES[chosen](experiment), key=f"beyond {chosen}", title=topic.TITLE)
    topic.below(experiment)
    fold(f"beyond {chosen}", lambda: st.markdown(topic.counted()))


def _drawn(experiment: Experiment, topic: str = LATENTS) -> Drawn:
    return Drawn(moving=BOXES, data=PICTURES[topic](experiment), title=TOPICS[topic].TITLE)


def _files() -> list[SiteFile]:
    return [
        SiteFile(f"beyond-{key}.html", each.TITLE, "Computed.", partial(_drawn, first(PAGE), key))
        for key, each in TOPICS.items()
    ]


PICTURE = Picture(_drawn, _files)

"""The page Inside a block: one block of threads over time, by generation, technique by technique."""

import streamlit as st

from app import inside, scenario
from app.elements import own_one_of
from app.gallery.picture import EXAMPLE, Drawn, Picture, SiteFile
from app.page.parts import blackwell, hopper
from app.scenario.presentation import presenting
from engine.algorithms import flash3
from engine.experiment import Experiment
from engine.studies import tensor_memory
from engine.studies.warp_groups import inside as lanes_of

# each with begin, TECHNIQUES, variant, words, head, picture, beside and below
PARTS = {"hopper": hopper, "blackwell": blackwell}
GENERATIONS = {"hopper": "FlashAttention-3 on Hopper", "blackwell": "FlashAttention-4 on Blackwell"}


def show() -> None:
    """Draw the page of the generation that the link names."""
    experiment, generation = scenario.current(), scenario.own("generation")
    if not presenting():
        generation = own_one_of("Generation", "generation", GENERATIONS)
    part = PARTS[generation]
    full, head = part.begin(experiment), st.container(key="flash3_head")
    above = None if presenting() else st.container()  # in a room the picture has the first screen
    with st.container(key="apart_inside"):
        column, beside = st.columns([2.6, 1], gap="large")
    first = column.container()
    with above or column:
        names = {key: each.name for key, each in part.TECHNIQUES.items() if key in full.techniques}
        chosen = st.pills(
            "Techniques in use: press one to switch it off",
            list(names),
            format_func=names.get,
            selection_mode="multi",
            default=list(names),
            key=f"flash3_techniques_{generation}",
        )
        shown = part.variant(experiment, frozenset(chosen))
        with st.container(key="flash3_words"):
            st.caption(part.words(experiment, shown, full))
    with head:
        part.head(experiment, shown, full)
    block, whose, told = part.picture(experiment, shown, full)
    with first:
        if not presenting():  # in a room every line counts
            st.markdown(f"**Inside one thread block**{whose}, modelled")
        with st.container(key="flash3_picture"):
            inside.INSIDE.show(inside.payload(block), key=f"inside {generation}")
        st.caption(told)
    with beside:
        part.beside(shown, full, block)
    part.below(experiment, full)


def _drawn(experiment: Experiment, generation: str = "hopper") -> Drawn:
    if generation == "blackwell":
        block = tensor_memory.variant(experiment).block
    else:
        block = lanes_of(experiment, flash3.ALGORITHM.pipeline)
    return Drawn(moving=inside.INSIDE, data=inside.payload(block))


TITLE = "Inside one thread block"
ABOUT = "FlashAttention-3 on an H200: copies, products and softmax, modelled."
FOURTH = "FlashAttention-4 on a B200: products, two softmax groups and a correction group, modelled."
PICTURE = Picture(
    _drawn,
    lambda: [
        SiteFile("inside.html", TITLE, ABOUT, lambda: _drawn(EXAMPLE)),
        SiteFile("inside-blackwell.html", TITLE, FOURTH, lambda: _drawn(EXAMPLE, "blackwell")),
    ],
)

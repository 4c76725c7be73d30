"""The page Inside a block: one block of threads over time, by generation, technique by technique."""

from collections.abc import Mapping

import streamlit as st

from app import inside, scenario
from app.elements import GREY, TALL, numbers, own_one_of
from app.figures.units import times_text
from app.gallery.picture import EXAMPLE, Drawn, Picture, SiteFile
from app.page.parts import blackwell, hopper, live
from app.scenario.offers import set_subject
from app.scenario.presentation import presenting
from app.sidebar.unused import unused
from engine.algorithms import flash3
from engine.experiment import Experiment
from engine.studies import tensor_memory
from engine.studies.techniques import Technique
from engine.studies.warp_groups import inside as lanes_of

# each with LABEL, UNUSED, STUDY (TECHNIQUES and variant), own, headline, also, picture, metrics, worth, below
PARTS = {"hopper": hopper, "blackwell": blackwell}
GENERATIONS = {"hopper": "FlashAttention-3 on Hopper", "blackwell": "FlashAttention-4 on Blackwell"}


def show() -> None:
    """Draw the page of the generation that the link names."""
    experiment, generation = scenario.current(), scenario.own("generation")
    if not presenting():
        generation = own_one_of("Generation", "generation", GENERATIONS)
    part = PARTS[generation]
    techniques, variant = part.STUDY.TECHNIQUES, part.STUDY.variant
    set_subject(part.own(experiment))
    unused(*part.UNUSED)
    full, head = variant(experiment, part.STUDY.ALL), st.container(key="flash3_head")
    above = None if presenting() else st.container()  # in a room the picture has the first screen
    with st.container(key="apart_inside"):
        column, beside = st.columns([2.6, 1], gap="large")
    first = column.container()
    with above or column:
        names = {key: each.name for key, each in techniques.items() if key in full.techniques}
        chosen = st.pills(
            "Techniques in use: press one to switch it off",
            list(names),
            format_func=names.get,
            selection_mode="multi",
            default=list(names),
            key=f"flash3_techniques_{generation}",
        )
        shown = variant(experiment, frozenset(chosen))
        with st.container(key="flash3_words"):
            st.caption(
                " ".join((*_off(part.LABEL, techniques, shown, full), *part.also(experiment, shown, full)))
            )
    with head:
        st.header(part.headline(experiment, shown, full), anchor=False)
        if part is hopper:
            live.show(live.named(part.own(experiment)))
    block, whose, told = part.picture(experiment, shown, full)
    with first:
        if not presenting():  # in a room every line counts
            st.markdown(f"**Inside one thread block**{whose}, modelled")
        with st.container(key="flash3_picture"):
            inside.INSIDE.show(inside.payload(block), key=f"inside {generation}")
        st.caption(told)
    with beside:
        for label, value, *more in part.metrics(shown, full, block):
            st.metric(label, value, *more, **GREY)
    st.markdown(f"**What each is worth**: {part.LABEL} with this technique, and those that need it, left out")
    rows = [_worth(part, variant(experiment, part.STUDY.ALL - {key}), full, key) for key in names]
    numbers(rows, "What each technique is worth", words=(0, 5), height=TALL)
    part.below(experiment, shown, full)


def _off(label: str, techniques: Mapping[str, Technique], shown, full) -> list[str]:
    """What is off, what that means, and what else has nothing to work on."""

    def named(key: str) -> str:
        name = techniques[key].name
        return name[0].lower() + name[1:]

    off = [key for key in techniques if key in full.techniques - shown.techniques]
    idle = [key for key in off if not shown.techniques.issuperset(techniques[key].needs)]
    told = [f"Without {named(key)}: {techniques[key].off}" for key in off if key not in idle]
    if idle:
        told.append(f"What rests on that is off too: {', '.join(map(named, idle))}.")
    return told or [f"Everything is on: this is {label}."]


def _worth(part, left, full, key: str) -> dict[str, str]:
    """A technique left out alone."""
    value, base, cells = part.worth(left, full)
    return {
        "without": part.STUDY.TECHNIQUES[key].name,
        **cells,
        "factor": times_text(value, base) if value else "",
        "what happens instead": getattr(left, "misfit", None) or part.STUDY.TECHNIQUES[key].off,
    }


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
    several=lambda: [
        SiteFile("inside.html", TITLE, ABOUT, lambda: _drawn(EXAMPLE)),
        SiteFile("inside-blackwell.html", TITLE, FOURTH, lambda: _drawn(EXAMPLE, "blackwell")),
    ],
)

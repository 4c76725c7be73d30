"""The sidebar: the controls of the scenario, and whether its blocks fit the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app import scenario
from app.figures.hardware import figures_lines, unchecked
from app.sidebar import recording
from app.sidebar.unused import look
from app.take_home.offers import subject
from engine import simulate
from engine.algorithms import ALGORITHMS, offered
from engine.experiment import LARGEST_SEQUENCE
from engine.problem.hardware import GPUS, Gpu
from engine.problem.problem import DTYPE_BYTES

SEQUENCES = tuple(2**power for power in range(6, 21))
HEAD_DIMS = (16, 32, 64, 96, 128, 192, 256)
BLOCKS = (16, 32, 64, 128, 256)
BEFORE_HELP = (
    "A window: a query sees its own key, this many before it, and as many after it as More says. Leave it "
    "empty for no window."
)
AFTER_HELP = "A query sees this many keys after its own. Under a causal mask it sees none."
DOCUMENTS_HELP = (
    "The keys are several documents, of which a query sees only its own. Type how many of equal length, or "
    "the length of each, such as 100, 900, 24, which add up to the keys. 1 means no such mask."
)
KEYS_HELP = (
    "The number of keys and values; the last query is aligned with the last key. Leave it empty for as "
    "many as queries."
)


def show() -> None:
    """Draw every control; each changes one value of the scenario."""
    with st.sidebar:
        _select(st, "Scenario", "preset", list(scenario.PRESETS), placeholder="presets")
        _select(st, "Algorithm", "algorithm", _algorithms(), format_func=lambda key: ALGORITHMS[key].label)
        _sequence()
        _slider("Head dimension", "head_dim", HEAD_DIMS)
        _block("Query block", "block_q")
        _block("Key block", "block_kv")
        _heads()
        _mask()
        _machine()
        _more()
        _footprint()
        _figures(scenario.current().gpu)


def _slider(label: str, name: str, usual: tuple[int, ...]) -> None:
    st.select_slider(label, scenario.options(name, usual), **look(name), **scenario.control(name))


def _select(place, label: str, name: str, options: Sequence[Any], **more: Any) -> None:
    place.selectbox(label, options, **more, **look(name), **scenario.control(name, options))


def _algorithms() -> tuple[str, ...]:
    """What is offered, and what came with a link."""
    return tuple(dict.fromkeys((*offered(), scenario.current().algorithm)))


def _block(label: str, name: str) -> None:
    """A slider; where the algorithm has blocks of its own, they are shown and cannot be moved."""
    experiment = scenario.current()
    if not experiment.record.chooses_tiling:
        return _slider(label, name, BLOCKS)
    own = getattr(experiment.tiling, name)
    key, why = f"own {name} {own}", f"{experiment.record.label} chooses its own blocks by head dimension."
    st.select_slider(label, sorted({*BLOCKS, own}), own, key=key, disabled=True, help=why)


def _sequence() -> None:
    powers, exact = st.columns([3, 2], vertical_alignment="bottom")
    with powers:
        _slider("Sequence length", "seq", SEQUENCES)
    exact.number_input(
        "Sequence length, typed",
        1,
        LARGEST_SEQUENCE,
        label_visibility="collapsed",
        required=True,
        **look("seq typed"),
        **scenario.control("seq typed"),
    )


def _heads() -> None:
    queries, keys = st.columns(2)
    queries.number_input("Heads", 1, 1024, required=True, **look("heads"), **scenario.control("heads"))
    heads = scenario.current().problem.heads
    _select(keys, "KV heads", "kv_heads", scenario.divisors(heads))


def _mask() -> None:
    mask, before = st.columns(2)
    _select(mask, "Mask", "causal", (False, True), format_func={False: "none", True: "causal"}.get)
    _keys(before, "Keys before", "before", "all", look("window", BEFORE_HELP))


def _keys(place, label: str, name: str, empty: str, more: dict[str, Any]) -> None:
    """One side of a window; `empty` is shown where there is none."""
    place.number_input(label, 0, LARGEST_SEQUENCE - 1, placeholder=empty, **more, **scenario.control(name))


def _machine() -> None:
    dtype, gpu = st.columns(2)
    _select(dtype, "Data type", "dtype", list(DTYPE_BYTES))
    _select(gpu, "GPU", "hardware", list(GPUS), format_func=lambda key: GPUS[key].name)


def _more() -> None:
    with st.expander("More"):
        batch, keys = st.columns(2)
        batch.number_input("Batch", 1, 4096, required=True, **look("batch"), **scenario.control("batch"))
        keys.number_input(
            "Keys",
            1,
            LARGEST_SEQUENCE,
            placeholder="equal",
            **look("seq_kv", KEYS_HELP),
            **scenario.control("seq_kv"),
        )
        after, documents = st.columns(2)
        causal = scenario.current().problem.mask.causal
        unused = {"disabled": True} if causal else {}
        _keys(after, "Keys after", "after", "none" if causal else "all", look("window", AFTER_HELP) | unused)
        documents.text_input("Documents", **look("documents", DOCUMENTS_HELP), **scenario.control("lengths"))
        recording.show()


def _footprint() -> None:
    """A few short lines, green or red: what a thread block of what the page shows keeps on the chip."""
    experiment = subject()
    footprint, record = simulate(experiment).footprint, experiment.record
    colour = "green" if footprint.fits else "red"
    with st.container(border=True, key="footprint"):
        words = " ".join(filter(None, (record.parts_words, record.caveat, unchecked(experiment.gpu))))
        told = f"{footprint.consequence}{footprint.spilled}"
        st.markdown(f":{colour}[**{footprint.verdict}**]  \n{told}  \n:gray[{words}]")


def _figures(gpu: Gpu) -> None:
    """Every figure of the GPU with its source."""
    with st.expander(f"Figures of the {gpu.name}, and their sources"):
        lines = (f"**{group}**: {words}  \n:gray[{source}]" for group, words, source in figures_lines(gpu))
        st.markdown("\n\n".join(lines))
        if gpu.limits:
            st.caption(gpu.limits)

"""The HBM traffic page: which bytes move, what block sizes change, where memory runs out."""

from __future__ import annotations

import streamlit as st

from app import scenario, theme
from app.figures import traffic as figures
from app.figures.base import CONFIG
from app.figures.units import bytes_text, digits, times_text
from engine.experiment import Experiment
from engine.footprint import largest_context, memory_bytes
from engine.survey import by_algorithm, over_blocks, over_length

KINDS = {
    "dram": "DRAM, modelled",
    "requested": "requested by tiles",
    "compulsory": "compulsory",
}
MEANINGS = {
    "requested": "**Requested**: what the tiles ask of memory past the SM.",
    "dram": "**DRAM**: compulsory, plus what the L2 model says is fetched again.",
    "compulsory": "**Compulsory**: each kernel's inputs once and its outputs once.",
}
ALGORITHMS = {"standard": "Standard", "flash1": "FlashAttention-1", "flash2": "FlashAttention-2"}


def show() -> None:
    """Draw the page."""
    experiment = scenario.current()
    simulations, colours = by_algorithm(experiment), theme.colours()
    st.header(_headline(simulations), anchor=False)
    bars, numbers = st.columns([2.1, 1], gap="large")
    with bars:
        kind = st.segmented_control(
            "Bytes",
            list(KINDS),
            format_func=KINDS.get,
            default="dram",
            required=True,
            key="traffic_kind",
            label_visibility="collapsed",
        )
        st.markdown(f"**Bytes by tensor and direction**, all heads, {_origin(kind)}, {experiment.gpu.name}")
        _chart(figures.by_tensor(simulations, kind, colours), "Bytes by tensor, read and written")
    with numbers:
        _numbers(simulations, kind)
    length, blocks, memory = st.columns(3, gap="medium")
    survey = over_length(experiment)
    keys = experiment.problem.seq_kv
    with length:
        st.markdown(f"**Over the length**: {_origin(kind)}")
        _chart(figures.over_length(survey, kind, keys, colours), "Bytes over the sequence length")
    with blocks:
        _blocks(experiment, colours)
    with memory:
        _memory(experiment, survey, colours)


def _headline(simulations) -> str:
    standard, flash = (simulations[name].traffic.dram.total for name in ("standard", "flash2"))
    less = f"{digits(standard / flash)} times less" if standard > flash else "no less"
    return (
        f"Standard attention moves {bytes_text(standard)} through HBM, FlashAttention-2 {bytes_text(flash)}: "
        f"{less} (modelled). Look at S and P, the N × N matrices: flash never writes them."
    )


def _origin(kind: str) -> str:
    return {"dram": "DRAM bytes, modelled", "requested": "requested bytes, counted"}.get(
        kind, "compulsory bytes, counted"
    )


def _numbers(simulations, kind: str) -> None:
    standard, flash = (getattr(simulations[name].traffic, kind).total for name in ("standard", "flash2"))
    st.metric(f"Standard ÷ FlashAttention-2, {_origin(kind)}", times_text(standard / flash))
    head = (
        "| | "
        + " | ".join(figures.NAMES[name].replace(" ", "\u00a0") for name in simulations)
        + " |\n|:--|--:|--:|--:|\n"
    )
    lines = [
        f"| {name} | "
        + " | ".join(f"`{bytes_text(getattr(s.traffic, key).total)}`" for s in simulations.values())
        for key, name in (
            ("requested", "requested"),
            ("dram", "DRAM"),
            ("compulsory", "compulsory"),
        )
    ]
    intensity = " | ".join(f"`{s.traffic.intensity('dram'):,.1f}`" for s in simulations.values())
    st.markdown(head + " |\n".join([*lines, f"| FLOP/DRAM byte | {intensity} |"]))
    st.caption("  \n".join(MEANINGS.values()))


def _blocks(experiment: Experiment, colours) -> None:
    st.markdown(f"**Over block sizes**: requested, {figures.NAMES[experiment.algorithm]}, counted")
    tiling = experiment.tiling
    figure = figures.over_blocks(over_blocks(experiment), (tiling.block_q, tiling.block_kv), colours)
    _chart(figure, "Requested bytes at every pair of block sizes")
    st.caption(f"Struck out: does not fit the SRAM of {experiment.gpu.with_article}. Framed: the scenario.")


def _memory(experiment: Experiment, survey, colours) -> None:
    variants = {name: experiment.changed(algorithm=name) for name in ALGORITHMS}
    largest = {name: largest_context(variant) for name, variant in variants.items()}
    st.markdown("**Memory the tensors take**, modelled")
    figure = figures.memory(survey, experiment.problem.seq_kv, largest, colours)
    _chart(figure, "Memory over the sequence length against the GPU's")
    ends = ", ".join(f"{figures.NAMES[name]} beyond {largest[name]:,}" for name in ALGORITHMS)
    now = ", ".join(bytes_text(memory_bytes(variant)) for variant in variants.values())
    st.caption(f"Runs out: {ends} keys. Here: {now}.")


def _chart(figure, alt: str) -> None:
    st.plotly_chart(figure, theme=None, config=CONFIG, key=alt, alt=alt)

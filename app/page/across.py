"""The page Across GPUs: a sequence that outgrows one GPU, who holds what, what travels, and what waits."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import streamlit as st

from app import scenario
from app.across import ACROSS
from app.across.payload import build, name_of
from app.elements import one_of
from app.figures.units import bytes_text, heads_text, scaled, seconds_text, short
from app.gallery.picture import USUAL, Drawn, Picture, SiteFile
from app.page.parts import live, scaling
from app.scenario import theme
from app.scenario.offers import TRACE, offer
from app.scenario.page_values import OWN
from app.scenario.presentation import presenting
from app.sidebar.recording import chosen_recording
from app.sidebar.unused import unused
from engine.algorithms import BACKWARD, FORWARD
from engine.experiment import Experiment
from engine.model.cluster.fabric import Fabric
from engine.model.cluster.kernel import BACKWARD as BACKWARD_TIMES
from engine.model.cluster.lanes import Lanes
from engine.model.cluster.seconds import modelled
from engine.model.cluster.spread import RING_SEND, Spread
from engine.model.timeline import MODELLED
from engine.problem.hardware import GPUS, LINKS
from engine.recordings.recording import Recording
from engine.studies import several_gpus as studies
from engine.studies.recorded_clusters import cluster_recordings, held, with_lanes
from engine.studies.timeline_files import cluster_trace

PASSES = {FORWARD: "Forward", BACKWARD: "Backward"}
MASKS = {studies.CAUSAL: "Causal mask", studies.FULL: "No mask"}
BESIDE = {
    studies.ORDERS: "Zigzag beside plain order",
    studies.WAYS: "Ring beside other methods",
    studies.ALONE: "Ring alone",
    studies.RECORDED: "Modelled beside recorded",
}


def show() -> None:
    """Draw the page."""
    head = st.container(key="across_head")
    unused("This page has tokens and masks of its own.", "seq", "seq_kv", "causal", "window", "documents")
    unused("Every GPU runs the kernel that suits it, in its own blocks.", "algorithm", "block_q", "block_kv")
    recordings = cluster_recordings(chosen_recording())
    above = st.container() if presenting() else None  # in a room the picture has the first screen
    spread, beside, backward = _asked(recordings)
    runs = studies.runs_of(spread, beside, backward, recordings)
    with head:
        st.header(_headline(runs[0]), anchor=False)
        alone = {"One GPU with all tokens": studies.alone(spread, backward)}
        here = live.show(alone, gpus=spread.gpus, more=partial(scaling.ring_here, held(recordings)))
    with above or nullcontext():
        ACROSS.show(build(runs), key="across")
    for run in runs:
        title = f"{name_of(run, runs)}, {run.spread.gpus} GPUs"
        offer(title, partial(cluster_trace, run), TRACE)
    st.caption(_what_is_drawn(spread, runs, recordings))
    found, colours = held(recordings), theme.colours()
    scaling.links(spread, recordings, here, colours)
    curve, rounds = st.columns(2, gap="large")
    with curve:
        scaling.efficiency(spread, found, colours)
    with rounds:
        scaling.hidden(spread, colours)
    scaling.memory(spread)
    scaling.beside_recorded(recordings, found)


def _asked(recordings: tuple[Recording, ...]) -> tuple[Spread, str, bool]:
    """What the page's own controls ask for, with the scenario's heads, head dimension, data type and GPU."""
    experiment = scenario.current()
    with st.container(horizontal=True, vertical_alignment="center"):
        mask = _chosen("Mask", "mask", MASKS)
        direction = _chosen("Pass", "pass", PASSES)
        row = st.container(width="content")
    with st.container(key="across_sliders"):
        gpus, tokens, link = st.columns(3, gap="medium")
    with gpus:
        count = _slid("GPUs", "gpus", studies.DRAWN)
    with tokens:
        length = _slid("Tokens of the sequence", "tokens", studies.TOKENS, short)
    with link:
        rates = {name: f"{name}: {scaled(rate, 'B/s')}" for name, rate in LINKS.items()}
        name = _slid("Links within a host", "link", list(LINKS), rates.get)
    spread = studies.spread_of(experiment, length, count, mask == studies.CAUSAL, Fabric(peak=LINKS[name]))
    backward = direction == BACKWARD
    choices = studies.beside_of(spread, backward, recordings)
    with row:
        beside = _chosen("Beside", "beside", {key: BESIDE[key] for key in choices}, f"beside {choices}")
    return spread, beside, backward


def _chosen(label: str, name: str, options: dict[str, str], key: str = "") -> str:
    """A row of buttons for a value of the page's own; the first where what is asked is not to be had."""
    value = scenario.own(name) if scenario.own(name) in options else next(iter(options))
    return one_of(label, options, first=value, **scenario.tie(name, value, key))


def _slid(label: str, name: str, options: Sequence, text: Callable[[Any], str] = str) -> Any:
    """A slider of a value of the page's own."""
    value = scenario.own(name)
    return st.select_slider(label, options, value, format_func=text, **scenario.tie(name, value))


def _headline(run: Lanes) -> str:
    time, spread = modelled(run.spread, run.backward), run.spread
    gpu = GPUS[spread.hardware]
    what = "The backward pass of attention" if run.backward else "Attention"
    return (
        f"{what} over {short(spread.problem.seq_q)} tokens takes one {gpu.name} "
        f"{seconds_text(time.one_gpu)}; {spread.gpus} of them need {seconds_text(time.seconds)} (modelled). "
        "Each keeps its own queries, and the keys and values pass by."
    )


def _what_is_drawn(spread: Spread, runs: tuple[Lanes, ...], recordings: tuple[Recording, ...]) -> str:
    problem = spread.problem
    words = [
        f"The scenario gives {heads_text(problem.heads, problem.kv_heads)}, head dimension "
        f"{problem.head_dim}, {problem.dtype}. In each round a GPU computes with one block of K and V "
        f"({bytes_text(spread.block)}) while a later one travels; at the end the parts merge, as on Decoding."
    ]
    if problem.mask.causal:
        words.append(
            "In plain order the first GPUs run out of visible keys and idle. Zigzag order gives every GPU "
            "an early and a late chunk, so all have the same work."
        )
    hosts = spread.fabric.hosts(spread.gpus)
    if hosts > 1:
        words.append(
            f"{spread.gpus} GPUs fill {hosts} hosts of {spread.fabric.host}; between hosts each GPU has "
            f"one network card of {scaled(spread.fabric.network, 'B/s')}. A ring of hosts sends each block "
            "over the network once per host. It is modelled only: the kernels of this project turn one flat "
            "ring."
        )
    if runs[0].backward:
        words.append(
            "In the backward pass dK and dV travel back to the owners of the keys, which doubles the bytes. "
            f"It computes {BACKWARD_TIMES:g} times as long as the forward pass (recorded on one H200)."
        )
    host = modelled(runs[0].spread, runs[0].backward)
    if host.host > host.seconds:
        words.append(
            f"Launching this takes the host {seconds_text(host.host)}, longer than the GPUs need; the times "
            "shown are those of a CUDA graph, which removes that wait."
        )
    return " ".join([*words, _where_lanes_are_from(runs, recordings)])


def _where_lanes_are_from(runs: tuple[Lanes, ...], recordings: tuple[Recording, ...]) -> str:
    if found := [run for run in runs if run.origin != MODELLED]:
        named = "' and '".join(name_of(run, runs) for run in found)
        words = (
            f"The lanes of '{named}' were {found[0].origin}, by "
            "PyTorch's profiler. A recorded call lays K and V out before its first round, which is not "
            "modelled."
        )
        if any(run.spread.method == RING_SEND for run in found):
            words += (
                " NCCL sends by kernels that need SMs of their own. The attention kernel holds them all "
                "until its round ends, so that transfer comes late; copy engines need none."
            )
        return words
    every = {(one.gpus, one.problem.seq_q) for one in with_lanes(recordings)}
    if not every:
        return "All lanes are modelled."
    shapes = " and ".join(f"{tokens:,} tokens on {gpus} GPUs" for gpus, tokens in sorted(every))
    return f"These lanes are modelled. Recorded ones stand beside them for {shapes}, with a causal mask."


def _drawn(experiment: Experiment, **asked: str) -> Drawn:
    """The runs that the page draws for what it asks beside the scenario."""
    of = {name: OWN[name].read(asked.get(name, "")) or usual for name, (_, usual) in studies.CHOICES.items()}
    fabric, backward = Fabric(peak=LINKS[of["link"]]), of["pass"] == BACKWARD
    spread = studies.spread_of(experiment, of["tokens"], of["gpus"], of["mask"] == studies.CAUSAL, fabric)
    recorded = cluster_recordings(None)
    choices = studies.beside_of(spread, backward, recorded)
    beside = of["beside"] if of["beside"] in choices else choices[0]
    return Drawn(moving=ACROSS, data=build(studies.runs_of(spread, beside, backward, recorded)))


tokens, gpus = (studies.CHOICES[name][1] for name in ("tokens", "gpus"))  # of the static site's sequence
ABOUT = f"{tokens:,} causal tokens over {gpus} GPUs: who holds which keys, and what travels (modelled)."
PICTURE = Picture(_drawn, lambda: [SiteFile("across.html", ACROSS.title, ABOUT, lambda: _drawn(USUAL))])

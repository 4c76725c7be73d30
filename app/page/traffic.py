"""The HBM traffic page: which bytes move, what block sizes change, where memory runs out."""

from functools import lru_cache, partial

import streamlit as st

from app import hbm, scenario
from app.elements import fold, numbers, one_of, plot, unsure
from app.figures import memories
from app.figures import traffic as figures
from app.figures.algorithms import short
from app.figures.colours import Palette
from app.figures.units import Quantity, bytes_text, digits
from app.gallery.picture import EXAMPLE, Picture, SiteFile, tokens
from app.gallery.without_streamlit import in_both_themes
from app.page.parts import chip, live
from app.scenario import theme
from app.sidebar.recording import chosen_recording
from engine.algorithms import flash2, standard
from engine.experiment import Experiment
from engine.measuring.live import Live
from engine.model.device_memory import largest_context, memory_bytes
from engine.studies.gains import fused_of, modelled_gain
from engine.studies.survey import LONGEST, by_algorithm, by_length, by_tiling

KINDS = {"dram": "crosses HBM", "requested": "requested from L2", "compulsory": "compulsory"}
ORIGINS = {
    "dram": "bytes across HBM, modelled",
    "requested": "requested from L2, counted",
    "compulsory": "compulsory bytes, counted",
}
MEANINGS = (
    "**Requested from L2** are the bytes that the tiles request, counted. For FlashAttention-1 and unfused "
    "attention an SM's own L1 cache answers some of them; the page Agreement models how many.  \n"
    "**Crosses HBM** are the bytes of DRAM: the compulsory ones and what L2 must fetch again; each kernel "
    "starts with empty caches.  \n"
    "**Compulsory** bytes are each kernel's inputs once and its outputs once."
)


def show() -> None:
    """Draw the page."""
    experiment, colours = scenario.current(), theme.colours()
    simulations, picture = by_algorithm(experiment), st.container()
    unfused = experiment.changed(algorithm=standard.ALGORITHM.key)
    found = live.show(live.named(unfused, fused_of(experiment)), page="traffic")
    with picture:
        hbm.show(experiment, measured=live.sampled(found, experiment))
    st.header(_headline(simulations), anchor=False)
    bars, totals = st.columns([2, 1.1], gap="large")
    with bars:
        kind = one_of("Bytes", KINDS, "traffic_kind")
        with st.container(key="traffic_bars"):
            _bars(experiment, kind, colours)
        st.caption(MEANINGS)
    with totals:
        _totals(simulations)
    with st.container(key="apart_traffic"):
        length, blocks, filled = st.columns(3, gap="medium")
    with length:
        _over_length(experiment, kind, colours)
    with blocks:
        _blocks(experiment, colours)
    with filled:
        _memory(experiment, colours)
    title = f"The memories of {experiment.gpu.with_article}"
    fold("memories", lambda: st.html(memories.memories(experiment.gpu, colours)), title)
    if recording := chosen_recording():
        chip.show_bytes(recording, experiment)


def _bars(experiment: Experiment, kind: str, colours: Palette) -> None:
    st.markdown(f"**Bytes by tensor and direction**, all heads, {ORIGINS[kind]}, {experiment.gpu.name}")
    st.html(figures.by_tensor(by_algorithm(experiment), kind, colours))


def _over_length(experiment: Experiment, kind: str, colours: Palette) -> None:
    told = {"after": f": {ORIGINS[kind]}", "alt": "Bytes over the sequence length"}
    plot("Over the length", _bytes_by_length(experiment, kind, colours), **told)


@lru_cache(maxsize=256)
def _bytes_by_length(experiment: Experiment, kind: str, colours: Palette):
    keys = experiment.problem.seq_kv
    return figures.bytes_by_length(by_length(experiment).up_to(max(LONGEST, 4 * keys)), kind, keys, colours)


def _headline(simulations) -> str:
    unfused, fused = (simulations[each.ALGORITHM.key] for each in (standard, flash2))
    times = modelled_gain(fused.experiment).bytes
    stored, moved = (bytes_text(each.traffic.dram.total) for each in (unfused, fused))
    problem, gpu = unfused.experiment.problem, unfused.experiment.gpu
    if problem.seq_q == 1:
        return (
            f"With a single query, S and P are one row per head, so there is little to save: both algorithms "
            f"must read all of K and V. Standard attention moves {stored} through HBM and FlashAttention-2 "
            f"{moved} (modelled)."
        )
    less = f"{digits(times)} times less (modelled), because it never writes S and P"
    if times < 1.005:
        less = "no less (modelled), because S and P are small here"
    moves = "moves"
    if memory_bytes(unfused.experiment) > gpu.memory_bytes:
        moves = f"does not fit {gpu.with_article}; it would move"
    return (
        f"Standard attention {moves} {stored} through HBM and FlashAttention-2 {moved}, {less}, the matrices "
        "with one number per query and key."
    )


def _totals(simulations) -> None:
    moved = {short(name): one.traffic for name, one in simulations.items()}
    rows = [
        {"": words, **{name: bytes_text(getattr(one, key).total) for name, one in moved.items()}}
        for key, words in KINDS.items()
    ]
    shares = {name: one.intensity("dram") for name, one in moved.items()}
    told = {name: Quantity(digits(each), each) for name, each in shares.items()}
    numbers([*rows, {"": "FLOP per byte of HBM", **told}], "Bytes by algorithm and level")
    unsure(moved)


def _blocks(experiment: Experiment, colours: Palette) -> None:
    if not experiment.record.compared:  # it chooses its blocks itself
        experiment = experiment.changed(algorithm=flash2.ALGORITHM.key)
    st.markdown(f"**Over block sizes**: {short(experiment.algorithm)}, requested, counted")
    tiling = experiment.tiling
    st.html(figures.bytes_by_tiling(by_tiling(experiment), (tiling.block_q, tiling.block_kv), colours))
    st.caption(
        f"Crossed-out sizes need more shared memory than {experiment.gpu.with_article} allows per thread "
        "block, for what they load: S and O are in registers. The frame marks your scenario."
    )


def _memory(experiment: Experiment, colours: Palette) -> None:
    st.markdown("**Memory the tensors take**: areas to scale")
    st.html(memories.growth(experiment, colours))
    largest = by_algorithm(experiment, largest_context).items()
    ends = ", ".join(f"{short(name)} {keys:,}" for name, keys in largest)
    now = ", ".join(map(bytes_text, by_algorithm(experiment, memory_bytes).values()))
    problem, what, beside = experiment.problem, "Longest sequence that fits", ""
    if problem.seq_q != problem.seq_kv:
        queries = "a single query" if problem.seq_q == 1 else f"{problem.seq_q:,} queries"
        what, beside = "Most keys that fit", f" beside {queries}"
    st.caption(
        f"{what} in {bytes_text(experiment.gpu.memory_bytes)}{beside}: {ends} tokens. This scenario needs "
        f"{now}, in the same order."
    )


def _elsewhere(
    experiment: Experiment, colours: Palette, measured: Live | None = None, more: bool = False
) -> None:
    """What phones show: HBM over time, bytes by tensor and over the length; more: over block sizes."""
    hbm.show(experiment, measured=live.sampled(measured, experiment))
    _bars(experiment, "dram", colours)
    _over_length(experiment, "dram", colours)
    if more:
        _blocks(experiment, colours)


ABOUT = f"{tokens(EXAMPLE)} {EXAMPLE.problem.all_heads} heads, causal."
WHOLE = partial(in_both_themes, partial(_elsewhere, more=True), EXAMPLE)
PICTURE = Picture(
    lambda one, measured=None: in_both_themes(partial(_elsewhere, measured=measured), one),
    several=lambda: [SiteFile("traffic.html", "Traffic", ABOUT, WHOLE)],
)

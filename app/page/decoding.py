"""The Decoding page: one query against a long cache, whose keys are split over the GPU and merged again."""

from functools import partial

import streamlit as st

from app import scenario
from app.elements import fold, one_of
from app.figures import decoding as figures
from app.figures.colours import Palette
from app.figures.units import counted, scaled, seconds_text
from app.gallery.picture import USUAL, Drawn, Picture, SiteFile, tokens
from app.gallery.without_streamlit import in_both_themes
from app.page.parts import decoded, kv_cache, live, merging
from app.player import PLAYER
from app.player.payload import build
from app.scenario import theme
from app.scenario.offers import set_subject
from app.sidebar.recording import chosen_recording
from app.sidebar.unused import unused
from engine.algorithms import split_kv
from engine.experiment import Experiment
from engine.model.simulation import Simulation, simulate
from engine.studies import decoding as studies
from engine.trace.memory import SramOverflow

OWN = split_kv.ALGORITHM.key
SPLIT = {"seq": 1, "seq_kv": 8192, "heads": 32, "kv_heads": 8, "head_dim": 128, "splits": 8}


def show() -> None:
    """Draw the page."""
    decoding, colours = set_subject(studies.decoding_of(scenario.current())), theme.colours()
    simulation, recording = simulate(decoding), chosen_recording()
    unused("This page always decodes with Split-KV.", "algorithm")
    unused("A thread block takes the single queries of all heads that share its keys.", "block_q")
    unused("The newest token sees every key, with a causal mask or without.", "causal")
    st.header(_headline(simulation), anchor=False)
    live.show(live.named(decoding))
    with st.container(key="decoding_sliders"):
        keys, splits, metric = st.columns([1.4, 1.4, 1], gap="medium", vertical_alignment="bottom")
    keys.select_slider(
        "Keys in the cache",
        scenario.options("seq_kv", studies.CACHES),
        format_func=lambda count: f"{count:,}",
        **scenario.control("seq_kv typed"),
    )
    own = studies.kernel_splits(decoding)
    splits.select_slider(
        f"Number of splits (the kernel chooses {own} here)",
        scenario.options("splits", tuple(sorted({*studies.SPLITS, own}))),
        **scenario.control("splits"),
    )
    with metric:
        chosen = one_of("Metric", figures.METRICS, "decoding_metric")
    chip, modelled = st.columns([1, 1.25], gap="large")
    with chip:
        _chip(simulation, colours)
    with modelled:
        _modelled(decoding, chosen, colours)
    fold("decoding merge", partial(_merge, decoding, colours), "How do the parts become one result?")
    pages, heads = (partial(show, decoding, recording) for show in (kv_cache.pages, kv_cache.heads))
    fold("decoding pages", pages, "How does a paged KV cache save memory?")
    fold("decoding heads", heads, "What do heads that share keys save?")
    if recording:
        timed = partial(decoded.recorded, recording, decoding, chosen, colours)
        fold("decoding times", timed, "How long did a GPU take?")
    fold("decoding", partial(_counted, simulation))


def _merge(decoding: Experiment, colours: Palette) -> None:
    """The merge of the parts; of as many as the kernel would make where there is but one."""
    own = studies.kernel_splits(decoding)
    if decoding.tiling.splits == 1 < own:
        decoding = decoding.changed(splits=own)
        st.caption(f"One split needs no merge, so this shows the {own} parts that the kernel chooses here.")
    try:
        merging.show(studies.parts_of(decoding), decoding.problem.seq_kv, colours)
    except SramOverflow as error:
        st.text(f"The parts cannot be computed: a thread block {error}. Choose a smaller key block.")


def _headline(simulation: Simulation) -> str:
    experiment, blocks = simulation.experiment, studies.spread(simulation)
    splits, gpu = experiment.tiling.splits, experiment.gpu
    cut = "Without splitting" if splits == 1 else f"Split into {splits:,} parts"
    busy, move = f"all {gpu.sms} SMs get work", ""
    if blocks.busy < gpu.sms:
        get = "gets" if blocks.busy == 1 else "get"
        busy, move = f"only {blocks.busy} of the {gpu.sms} SMs {get} any work", " Raise the number of splits."
        if studies.fastest(studies.by_splits(experiment)) <= splits:
            move = " With so few keys, more splits are no faster."
    seen = studies.keys_seen(experiment)
    tokens = "all tokens before it, the KV cache"
    if seen < experiment.problem.seq_kv:
        tokens = f"the {seen:,} tokens that the mask shows it, its part of the KV cache"
    return (
        "To produce one token, each head has a single query but must read the keys and values of "
        f"{tokens}. {cut}, {busy}, so it is read at {scaled(studies.rate(simulation), 'B/s')} "
        f"(modelled) of the memory's peak of {scaled(gpu.memory_bytes_per_second, 'B/s')}.{move}"
    )


def _chip(simulation: Simulation, colours: Palette) -> None:
    """The SMs, and how many blocks each has."""
    experiment, blocks = simulation.experiment, studies.spread(simulation)
    problem, group = experiment.problem, experiment.problem.group
    st.markdown(f"**{blocks.busy} of {len(blocks.blocks)} SMs** have a block, modelled")
    with st.container(key="decoding_sms"):
        st.html(figures.sms(blocks.blocks, colours))
    shared = f", each for the {group} query heads that share a KV head" if group > 1 else ""
    product = [f"{each:,}" for each in blocks.grid]
    if blocks.grid[-1] > 1:
        shared = f", each for up to {experiment.tiling.block_q} of the {group} query heads that share it"
    else:
        product.pop()
    left = f", {blocks.empty:,} of them without keys" if blocks.empty else ""
    st.caption(
        f"Split-KV launches one thread block per KV head and split: {' × '.join(product)} = "
        f"{blocks.launched:,}{shared}{left}. FlashAttention-2 launches one per query head: "
        f"{problem.all_heads:,}. Hatched SMs are idle."
    )


def _counted(simulation: Simulation) -> None:
    """Why one SM is slow, what the headline's numbers are, and in which blocks the kernel runs by itself."""
    experiment = simulation.experiment
    rows, keys = split_kv.own_blocks(experiment.problem, experiment.gpu)
    st.caption(
        f"One busy SM reads K and V at {scaled(studies.rate_of_sm(simulation), 'B/s')}, because its loads, "
        "products and softmax wait for one another. Only many SMs together can use the memory's "
        f"{scaled(experiment.gpu.memory_bytes_per_second, 'B/s')}. Blocks on SMs, times and rates "
        "are modelled; the bytes of K and V are counted by the schedule. This page always decodes with "
        f"Split-KV, whose one split is decoding without splitting, and whose kernel takes blocks of {rows} "
        f"query rows and {keys} keys by itself on {experiment.gpu.with_article}."
    )


def _modelled(decoding: Experiment, metric: str, colours: Palette) -> None:
    found = studies.by_splits(decoding)
    st.markdown(f"**This cache**, {decoding.gpu.name}, modelled")
    # of the data sheet, as reads come nearer to it than a copy does (an H200's: 4.46 TB/s of 4.8, and 4.27)
    peak, splits = decoding.gpu.memory_bytes_per_second, decoding.tiling.splits
    limit = decoded.limit("at the memory's peak", simulate(decoding), peak, "datasheet", colours)
    decoded.speed_by_splits(
        [decoded.line(found, "split keys", colours), limit], metric, list(found), splits, colours
    )
    best, now = studies.fastest(found), found[splits].modelled
    merge = "One split needs no second kernel."
    if "combine" in now.parts:
        took = seconds_text(now.parts["combine"])
        merge = f"A second kernel merges them, which takes {took} of that."
    st.caption(
        f"{counted(splits, 'split')} take{'s' * (splits == 1)} {seconds_text(now.seconds)}; the fastest "
        f"number of splits is {best:,}, with {seconds_text(found[best].modelled.seconds)}. {merge}"
    )


def _elsewhere(decoding: Experiment, colours: Palette) -> None:
    """What phones show: the SMs that have a block, and the time over the number of splits."""
    _chip(simulate(decoding), colours)
    _modelled(decoding, figures.TIME, colours)


def _drawn(experiment: Experiment) -> Drawn:
    return in_both_themes(_elsewhere, studies.decoding_of(experiment))


def _files() -> list[SiteFile]:
    one, title = USUAL.changed(algorithm=OWN, **SPLIT), split_kv.ALGORITHM.label
    return [
        SiteFile("tiles-split_kv.html", title, tokens(one), lambda: Drawn(moving=PLAYER, data=build(one)))
    ]


PICTURE = Picture(_drawn, _files)

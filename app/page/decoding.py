"""The Decoding page: one query against a long cache, whose keys are split over the GPU and merged again."""

from functools import partial

import numpy as np
import streamlit as st

from app import scenario
from app.elements import chart, fold, numbers, one_of, own_slider
from app.figures import decoding as figures
from app.figures import paging as pools
from app.figures.colours import Palette
from app.figures.units import (
    bytes_text,
    counted,
    heads_text,
    number_text,
    percent_text,
    ratio_digits,
    scaled,
    seconds_text,
    times_text,
    unbroken,
)
from app.gallery.picture import USUAL, Drawn, Picture, SiteFile, tokens
from app.gallery.without_streamlit import in_both_themes
from app.page.parts import decoded, live
from app.player import PLAYER
from app.player.payload import build
from app.scenario import theme, widgets
from app.scenario.offers import set_subject
from app.sidebar.recording import chosen_recording
from app.sidebar.unused import unused
from engine.algorithms import split_kv
from engine.experiment import Experiment
from engine.model.simulation import Simulation, simulate
from engine.recordings.recording import Recording
from engine.studies import decoding as studies
from engine.studies.decoding import Parts
from engine.studies.paging import paging_of
from engine.trace.memory import SramOverflow

SPLIT = {"seq": 1, "seq_kv": 8192, "heads": 32, "kv_heads": 8, "head_dim": 128, "splits": 8}
SHOWN = 10  # rows of the table of parts
COMPONENTS = 3  # of O that are shown as numbers
FORMULA = (
    r"m = \max_i \mathrm{lse}_i, \quad "
    r"O = \frac{\sum_i e^{\,\mathrm{lse}_i - m}\, O_i}{\sum_i e^{\,\mathrm{lse}_i - m}}"
)


def show() -> None:
    """Draw the page."""
    decoding, colours = set_subject(studies.decoding_of(scenario.current())), theme.colours()
    simulation, recording, own = simulate(decoding), chosen_recording(), studies.kernel_splits(decoding)
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
        format_func="{:,}".format,
        **scenario.control("seq_kv typed"),
    )
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
    fold("decoding merge", partial(_merge, decoding, own, colours), "How do the parts become one result?")
    pages, heads = (partial(draw, decoding, recording) for draw in (_pages, _heads))
    fold("decoding pages", pages, "How does a paged KV cache save memory?")
    fold("decoding heads", heads, "What do heads that share keys save?")
    if recording:
        timed = partial(decoded.recorded, recording, decoding, chosen, colours)
        fold("decoding times", timed, "How long did a GPU take?")
    fold("decoding", partial(_counted, simulation))


def _headline(simulation: Simulation) -> str:
    experiment, blocks = simulation.experiment, studies.spread(simulation)
    splits, gpu, seen = experiment.tiling.splits, experiment.gpu, studies.keys_seen(experiment)
    cut = "Without splitting" if splits == 1 else f"Split into {splits:,} parts"
    busy, move = f"all {gpu.sms} SMs get work", ""
    if blocks.busy < gpu.sms:
        get = "gets" if blocks.busy == 1 else "get"
        busy, move = f"only {blocks.busy} of the {gpu.sms} SMs {get} any work", " Raise the number of splits."
        if studies.fastest(studies.by_splits(experiment)) <= splits:
            move = " With so few keys, more splits are no faster."
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
    grid = blocks.grid if blocks.grid[-1] > 1 else blocks.grid[:-1]
    shared = f", each for the {group} query heads that share a KV head" if group > 1 else ""
    if blocks.grid[-1] > 1:
        shared = f", each for up to {experiment.tiling.block_q} of the {group} query heads that share it"
    left = f", {blocks.empty:,} of them without keys" if blocks.empty else ""
    st.caption(
        f"Split-KV launches one thread block per KV head and split: {' × '.join(f'{n:,}' for n in grid)} = "
        f"{blocks.launched:,}{shared}{left}. FlashAttention-2 launches one per query head: "
        f"{problem.all_heads:,}. Hatched SMs are idle."
    )


def _modelled(decoding: Experiment, metric: str, colours: Palette) -> None:
    found, splits = studies.by_splits(decoding), decoding.tiling.splits
    st.markdown(f"**This cache**, {decoding.gpu.name}, modelled")
    # of the data sheet, as reads come nearer to it than a copy does (an H200's: 4.46 TB/s of 4.8, and 4.27)
    peak = decoding.gpu.memory_bytes_per_second
    limit = decoded.limit("at the memory's peak", simulate(decoding), peak, "datasheet", colours)
    lines = [decoded.line(found, "split keys", colours), limit]
    decoded.speed_by_splits(lines, metric, list(found), splits, colours)
    best, now = studies.fastest(found), found[splits].modelled
    merge = "One split needs no second kernel."
    if "combine" in now.parts:
        took = seconds_text(now.parts["combine"])
        merge = f"A second kernel merges them, which takes {took} of that."
    st.caption(
        f"{counted(splits, 'split')} take{'s' * (splits == 1)} {seconds_text(now.seconds)}; the fastest "
        f"number of splits is {best:,}, with {seconds_text(found[best].modelled.seconds)}. {merge}"
    )


def _counted(simulation: Simulation) -> None:
    """Why one SM is slow, what the headline's numbers are, and in which blocks the kernel runs by itself."""
    experiment = simulation.experiment
    rows, keys = split_kv.own_blocks(experiment.problem, experiment.gpu)
    st.caption(
        f"One busy SM reads K and V at {scaled(studies.rate_of_sm(simulation), 'B/s')}, because its loads, "
        "products and softmax wait for one another. Blocks on SMs, times and rates are modelled; the bytes "
        f"of K and V are counted by the schedule. The kernel takes blocks of {rows} query rows, {keys} keys "
        f"by itself on {experiment.gpu.with_article}."
    )


def _merge(decoding: Experiment, own: int, colours: Palette) -> None:
    """The merge of the parts; of as many as the kernel would make where there is but one."""
    if decoding.tiling.splits == 1 < own:
        decoding = decoding.changed(splits=own)
        st.caption(f"One split needs no merge, so this shows the {own} parts that the kernel chooses here.")
    try:
        _merging(studies.parts_of(decoding), decoding.problem.seq_kv, colours)
    except SramOverflow as error:
        st.text(f"The parts cannot be computed: a thread block {error}. Choose a smaller key block.")


@st.fragment
def _merging(parts: Parts, scenario_keys: int, colours: Palette) -> None:
    """The parts of one query and how they become one; its own control redraws only this."""
    most, run = len(parts.lse), parts.experiment.problem
    counter = widgets.counter("decoding step", most, 1)
    with st.container(key="in_a_row_decoding_step"):
        before, slider, after = st.columns([1, 12, 1], vertical_alignment="bottom")
    # a slider between two buttons: what a lecturer clicks through
    for place, sign, word, by in (before, "◀", "previous", -1), (after, "▶", "next", 1):
        arguments = (counter["key"], by, most)
        place.button(sign, help=f"{word} part", on_click=widgets.count, args=arguments, width="stretch")
    step = slider.slider("Parts merged", 0, most, **counter)
    picture, values = st.columns([1, 1.25], gap="medium")
    chart(figures.merge(parts, step, colours), "What each part counts for", where=picture)
    picture.latex(FORMULA)
    smaller = f", scaled down from the scenario's {scenario_keys:,}" if run.seq_kv < scenario_keys else ""
    with values:
        st.markdown(unbroken(_sentence(parts, step)))
        numbers(_parts_rows(parts, step), "Parts of one query", height=440)
        numbers(_merged_rows(parts, step), "Parts merged so far", height=240)
        st.caption(
            f"These numbers are executed here in the kernel's arithmetic (counted), on {run.seq_kv:,} "
            f"keys{smaller}. O has {run.head_dim} values; as stored it differs from float64 by at most "
            f"{parts.error:.1e}."
        )


_number = partial(number_text, figures=4)


def _sentence(parts: Parts, step: int) -> str:
    if step == 0:
        return "Every split has its own m, l and O, computed at the same time. Nothing is merged yet."
    lse, m, alpha = parts.lse[step - 1], parts.steps.m[step - 1], parts.steps.alpha[step - 1]
    before = parts.steps.m[step - 2] if step > 1 else -np.inf
    if np.isneginf(lse):
        return f"Split {step} had no keys left, so its lse is −∞ and it adds nothing."
    if np.isneginf(before):
        return f"Split {step} is the first, so m = {_number(m)} and O is its own."
    if m > before:
        return (
            f"Split {step} has the largest lse so far, {_number(m)}, so everything merged before it is "
            f"multiplied by α = {_number(alpha)}."
        )
    weight = _number(parts.steps.weights[step - 1][step - 1])
    return f"Split {step} is added with weight exp(lse − m) = {weight}, and m stays {_number(m)}."


def _components(values: np.ndarray) -> dict[str, str]:
    return {f"O[{index}]": _number(value) for index, value in enumerate(values[:COMPONENTS])}


def _parts_rows(parts: Parts, step: int) -> list[dict[str, str]]:
    """Some splits around the one that is merged now; always as many lines."""
    most, rows = len(parts.lse), []
    start = min(max(0, step - SHOWN // 2), max(0, most - SHOWN))
    for at in range(start, min(start + SHOWN, most)):
        low, high = parts.keys[at]
        held = {"m": parts.m[at], "l": parts.l[at], "lse": parts.lse[at]}
        rows.append({
            "split": f"{'▸ ' if at == step - 1 else '✓ ' if at < step else ''}{at + 1}",
            "keys": f"{low:,} to {high - 1:,}" if low < high else "none",
            **{name: _number(value) for name, value in held.items()},
            **_components(parts.out[at]),
        })  # fmt: skip
    return rows


def _merged_rows(parts: Parts, step: int) -> list[dict[str, str]]:
    """What is merged so far, what the kernel stores, and float64 over all keys at once."""
    m, total, lse, *out = parts.merged[step]
    known = {"m, of lse": _number(m), "sum": _number(total), "lse": _number(lse)}
    return [
        {"": f"{step} merged", **known, **_components(out)},
        {"": f"stored, {parts.experiment.problem.dtype}", **_components(parts.result)},
        {"": "float64, unsplit", "lse": _number(parts.exact_lse), **_components(parts.exact)},
    ]


def _pages(decoding: Experiment, recording: Recording | None) -> None:
    """Whole caches beside pages, the block tables, and what reading through them costs."""
    size, count = scenario.own("pool_page"), scenario.own("sequences")
    paging, keys = paging_of(decoding.problem, count, size), decoding.problem.seq_kv
    unused, idle = (f"{share:.{2 if share < 0.01 else 1}%}" for share in paging.shares)
    more = f" The pages that stay free have room for {counted(paging.more, 'sequence')} more."
    st.markdown(
        f"**Pages of {size} keys leave {unused} of the memory that they take unused (counted); "
        f"a whole cache per sequence leaves {idle} unused.**{more * bool(paging.more)}"
    )
    sizes, sequences = st.columns(2, gap="medium")
    own_slider("Page size (keys)", "pool_page", where=sizes)
    own_slider("Number of sequences", "sequences", where=sequences)
    slots = (paging.reserved, paging.idle_slots, paging.taken_slots, paging.unused_slots)
    reserved, idle, taken, unused = (bytes_text(count * paging.key_bytes) for count in slots)
    titles = {
        "A whole cache per sequence": f"{paging.reserved:,} slots are reserved ({reserved}); "
        f"{paging.idle_slots:,} of them are unused ({idle}).",
        f"A pool of {paging.pages:,} pages, as much memory": f"{paging.taken:,} pages are taken ({taken}); "
        f"{paging.unused_slots:,} of their slots are unused ({unused}).",
    }
    st.html(pools.pictures(paging, titles, theme.colours()))
    tables = st.container(key="paging_tables")  # as high for eight sequences as for two
    numbers(pools.block_tables(paging), "Block tables", words=(0, 3), height=330, where=tables)
    drawn = f"Every page is drawn, so the room per sequence is {paging.room:,} keys, not {keys:,}. "
    st.caption(
        f"{drawn * (paging.room != keys)}A slot holds K and V of one key in one layer: "
        f"{bytes_text(paging.key_bytes)}. Lengths are "
        f"spread evenly up to the {paging.room:,} keys that a sequence may reach. A sequence takes the next "
        "free page when its last one is full, so at most one page per sequence is partly empty (internal "
        f"fragmentation). The block tables take {bytes_text(paging.table_bytes)}, 4 bytes per page."
    )
    if recording:
        _recorded_pages(recording, decoding)


def _recorded_pages(recording: Recording, decoding: Experiment) -> None:
    """How fast recorded kernels read pages, beside a cache in one piece."""
    whole, pages = studies.recorded_pages(recording, decoding)
    if whole is None or not pages:
        return
    rates = ", ".join(
        f"{scaled(row.bytes_per_second, 'B/s')} from pages of {row.page_size} "
        f"({percent_text(row.bytes_per_second, whole.bytes_per_second)})"
        for row in pages
    )
    st.caption(
        f"{recording.heading}, batch {whole.problem.batch}, {whole.problem.seq_kv:,} keys: K and V come at "
        f"{scaled(whole.bytes_per_second, 'B/s')} from a whole cache, and at {rates}."
    )
    chunk, *over_pages = studies.recorded_chunk(recording) or (None,)
    if over_pages:
        longer = " and ".join(
            f"{times_text(row.times.p50, chunk.times.p50)} as long over pages of {row.page_size}"
            for row in over_pages
        )
        st.caption(
            f"The last {chunk.problem.seq_q:,} queries of {chunk.problem.seq_kv:,} tokens take "
            f"FlashAttention-3's kernel {seconds_text(chunk.times.p50)}, and {longer}."
        )


def _heads(decoding: Experiment, recording: Recording | None) -> None:
    """Bytes of K and V by the number of KV heads, and the times of the nearest recorded cache."""
    found, problem = studies.grouped(decoding), decoding.problem
    reads = {count: studies.key_reads(one) for count, one in found.items()}
    alone, now = reads[problem.heads], reads[problem.kv_heads]
    said = f"{heads_text(problem.heads, problem.kv_heads)}: "
    if problem.heads == 1:
        said = "One head has **nothing to share.** Set more heads in the sidebar."
    elif now == alone:
        said += "**nothing is shared yet.** Set fewer KV heads in the sidebar."
    else:
        said += f"**{ratio_digits(alone, now)} times fewer bytes** to read for every token."
    st.markdown(said)
    kinds = {problem.heads: "each head has its own keys", 1: "all heads share one"}
    rows, where = [], ""
    for count, one in found.items():
        counters = recording and studies.recorded_reads(recording, one.experiment)
        rows.append({
            "": kinds.get(count, "grouped, as in the scenario"),
            "KV heads": f"{count}",
            "K and V, counted": bytes_text(reads[count]),
            "saving": times_text(alone, reads[count]),
            "splits": f"{one.experiment.tiling.splits}",
            "time, modelled": seconds_text(one.modelled.seconds),
            "DRAM reads, recorded": bytes_text(counters.total("dram_read")) if counters else "not recorded",
        })  # fmt: skip
        where = f" The DRAM reads are the GPU's counters, {recording.origin}." if counters else where
    numbers(rows, "Bytes and time by KV heads", height=360)
    st.caption(f"The numbers are for one token, with as many splits as the kernel chooses.{where}")


def _elsewhere(decoding: Experiment, colours: Palette) -> None:
    """What phones show: the SMs that have a block, and the time over the number of splits."""
    _chip(simulate(decoding), colours)
    _modelled(decoding, figures.TIME, colours)


def _files() -> list[SiteFile]:
    one, title = USUAL.changed(algorithm=split_kv.ALGORITHM.key, **SPLIT), split_kv.ALGORITHM.label
    draw = lambda: Drawn(moving=PLAYER, data=build(one))  # noqa: E731
    return [SiteFile("tiles-split_kv.html", title, tokens(one), draw)]


PICTURE = Picture(lambda one: in_both_themes(_elsewhere, studies.decoding_of(one)), _files)

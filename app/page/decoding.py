"""The Decoding page: one query against a long cache, whose keys are split over the GPU and merged again."""

from functools import partial

import numpy as np
import streamlit as st

from app import scenario
from app.elements import fold, numbers, own_slider
from app.figures import decoding as figures
from app.figures.colours import Palette
from app.figures.units import (
    bytes_text,
    counted,
    heads_text,
    number_text,
    ratio_digits,
    scaled,
    seconds_text,
    share_text,
    times_text,
    unbroken,
)
from app.gallery.picture import USUAL, Drawn, Picture, SiteFile, tokens
from app.gallery.without_streamlit import in_both_themes
from app.page.parts import decoded, live
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
from engine.studies.decoding import Parts, paging_of
from engine.trace.memory import SramOverflow

SPLIT = {"seq": 1, "seq_kv": 8192, "heads": 32, "kv_heads": 8, "head_dim": 128, "splits": 8}
SHOWN = 10  # rows of the table of parts
COMPONENTS = 3  # of O that are shown as numbers
FIRST, LAST = 5, 2  # entries of a block table that are written
FORMULA = (
    r"m = \max_i \mathrm{lse}_i, \quad "
    r"O = \frac{\sum_i e^{\,\mathrm{lse}_i - m}\, O_i}{\sum_i e^{\,\mathrm{lse}_i - m}}"
)
COUNTED = (
    "Blocks on SMs, times and rates are modelled; the bytes of K and V are counted by the schedule. One busy "
    "SM reads slowly, because its loads, products and softmax wait for one another."
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
        keys, splits = st.columns(2, gap="medium")
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
    chip, modelled = st.columns([1, 1.25], gap="large")
    with chip:
        _chip(simulation, colours)
    with modelled:
        decoded.this_cache(decoding, colours)
    fold("decoding merge", partial(_merge, decoding, own), "How do the parts become one result?")
    fold("decoding pages", partial(_pages, decoding, colours), "How does a paged KV cache save memory?")
    fold("decoding heads", partial(_heads, decoding), "What do heads that share keys save?")
    if recording:
        timed = partial(decoded.recorded, recording, decoding, colours)
        fold("decoding times", timed, "How long did a GPU take?")
    fold("decoding", lambda: st.caption(COUNTED))


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
    names = "KV head", "split", "block"
    grid = [counted(count, name) for count, name in zip(blocks.grid, names, strict=True)]
    rows = f" × {grid.pop()} of their query heads" * (blocks.grid[-1] > 1)
    shared = f", each for the {group} query heads that share a KV head" * (1 == blocks.grid[-1] < group)
    st.caption(
        f"Split-KV launches {grid[0]} × {grid[1]}{rows} = {blocks.launched:,} thread "
        f"blocks{shared}. FlashAttention-2 launches one per query head: {problem.all_heads:,}. Hatched SMs "
        "are idle."
    )


def _merge(decoding: Experiment, own: int) -> None:
    """The merge of the parts; of as many as the kernel would make where there is but one."""
    if decoding.tiling.splits == 1 < own:
        decoding = decoding.changed(splits=own)
        st.caption(f"One split needs no merge, so this shows the {own} parts that the kernel chooses here.")
    try:
        _merging(studies.parts_of(decoding), decoding.problem.seq_kv)
    except SramOverflow as error:
        st.text(f"The parts cannot be computed: a thread block {error}. Choose a smaller key block.")


@st.fragment
def _merging(parts: Parts, scenario_keys: int) -> None:
    """The parts of one query and how they become one; its own control redraws only this."""
    most, run = len(parts.lse), parts.experiment.problem
    slider, formula = st.columns([1.6, 1], gap="large", vertical_alignment="center")
    step = slider.slider("Parts merged", 0, most, 1, key=f"parts of {most}")
    formula.latex(FORMULA)
    st.markdown(unbroken(_sentence(parts, step)))
    numbers([*_parts_rows(parts, step), *_merged_rows(parts, step)], "Parts of one query")
    smaller = f", scaled down from the scenario's {scenario_keys:,}" if run.seq_kv < scenario_keys else ""
    st.caption(
        f"These numbers are executed here in the kernel's arithmetic (counted), on {run.seq_kv:,} "
        f"keys{smaller}. O has {run.head_dim} values; as stored it differs from float64 by at most "
        f"{parts.error:.1e}."
    )


_number = partial(number_text, figures=4)


def _sentence(parts: Parts, step: int) -> str:
    if step == 0:
        return "Every split has its own m, l and O, computed at the same time. Nothing is merged yet."
    m, alpha, weight = parts.steps.m[step - 1], parts.steps.alpha[step - 1], parts.steps.weights[step - 1]
    return (
        f"Split {step} comes in: the largest lse is now m = {_number(m)}, so what was merged before is "
        f"multiplied by α = {_number(alpha)}, and this part by exp(lse − m) = {_number(weight[step - 1])}."
    )


def _components(values: np.ndarray) -> dict[str, str]:
    return {f"O[{index}]": _number(value) for index, value in enumerate(values[:COMPONENTS])}


def _parts_rows(parts: Parts, step: int) -> list[dict[str, str]]:
    """Some splits around the one that is merged now; always as many lines."""
    most, rows = len(parts.lse), []
    weights = parts.steps.weights[step - 1] if step else np.zeros(most)
    start = min(max(0, step - SHOWN // 2), max(0, most - SHOWN))
    for at in range(start, min(start + SHOWN, most)):
        low, high = parts.keys[at]
        held = {"m": parts.m[at], "l": parts.l[at], "lse": parts.lse[at], "exp(lse − m)": weights[at]}
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
    known = {"m": _number(m), "lse": _number(lse), "exp(lse − m)": _number(total)}
    return [
        {"split": f"{step} merged", **known, **_components(out)},
        {"split": f"stored, {parts.experiment.problem.dtype}", **_components(parts.result)},
        {"split": "float64, unsplit", "lse": _number(parts.exact_lse), **_components(parts.exact)},
    ]


def _pages(decoding: Experiment, colours: Palette) -> None:
    """Whole caches beside pages, and the block tables."""
    size, count = scenario.own("pool_page"), scenario.own("sequences")
    paging, whole = (paging_of(decoding.problem, count, each) for each in (size, None))
    unused, idle = (share_text(each.unused_share, 1) for each in (paging, whole))
    more = f" The pages that stay free have room for {counted(paging.more, 'sequence')} more."
    st.markdown(
        f"**Pages of {size} keys leave {unused} of the memory that they take unused (counted); "
        f"a whole cache per sequence leaves {idle} unused.**{more * bool(paging.more)}"
    )
    sizes, sequences = st.columns(2, gap="medium")
    own_slider("Page size (keys)", "pool_page", where=sizes)
    own_slider("Number of sequences", "sequences", where=sequences)

    def taken(each) -> str:
        slots, empty = (bytes_text(n * each.key_bytes) for n in (each.taken_slots, each.unused_slots))
        return f"{slots} are taken, of which {empty} hold no key (red)."

    titles = {
        f"<b>A whole cache per sequence.</b> {taken(whole)}": whole,
        f"<b>A pool of {paging.pages:,} pages, as much memory.</b> {taken(paging)}": paging,
    }
    st.html(figures.pools(titles, colours))
    rows = [
        {"sequence": chr(ord("A") + at), "keys": f"{keys:,}", "block table: its pages": _entries(pages)}
        for at, (pages, keys) in enumerate(zip(paging.table, paging.lengths, strict=True))
    ]
    tables = st.container(key="paging_tables")  # as high for eight sequences as for two
    numbers(rows, "Block tables", words=(0, 2), height=330, where=tables)
    st.caption(
        f"Sequences may reach {paging.room:,} keys here. Each takes the next free page when its last one is "
        "full, so at most one page per sequence is partly empty (internal fragmentation). A key takes "
        f"{bytes_text(paging.key_bytes)} in one layer, K and V."
    )


def _entries(pages: tuple[int, ...]) -> str:
    """The numbers of a sequence's pages, some of many."""
    first, last = (", ".join(map(str, some)) for some in (pages[:FIRST], pages[-LAST:]))
    return f"{first}, … {last}" if len(pages) > FIRST + LAST else ", ".join(map(str, pages))


def _heads(decoding: Experiment) -> None:
    """Bytes of K and V, and the modelled time, by the number of KV heads."""
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
    rows = [
        {
            "KV heads": f"{count}",
            "K and V, counted": bytes_text(reads[count]),
            "saving": times_text(alone, reads[count]),
            "splits, the kernel's": f"{one.experiment.tiling.splits}",
            "time of a token, modelled": seconds_text(one.modelled.seconds),
        }
        for count, one in found.items()
    ]
    numbers(rows, "Bytes and time by KV heads")


def _elsewhere(decoding: Experiment, colours: Palette) -> None:
    """What phones show: the SMs that have a block, and the time over the number of splits."""
    _chip(simulate(decoding), colours)
    decoded.this_cache(decoding, colours)


def _files() -> list[SiteFile]:
    one, title = USUAL.changed(algorithm=split_kv.ALGORITHM.key, **SPLIT), split_kv.ALGORITHM.label
    draw = lambda: Drawn(moving=PLAYER, data=build(one))  # noqa: E731
    return [SiteFile("tiles-split_kv.html", title, tokens(one), draw)]


PICTURE = Picture(lambda one: in_both_themes(_elsewhere, studies.decoding_of(one)), several=_files)

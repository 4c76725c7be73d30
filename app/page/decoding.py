"""The Decoding page: one query against a long cache, whose keys are split over the GPU and merged again."""

from functools import partial

import streamlit as st

from app import scenario
from app.elements import chart, fold, numbers, one_of
from app.figures import decoding as figures
from app.figures.algorithms import implementation, look
from app.figures.colours import Palette
from app.figures.units import bytes_text, counted, heads_text, percent_text, scaled, seconds_text
from app.gallery.picture import USUAL, Drawn, Picture, SiteFile, tokens
from app.gallery.without_streamlit import in_both_themes
from app.page.parts import kv_cache, live, merging
from app.player import PLAYER
from app.player.payload import build
from app.scenario import theme
from app.scenario.offers import set_subject
from app.sidebar.recording import chosen_recording
from app.sidebar.unused import unused
from app.tour.pictures import PICTURES
from engine.algorithms import split_kv
from engine.experiment import Experiment
from engine.model.simulation import Simulation, simulate
from engine.model.timeline import MODELLED
from engine.problem.hardware import gpu_named
from engine.recordings.recording import Recording
from engine.recordings.timing import Decoding
from engine.studies import decoding as studies
from engine.trace.chip import SramOverflow

OWN = split_kv.ALGORITHM.key
RECORDED = ("implementation", "splits", "p20", "median", "p80", "K and V over time", "of a copy", "note")
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
        timed = partial(_recorded, recording, decoding, chosen, colours)
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
    """Why one SM is slow, and what the headline's numbers are."""
    st.caption(
        f"One busy SM reads K and V at {scaled(studies.rate_of_sm(simulation), 'B/s')}, because its loads, "
        "products and softmax wait for one another. Only many SMs together can use the memory's "
        f"{scaled(simulation.experiment.gpu.memory_bytes_per_second, 'B/s')}. Blocks on SMs, times and rates "
        "are modelled; the bytes of K and V are counted by the schedule. This page always decodes with "
        "Split-KV, whose one split is decoding without splitting."
    )


def _modelled(decoding: Experiment, metric: str, colours: Palette) -> None:
    found = studies.by_splits(decoding)
    st.markdown(f"**This cache**, {decoding.gpu.name}, modelled")
    # of the data sheet, as reads come nearer to it than a copy does (an H200's: 4.46 TB/s of 4.8, and 4.27)
    peak, splits = decoding.gpu.memory_bytes_per_second, decoding.tiling.splits
    limit = _limit("at the memory's peak", simulate(decoding), peak, "datasheet", colours)
    _speed_by_splits([_line(found, "split keys", colours), limit], metric, list(found), splits, colours)
    best, now = studies.fastest(found), found[splits].modelled
    merge = "One split needs no second kernel."
    if "combine" in now.parts:
        took = seconds_text(now.parts["combine"])
        merge = f"A second kernel merges them, which takes {took} of that."
    st.caption(
        f"{counted(splits, 'split')} take{'s' * (splits == 1)} {seconds_text(now.seconds)}; the fastest "
        f"number of splits is {best:,}, with {seconds_text(found[best].modelled.seconds)}. {merge}"
    )


def _speed_by_splits(lines, metric: str, splits, mark: int | None, colours: Palette) -> None:
    alt = f"{lines[0].origin.capitalize()}: {metric} over the number of splits"
    figure = figures.speed_by_splits(lines, metric, splits, mark, colours)
    chart(figure, alt)
    with st.container(key=f"decoding_key_{lines[0].origin[:8]}"):
        st.html(figures.key(lines, metric))


def _line(found: dict[int, Simulation], name: str, colours: Palette) -> figures.Line:
    points = [(one.modelled.seconds, studies.rate(one)) for one in found.values()]
    return figures.Line(name, MODELLED, colours.k, list(found), points)


def _limit(name: str, simulation: Simulation, fastest: float, origin: str, colours: Palette) -> figures.Line:
    """The level of K and V that come as fast as bytes can."""
    return figures.Line(name, origin, colours.bad, [], [(studies.seconds_at(simulation, fastest), fastest)])


def _recorded(recording: Recording, decoding: Experiment, metric: str, colours: Palette) -> None:
    """What was recorded over the splits at the nearest number of keys, its model, and its rivals."""
    rows = studies.recorded_near(recording, decoding)
    timed = [row for row in rows if row.times is not None]
    if not timed:
        return
    problem = timed[0].problem
    st.markdown(f"**{recording.heading}**: {problem.seq_kv:,} keys")
    gpu = gpu_named(recording.device.gpu)
    like = studies.recorded_decoding(rows, (gpu or decoding.gpu).key)
    lines = _recorded_lines(timed, recording.origin, colours)
    if gpu:
        lines.insert(1, _line(studies.by_splits(like), "the same, modelled", colours))
    copy = next((row.bytes_per_second for row in timed if row.provider == "copy"), 0.0)
    if copy:
        lines.append(_limit("at a copy's speed", simulate(like), copy, recording.origin, colours))
    _speed_by_splits(lines, metric, studies.SPLITS, None, colours)
    st.caption(
        f"One query with {heads_text(problem.heads, problem.kv_heads)}, d {problem.head_dim}, "
        f"{problem.dtype}, reads {bytes_text(studies.key_reads(simulate(like)))} of K and V. The dotted "
        f"line is modelled with key blocks of {like.tiling.block_kv}; dashed lines have no splits to set. A "
        f"copy in the same run moved {scaled(copy, 'B/s')}, read plus written.{_commit(timed[0])}"
    )
    cells = [_recorded_row(row, copy) for row in rows]
    numbers(RECORDED, cells, "Recorded decoding times by splits", words=(0, len(RECORDED) - 1), height=330)


def _commit(row: Decoding) -> str:
    """Of which commit rows are, where it is not the recording's."""
    return f" These rows are of commit {row.commit[:7]}." if row.commit else ""


def _recorded_lines(timed: list[Decoding], origin: str, colours: Palette) -> list[figures.Line]:
    """A line over the splits that were swept, and a level for what has none to set."""

    def line(name: str, colour: str, *rows: Decoding) -> figures.Line:
        points = [(row.times.p50, row.bytes_per_second) for row in rows]
        return figures.Line(name, origin, colour, [row.splits for row in rows if row.splits], points)

    swept = sorted((row for row in timed if row.splits), key=lambda row: row.splits)
    lines = [line("split keys", colours.k, *swept)] if swept else []
    for row in timed:
        if row.provider == OWN and row.splits is None:
            lines.append(line("auto", colours.ink, row))
        elif row.provider not in (OWN, "copy") and not row.page_size:
            name = implementation({"provider": row.provider, "label": row.label})
            lines.append(line(name, look(row.provider).colour(colours), row))
    return lines


def _recorded_row(row: Decoding, copy: float) -> list[str]:
    """The cells of RECORDED, beside a copy's bytes per second; 0: not recorded."""
    splits = str(row.splits or "auto") * (row.provider == OWN)
    if row.times is None:
        return [row.label, splits, "", "", "", "", "", row.skipped]
    times = map(seconds_text, (row.times.p20, row.times.p50, row.times.p80))
    share = percent_text(row.bytes_per_second, copy) if copy else ""
    return [row.label, splits, *times, scaled(row.bytes_per_second, "B/s"), share, ""]


def _drawn(experiment: Experiment) -> Drawn:
    return in_both_themes(PICTURES["decoding"], studies.decoding_of(experiment), tour="attention", step="1")


def _files() -> list[SiteFile]:
    one, title = USUAL.changed(algorithm=OWN, **SPLIT), split_kv.ALGORITHM.label
    return [
        SiteFile("tiles-split_kv.html", title, tokens(one), lambda: Drawn(moving=PLAYER, data=build(one)))
    ]


PICTURE = Picture(_drawn, _files)

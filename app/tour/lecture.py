"""The lecture's own pictures: four tokens by hand, and what no other page draws."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import streamlit as st

from app import memory, rescale, scenario
from app.figures import by_hand as hands
from app.figures import lecture as figures
from app.figures import masks as mask_figures
from app.figures.algorithms import implementation, look
from app.figures.colours import Palette
from app.figures.speed import lengths_to, speed_by_length
from app.figures.units import digits, scaled, seconds_text, share_text
from app.figures.watched import ladder
from app.rescale import RESCALE
from app.sidebar.recording import chosen_recording
from app.square import SQUARE, cutting, growing
from app.tour import as_file
from app.tour.file import PICTURES, Picture, load
from app.tour.pictures import show_chart
from app.watched import WATCHED, build
from engine.algorithms import flash3
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.recordings.rows import recorded_rows, timings_of
from engine.studies import fp8
from engine.studies.answers import answer, recorded_times
from engine.studies.by_hand import ByHand, by_hand
from engine.studies.bytes_to_time import bytes_less, reasons
from engine.studies.masks import under_masks
from engine.studies.rescaling import example
from engine.studies.squares import cuts, grown
from engine.studies.warp_groups import PV, QK, SOFTMAX, inside
from engine.watch.labs import labs, stored_report

IN_RACE = ("eager", "flash2", "sdpa_cudnn", "flash3")
HIGH = 340  # px of a chart
FORMATS = {"float16": (1, 5, 10), "FP8, e4m3": (1, 4, 3)}  # bits of sign, exponent and fraction
ONE_TOKEN = ("flash2", "split_kv")
FASTER = ("flash2", "flash3")
SKIPPING = 5  # the lab of a kernel that visits hidden tiles
LINKS = """
**Read** FlashAttention [1](https://arxiv.org/abs/2205.14135),
[2](https://arxiv.org/abs/2307.08691), [3](https://arxiv.org/abs/2407.08608),
[online softmax](https://arxiv.org/abs/1805.02867); **watch** [tiles](tiles), [softmax](softmax),
[backward](backward), [decoding](decoding); **measure** [bytes](traffic), [times](speed),
[blocks on SMs](gpu), [claims](claims)
"""


def _html(words: str, draw: Callable[[Palette], str]) -> Picture:
    """A picture in HTML below one line that says what it is."""

    def picture(experiment: Experiment, colours: Palette) -> None:
        st.markdown(words)
        st.html(draw(colours))

    return picture


def _hand(draw: Callable[[ByHand, Palette], str], words: str = "**Four tokens by hand**, d = 2") -> Picture:
    return _html(f"{words}, computed", lambda colours: draw(by_hand(), colours))


def _hierarchy(experiment: Experiment, colours: Palette) -> None:
    st.markdown(f"**The memories of the {experiment.gpu.name}**, by its data sheet")
    memory.show(experiment.gpu, key="tour memories")


def _squares(payload: Callable[[Experiment], bytes]) -> Picture:
    return lambda experiment, _: SQUARE.show(payload(experiment), key="tour square")


def _grid(told: bool, experiment: Experiment, colours: Palette) -> None:
    unmasked, causal, *_ = under_masks(experiment)
    density = (causal if told else unmasked).density
    words = "queries downwards, keys to the right"
    if told:
        visited = simulate(experiment).per_head.tiles_visited
        words = f"{visited} of {answer('tiles', experiment).value} tiles computed, counted"
    panel = mask_figures.Panel("S in tiles", words, density)
    st.html(mask_figures.multiples([panel], experiment.problem, colours))
    if told:
        st.html(mask_figures.key(density.exact, colours))


def _busy(experiment: Experiment, names: tuple[str, ...], colours: Palette) -> None:
    every = [experiment.changed(algorithm=name) for name in names]
    rows = [(one.record.label, int(answer("busy_sms", one).value), one.gpu.sms) for one in every]
    st.html(figures.busy(rows, colours))


def _lanes(names: tuple[str, ...], told: bool, title: str, experiment: Experiment, colours: Palette) -> None:
    """Recorded times as lanes, below what they are of, when and where they were recorded."""
    times = recorded_times(experiment.problem, experiment.hardware)
    entries = []
    for name in (name for name in names if name in times.seconds):
        label = implementation({"provider": name, "label": name})
        entries.append(figures.Lane(label, times.seconds[name], look(name).colour(colours)))
    slower = f", shown {figures.slowed(entries):,.0f} times slower" if entries else ""
    st.markdown(title.format(origin=times.origin, slower=slower))
    if entries:
        st.html(figures.lanes(entries, told=told))
    else:
        st.caption("The recording has no times of this problem.")


def _units(experiment: Experiment, colours: Palette) -> None:
    """What one score asks of two units, and how fast each is."""
    gpu, problem = experiment.gpu, experiment.problem
    products, exponentials = gpu.products_per_second(problem.dtype), gpu.exponentials_per_second
    st.markdown(f"**One score on two units of the {gpu.name}**, peaks by its data sheet")
    work = (
        (
            f"Tensor cores, {scaled(products, 'FLOP/s')}: {4 * problem.head_dim} FLOPs",
            4 * problem.head_dim,
            colours.s,
        ),
        (f"Exponential units, {scaled(exponentials, 'exp/s')}: 1 exponential", 1, colours.statistics),
    )
    st.html(figures.squares_of(work))


def _overlap(experiment: Experiment, colours: Palette) -> None:
    """When the tensor cores and the softmax units of an SM work, taking turns and at the same time."""
    together = flash3.ALGORITHM.pipeline
    ways = {"In turns": replace(together, overlapped=False), "Overlapped, as version 3": together}
    blocks = {name: inside(experiment, pipeline) for name, pipeline in ways.items()}
    seconds = max(block.switch for block in blocks.values())
    units = (
        ("copies", colours.k, ("K", "V", "Q")),
        ("tensor cores", colours.s, (QK, PV)),
        ("softmax", colours.statistics, (SOFTMAX,)),
    )
    st.markdown(f"**One thread block of FlashAttention-3**, {blocks['In turns'].visits} key blocks, modelled")
    for name, block in blocks.items():
        rows = [
            (unit, [(mark.start, mark.end, colour, "") for mark in block.marks if mark.operation in kinds])
            for unit, colour, kinds in units
        ]
        st.markdown(f"**{name}**: {seconds_text(block.switch)}")
        st.html(figures.gantt(rows, seconds))


def _to_time(experiment: Experiment, colours: Palette) -> None:
    """Why so many times fewer bytes are so few times less time: one reason after the other."""
    experiment = experiment.in_own_tiling()  # as the kernels of the race ran
    whole, _, *others = steps = reasons(experiment)
    tones = (colours.muted, colours.q, colours.s, colours.statistics, colours.k)
    fewer = bytes_less(experiment)
    st.markdown(
        f"**From {digits(fewer)} times fewer bytes to {digits(whole.end / steps[-1].end)} times less time**: "
        f"{experiment.record.label} in its own blocks beside standard attention, modelled"
    )
    rows = [
        (
            f"{'+ ' * (each in others)}{each.name}: {seconds_text(each.end)}",
            [(each.start, each.end, tone, "")],
        )
        for each, tone in zip(steps, tones, strict=True)
    ]
    st.html(figures.gantt(rows, whole.end))


def _race_and_reasons(experiment: Experiment, colours: Palette) -> None:
    race, why = st.columns(2, gap="large")
    with race:
        _lanes(IN_RACE, True, "**The race**, {origin}{slower}", experiment, colours)
    with why:
        _to_time(experiment, colours)


def _rounding(experiment: Experiment, colours: Palette) -> None:
    st.html(figures.ruler("FP8 (e4m3)", fp8.e4m3_values(), labels=True))
    st.html(figures.ruler("float16", fp8.float16_values(), labels=False))
    rounded, halved = fp8.rounding_errors()
    st.markdown("**Error of O**, relative, computed: Q, K and V of normal entries are rounded, nothing else")
    left, right = st.columns(2)
    left.metric("FP8 (e4m3)", share_text(rounded, 1))
    right.metric("float16", share_text(halved, 2))


def _decoding(experiment: Experiment, colours: Palette) -> None:
    _busy(experiment, ("flash2", "split_kv"), colours)
    recording = chosen_recording()
    rows = [row for row in recording.decoding if row.problem == experiment.problem] if recording else []
    shown = [row for row in rows if row.provider in ONE_TOKEN and row.times and row.splits is None]
    tones = {name: look("flash2" if name == "flash2" else "fa4").colour(colours) for name in ONE_TOKEN}
    entries = [figures.Lane(row.label, row.times.p50, tones[row.provider]) for row in shown]
    if entries:
        st.markdown(f"**One token**, {recording.origin}")
        st.html(figures.lanes(sorted(entries, key=lambda lane: -lane.seconds), told=True))


def _speed_up(experiment: Experiment, colours: Palette) -> None:
    """Recorded speed-ups over unfused PyTorch, over the length."""
    recording = chosen_recording()
    if recording is None:
        return
    problem = experiment.problem
    rows = recorded_rows(timings_of(recording, problem.head_dim, not problem.mask.looks_ahead))
    shown = [row for row in rows if row["provider"] in FASTER and row["speedup"]]
    st.markdown(f"**Times as fast as unfused PyTorch**, attention alone, {recording.origin}")
    lengths = lengths_to(max(row["keys"] for row in shown))
    figure = speed_by_length(
        [("recorded", shown)], "speedup", lengths, colours, linear=True, mark=problem.seq_kv
    )
    show_chart(figure, "Speed-up over the length", HIGH)
    share, half = (answer(name, experiment).value for name in ("layer_share", "layer_half"))
    st.markdown(
        f"At {problem.seq_kv:,} tokens attention is **{share_text(share, 1)}** of the layer's FLOPs; "
        f"half of them at {half:,} tokens (counted)."
    )


def _summary(experiment: Experiment, colours: Palette) -> None:
    """Links, and the file of the tour on the screen."""
    name = scenario.place("tour")
    tour = load(name)
    st.markdown(LINKS)
    st.download_button(
        "Take the tour home",
        as_file.taken(tour),
        f"{name}-tour.md",
        "text/markdown",
        on_click="ignore",
        key="tour_file",
    )


PIECES = "**The first row, two scores at a time**"
TILES = "**Every row after each tile**, computed in float32; in one go in float64"
PICTURES |= {
    "by hand": _hand(hands.whole),
    "row by hand": _hand(hands.one_row),
    "safe softmax": _hand(hands.three_passes, "**Softmax of the first row**"),
    "first tile": _hand(hands.first_piece, PIECES),
    "rescale": lambda *_: RESCALE.show(rescale.payload(example()), key="tour rescale"),
    "tiles by hand": _hand(hands.tiled),
    "all by hand": _html(TILES, lambda colours: hands.every_tile(by_hand(), colours)),
    "weights by hand": _hand(hands.weights),
    "again by hand": _hand(hands.again),
    "hierarchy": _hierarchy,
    "square": _squares(lambda experiment: growing(grown(experiment))),
    "cut": _squares(lambda experiment: cutting(cuts(experiment))),
    "tile grid": partial(_grid, False),
    "mask": partial(_grid, True),
    "loops": _html(
        "**What each version does**; bold: to memory and back", lambda _: figures.STYLE + figures.LOOPS
    ),
    "units": _units,
    "overlap": _overlap,
    "formats": _html("**Bits of a number**", lambda colours: figures.bits(FORMATS, colours)),
    "rounding": _rounding,
    "one query": lambda experiment, colours: st.html(figures.one_query(experiment.problem.seq_kv, colours)),
    "decoding": _decoding,
    "layer": _html("**A transformer layer**, in order", figures.layer),
    "speed-up": _speed_up,
    "lanes": partial(_lanes, IN_RACE, False, "**The race**, {origin}"),
    "recorded race": _race_and_reasons,
    "bytes to time": _to_time,
    "labs": _html("**The labs**: each a kernel with a hole, watched while it runs", lambda _: ladder(labs())),
    "watched lab": lambda *_: WATCHED.show(build(stored_report(SKIPPING)), key="tour watched"),
    "summary": _summary,
}

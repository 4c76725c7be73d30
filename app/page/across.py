"""The page Across GPUs: a sequence that outgrows one GPU, who holds what, what travels, and what waits."""

from functools import partial
from itertools import cycle

import streamlit as st

from app import scenario
from app.across import ACROSS
from app.across.payload import NAMES, build, name_of
from app.elements import numbers, own_one_of, own_slider, placed, plot
from app.figures.colours import Palette
from app.figures.curves import Curve, curves
from app.figures.units import bytes_text, counted, heads_text, scaled, seconds_text, share_text, short
from app.gallery.picture import Drawn, Picture
from app.page.parts import live
from app.page.parts.job import sentence
from app.scenario import page_values, theme
from app.scenario.offers import TRACE, offer
from app.scenario.presentation import presenting
from app.sidebar.recording import chosen_recording
from app.sidebar.unused import unused
from engine.algorithms import BACKWARD, FORWARD
from engine.experiment import Experiment
from engine.measuring.live import Live
from engine.model.cluster.fabric import Fabric
from engine.model.cluster.kernel import BACKWARD as BACKWARD_TIMES
from engine.model.cluster.lanes import Lanes
from engine.model.cluster.seconds import modelled
from engine.model.cluster.spread import ALL_GATHER, ALL_TO_ALL, RING, RING_SEND, TWO_LEVEL, Spread
from engine.model.timeline import MODELLED
from engine.problem.hardware import GPUS, LINKS, gpu_named
from engine.recordings.recording import Recording
from engine.studies import several_gpus as studies
from engine.studies.several_gpus import Held, cluster_recordings, held
from engine.studies.timeline_files import cluster_trace

PASSES = {FORWARD: "Forward", BACKWARD: "Backward"}
MASKS = {studies.CAUSAL: "Causal mask", studies.FULL: "No mask"}
BESIDE = {
    studies.ORDERS: "Zigzag beside plain order",
    studies.WAYS: "Ring beside other methods",
    studies.ALONE: "Ring alone",
    studies.RECORDED: "Modelled beside recorded",
}
LINES = {  # of the efficiency: what the legend calls each method, and its colour
    **{RING: ("Ring", "v"), RING_SEND: ("Ring, NCCL", "lime"), TWO_LEVEL: ("Of hosts", "o")},
    **{ALL_GATHER: ("All-gather", "k"), ALL_TO_ALL: ("All-to-all", "q")},
}
TICKS = (1, 4, 16, 64, 256, 1024, 4096, 10_000)


def show() -> None:
    """Draw the page."""
    head = st.container(key="across_head")
    unused("This page has tokens and masks of its own.", "seq", "seq_kv", "causal", "window", "documents")
    unused("Every GPU runs the kernel that suits it, in its own blocks.", "algorithm", "block_q", "block_kv")
    recordings, colours = cluster_recordings(chosen_recording()), theme.colours()
    found, above = held(recordings), placed(presenting())  # in a room the picture has the first screen
    spread, beside, backward = _asked(recordings)
    runs = studies.runs_of(spread, beside, backward, recordings)
    with head:
        st.header(_headline(runs[0]), anchor=False)
        alone = {"One GPU with all tokens": studies.alone(spread, backward)}
        here = live.show(alone, gpus=spread.gpus, more=lambda measured: _ring_here(found, measured))
    with above:
        ACROSS.show(build(runs), key="across")
    for run in runs:
        offer(f"{name_of(run, runs)}, {spread.gpus} GPUs", lambda run=run: cluster_trace(run), TRACE)
    st.caption(_what_is_drawn(spread, runs, recordings))
    _links(spread, recordings, here, colours)
    _efficiency(spread, found, colours)
    _memory(spread)


def _asked(recordings: tuple[Recording, ...]) -> tuple[Spread, str, bool]:
    """What the page's own controls ask for, with the scenario's heads, head dimension, data type and GPU."""
    with st.container(horizontal=True, vertical_alignment="center"):
        mask = own_one_of("Mask", "mask", MASKS)
        backward = own_one_of("Pass", "pass", PASSES) == BACKWARD
        row = st.container(width="content")
    with st.container(key="across_sliders"):
        columns = st.columns(3, gap="medium")
    count = own_slider("GPUs", "gpus", where=columns[0])
    length = own_slider("Tokens of the sequence", "tokens", short, columns[1])
    rates = {name: f"{name}: {scaled(rate, 'B/s')}" for name, rate in LINKS.items()}
    fabric = Fabric(peak=LINKS[own_slider("Links within a host", "link", rates.get, columns[2])])
    spread = studies.spread_of(scenario.current(), length, count, mask == studies.CAUSAL, fabric)
    choices = studies.beside_of(spread, backward, recordings)
    with row:
        named = {key: BESIDE[key] for key in choices}
        return spread, own_one_of("Beside", "beside", named, f"beside {choices}"), backward


def _headline(run: Lanes) -> str:
    time, spread = modelled(run.spread, run.backward), run.spread
    what = "The backward pass of attention" if run.backward else "Attention"
    return (
        f"{what} over {short(spread.problem.seq_q)} tokens takes one {GPUS[spread.hardware].name} "
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
    if (hosts := spread.fabric.hosts(spread.gpus)) > 1:
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
    if recorded := [run for run in runs if run.origin != MODELLED]:
        words.append(
            f"The lanes of {' and '.join(repr(name_of(run, runs)) for run in recorded)} were "
            f"{recorded[0].origin}, by PyTorch's profiler."
        )
    else:
        words.append("All lanes are modelled.")
    return " ".join(words)


def _ring_here(recorded: tuple[Held, ...], found: Live) -> list[str]:
    """A ring that was measured here, beside the model of it and its recordings."""
    if found.ring is None:
        return []
    row, sent = found.ring
    name = f"{row.label}, {row.gpus} GPUs{'' if row.direction == FORWARD else ', forward and backward'}"
    if row.times is None:
        return [sentence(f"{name}: {row.skipped}")]
    gpu = gpu_named(found.device)
    beside = [f"*modelled* {seconds_text(studies.seconds_of(row, gpu.key))}"] if gpu else []
    asked = (row.provider, row.direction, row.problem, row.gpus)
    beside += [
        f"*{one.recording.origin}* {seconds_text(one.row.times.median)}"
        for one in recorded
        if (one.row.provider, one.row.direction, one.row.problem, one.row.gpus) == asked
    ]
    lines = [f"{name}: **{seconds_text(row.times.median)}** ({'; '.join(beside)})"]
    missed = f"bytes over NVLink were not measured: {sent.skipped}"
    return [*lines, *[sentence(missed)] * bool(sent.skipped)]


def _links(spread: Spread, recordings: tuple[Recording, ...], here: Live | None, colours: Palette) -> None:
    """What each GPU sends over NVLink while a ring runs, over time: as it was measured here, and recorded."""
    recorded = ((one, each.origin) for each in recordings for one in each.cluster_timelines if one.interval)
    found = [pair for pair in recorded if (pair[0].problem, pair[0].gpus) == (spread.problem, spread.gpus)]
    if here and here.ring and here.ring[1].interval:
        found = [(here.ring[1], here.origin), *found]
    for column, (row, origin) in zip(st.columns(len(found) or 1, gap="large"), found, strict=False):
        of = Spread(row.problem, row.gpus, row.provider, row.problem.mask.causal)
        due = " and ".join(map(bytes_text, studies.sent_bytes(of)))
        sent = " and ".join(bytes_text(each.sent_bytes) for each in row.marks)
        tones = ("violet", "lime", "rose", "muted")
        lines = zip(studies.sent_over_time(row).items(), cycle(tones), strict=False)
        axes = {"x": "ms of the call", "y": "sent", "told": partial(scaled, unit="B/s")}
        plot(
            f"Bytes over NVLink: {NAMES[row.provider]}, {row.gpus} GPUs",
            curves(
                {name: Curve(values, tone) for (name, values), tone in lines},
                colours,
                **{**axes, "linear": True, "even": True, "height": 200},
                levels={"what a link carries": spread.fabric.peak},
            ),
            f"In the forward pass the GPUs sent {sent}, in order; counted are {due}: keys that the "
            "mask hides from a GPU are not sent to it. Each line begins with its own GPU's work.",
            **{"after": f", {origin}", "key": f"links {row.provider} {origin}", "where": column},
        )


def _efficiency(spread: Spread, found: tuple[Held, ...], colours: Palette) -> None:
    """Methods over the number of GPUs; recorded points where there are any of this length."""
    lines, points = {}, studies.recorded_over_gpus(spread, found)
    for method, (name, tone) in LINES.items():
        if len(at := studies.over_gpus(spread.by(method))) > 1:
            lines[name] = Curve(at, tone, "dot", " GPUs, modelled")
        if at := points.get(method):
            values = {gpus: one.efficiency for gpus, one in at.items()}
            lines[f"{name}, recorded"] = Curve(values, tone, "marks", " GPUs", listed=False)
    words = (
        "From one host to several, a flat ring waits for the network in every round; a ring of hosts waits "
        "only once per host."
    )
    if points:
        every = [one for at in points.values() for one in at.values()]
        origins, problem = sorted({one.recording.origin for one in every}), every[0].row.problem
        half, most = map(share_text, studies.errors(found))
        words += (
            f" Points were {' and '.join(origins)}: {problem.heads} heads of {problem.head_dim}. Of all "
            f"recorded calls of several GPUs the model is off by less than {half} in half, and by less than "
            f"{most} in 95%."
        )
    if any(value > 1 for one in lines.values() for value in one.values.values()):
        reached = GPUS[spread.hardware].reached
        words += (
            " Above 100% one GPU alone is slowed down: its power limit leaves it "
            f"{share_text(reached.sustained_clock)} of its clock in a call, after "
            f"{reached.sustained_from * 1000:.0f} ms of it."
        )
    axes = {"x": "GPUs", "y": "efficiency", "told": share_text, "ticks": TICKS, "linear": True}
    plot(
        "Efficiency over the number of GPUs",
        curves(lines, colours, **axes, marked={spread.gpus: "dot"}),
        words,
        after=": one GPU's time over that of all GPUs together, modelled",
        key="across efficiency",
    )


def _memory(spread: Spread) -> None:
    """What each GPU holds, and the longest context."""
    gpu = GPUS[spread.hardware]
    st.markdown(f"**Memory per GPU**, one layer's attention, {gpu.name}, modelled")
    rows = [
        {
            "": "One GPU" if room.spread.gpus == 1 else NAMES[room.spread.method],
            **dict(zip(("this sequence", "of it buffers"), map(bytes_text, room.bytes), strict=True)),
            "longest that fits": counted(room.longest, "token"),
        }
        for room in studies.rooms(spread)
    ]
    numbers(rows, "Memory per GPU")
    st.caption(
        f"A GPU of {bytes_text(gpu.memory_bytes)} holds its own Q, K, V and O, and buffers for the blocks "
        "that pass by. All-gather keeps a group of heads of all K and V, which grows with the whole "
        "sequence."
    )


def _drawn(experiment: Experiment, **link: str) -> Drawn:
    """The runs that the page draws for what it asks beside the scenario."""
    of, recorded = page_values.asked("across", link), cluster_recordings(None)
    fabric, backward = Fabric(peak=LINKS[of["link"]]), of["pass"] == BACKWARD
    spread = studies.spread_of(experiment, of["tokens"], of["gpus"], of["mask"] == studies.CAUSAL, fabric)
    choices = studies.beside_of(spread, backward, recorded)
    beside = of["beside"] if of["beside"] in choices else choices[0]
    return Drawn(moving=ACROSS, data=build(studies.runs_of(spread, beside, backward, recorded)))


tokens, gpus = (studies.CHOICES[name][1] for name in ("tokens", "gpus"))  # of the static site's sequence
ABOUT = f"{tokens:,} causal tokens over {gpus} GPUs: who holds which keys, and what travels (modelled)."
PICTURE = Picture(_drawn, ABOUT)

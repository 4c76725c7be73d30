"""Figures of the page of several GPUs: efficiency over their number, and a ring's round over their tokens."""

from collections.abc import Mapping, Sequence

from app.figures.base import LEGEND, Figure, drawn, level, line, marks, upright
from app.figures.colours import Palette
from app.figures.units import log_axis, log_ticks, seconds_text, share_text, short
from engine.model.cluster.seconds import ClusterTime
from engine.model.cluster.spread import ALL_GATHER, ALL_TO_ALL, RING, RING_SEND, TWO_LEVEL
from engine.recordings.cluster import ClusterTimeline
from engine.recordings.samples import SECTOR
from engine.studies.several_gpus import Held

HEIGHT, LOW = 300, 190
NAMES = {
    RING: "Ring",
    RING_SEND: "Ring, NCCL",
    ALL_GATHER: "All-gather",
    ALL_TO_ALL: "All-to-all",
    TWO_LEVEL: "Ring of hosts",
}
TONES = {RING: "v", RING_SEND: "lime", ALL_GATHER: "k", ALL_TO_ALL: "q", TWO_LEVEL: "o"}
TICKS = (1, 4, 16, 64, 256, 1024, 4096, 10_000)


def sent(row: ClusterTimeline, rate: float, colours: Palette) -> Figure:
    """What each GPU sends over NVLink while a ring runs, a line each; the links' rate is a line across."""
    tones, traces = (colours.violet, colours.lime, colours.rose, colours.muted), []
    for gpu, of in enumerate(row.marks):
        x = [round(at * row.interval * 1e3, 4) for at in range(len(of.sent))]
        y = [round(sectors * SECTOR / row.interval / 1e9, 2) for sectors in of.sent]
        told = f"GPU {gpu}, %{{x:.2f}} ms: %{{y:.0f}} GB/s"
        traces.append(line(x, y, tones[gpu % len(tones)], told, width=1.5, name=f"GPU {gpu}"))
    return drawn(
        traces,
        colours,
        height=LOW,
        x={"title_text": "ms of the call"},
        y={"title_text": "GB/s sent", "range": [0, 1.1 * rate / 1e9]},
        shapes=[level(rate / 1e9, colours.muted)],
    )


def efficiency(
    lines: Mapping[str, Mapping[int, ClusterTime]], recorded: Sequence[Held], gpus: int, colours: Palette
) -> Figure:
    """Efficiency over the number of GPUs, a line per method; the picture's GPUs are marked."""
    traces, reached = [], [1.0]  # above 1 one GPU's power limit slows it
    for method, found in lines.items():
        values = [one.efficiency for one in found.values()]
        told = [[seconds_text(one.seconds), share_text(one.efficiency)] for one in found.values()]
        words = f"{NAMES[method]}, %{{x:,}} GPUs, modelled: %{{customdata[0]}}, %{{customdata[1]}}"
        look = {"width": 2, "dash": "dot", "mode": "lines+markers", "marker": {"size": 5}}
        colour, look["name"] = getattr(colours, TONES[method]), NAMES[method]
        traces.append(line(list(found), values, colour, words, **look, customdata=told))
        reached += values
    for one in recorded:
        row, problem, reached = one.row, one.row.problem, [*reached, one.efficiency]
        words = f"{NAMES[row.provider]}, {row.gpus} GPUs, {problem.heads} heads, d {problem.head_dim}"
        words += f", {one.recording.origin}: {seconds_text(row.times.median)}, {share_text(one.efficiency)}"
        look = {"symbol": "diamond", "size": 11, "edge": {"width": 1, "color": colours.ink}}
        colour = getattr(colours, TONES[row.provider])
        traces.append(marks([row.gpus], [one.efficiency], colour, words, **look, showlegend=False))
    most, shares = max(max(found) for found in lines.values()), [share / 5 for share in range(8)]
    ticks = [tick for tick in TICKS if tick <= most]
    return drawn(
        traces,
        colours,
        height=HEIGHT,
        x=log_axis(ticks, "{:,}".format, 1, most, 0.06, 0.08, title_text="GPUs"),
        y={
            "range": [0, max(reached) + 0.06],
            "tickvals": shares,
            "ticktext": [f"{share:.0%}" for share in shares],
            "title_text": "efficiency",
        },
        margin={"t": LEGEND + 20},  # of two lines
        shapes=[upright(gpus, colours.muted)],
    )


def rounds(found: Mapping[int, tuple[float, float]], now: int, needed: float, colours: Palette) -> Figure:
    """A round's computing and transfer over the tokens per GPU; beyond their crossing they hide."""
    tokens, traces, micro = list(found), [], []
    for at, (name, colour) in enumerate((("computing", colours.s), ("transfer", colours.v))):
        values = [one[at] for one in found.values()]
        words, told = (
            f"%{{x:,}} tokens per GPU, {name}, modelled: %{{customdata}}",
            [*map(seconds_text, values)],
        )
        values = [value * 1e6 for value in values]
        traces.append(line(tokens, values, colour, words, name=name, customdata=told))
        micro += values
    places = ((now, colours.muted, "dot"), (needed, colours.good, "dash"))
    ticks = log_ticks(min(micro), max(micro), "µs", lambda value: seconds_text(value * 1e-6))
    return drawn(
        traces,
        colours,
        height=HEIGHT,
        x=log_axis(tokens[::2], short, tokens[0], tokens[-1], 0, title_text="tokens per GPU"),
        y={"title_text": "a round", **ticks},
        shapes=[upright(x, *look, 1.5) for x, *look in places if tokens[0] <= x <= tokens[-1]],
    )

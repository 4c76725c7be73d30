"""Decoding as recorded, over the number of splits: on the Decoding page, and on Speed for split keys."""

import streamlit as st

from app.elements import chart, numbers
from app.figures import decoding as figures
from app.figures.algorithms import implementation, look
from app.figures.colours import Palette
from app.figures.units import bytes_text, heads_text, percent_text, scaled, seconds_text
from engine.algorithms import split_kv
from engine.experiment import Experiment
from engine.model.simulation import Simulation, simulate
from engine.model.timeline import MODELLED
from engine.problem.hardware import gpu_named
from engine.recordings.recording import Recording
from engine.recordings.timing import Decoding
from engine.studies import decoding as studies

OWN = split_kv.ALGORITHM.key


def speed_by_splits(lines, metric: str, splits, mark: int | None, colours: Palette) -> None:
    """A chart of lines over the number of splits, and what they are."""
    figure = figures.speed_by_splits(lines, metric, splits, mark, colours)
    chart(figure, f"{lines[0].origin.capitalize()}: {metric} over the number of splits")
    with st.container(key=f"decoding_key_{lines[0].origin[:8]}"):
        st.html(figures.key(lines, metric))


def line(found: dict[int, Simulation], name: str, colours: Palette) -> figures.Line:
    """The modelled times over the number of splits."""
    points = [(one.modelled.seconds, studies.rate(one)) for one in found.values()]
    return figures.Line(name, MODELLED, colours.k, list(found), points)


def limit(name: str, simulation: Simulation, fastest: float, origin: str, colours: Palette) -> figures.Line:
    """The level of K and V that come as fast as bytes can."""
    return figures.Line(name, origin, colours.bad, [], [(studies.seconds_at(simulation, fastest), fastest)])


def recorded(recording: Recording, decoding: Experiment, metric: str, colours: Palette) -> None:
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
        lines.insert(1, line(studies.by_splits(like), "the same, modelled", colours))
    copy = next((row.bytes_per_second for row in timed if row.provider == "copy"), 0.0)
    if copy:
        lines.append(limit("at a copy's speed", simulate(like), copy, recording.origin, colours))
    speed_by_splits(lines, metric, studies.SPLITS, None, colours)
    st.caption(
        f"One query with {heads_text(problem.heads, problem.kv_heads)}, d {problem.head_dim}, "
        f"{problem.dtype}, reads {bytes_text(studies.key_reads(simulate(like)))} of K and V. The dotted "
        f"line is modelled with key blocks of {like.tiling.block_kv}; dashed lines have no splits to set. A "
        f"copy in the same run moved {scaled(copy, 'B/s')}, read plus written."
    )
    found = [cells(row, copy) for row in rows]
    numbers(found, "Recorded decoding times by splits", words=(0, 7), height=330)


def _recorded_lines(timed: list[Decoding], origin: str, colours: Palette) -> list[figures.Line]:
    """A line over the splits that were swept, and a level for what has none to set."""

    def of(name: str, colour: str, *rows: Decoding) -> figures.Line:
        points = [(row.times.p50, row.bytes_per_second) for row in rows]
        return figures.Line(name, origin, colour, [row.splits for row in rows if row.splits], points)

    swept = sorted((row for row in timed if row.splits), key=lambda row: row.splits)
    lines = [of("split keys", colours.k, *swept)] if swept else []
    for row in timed:
        if row.provider == OWN and row.splits is None:
            lines.append(of("auto", colours.ink, row))
        elif row.provider not in (OWN, "copy") and not row.page_size:
            name = implementation({"provider": row.provider, "label": row.label})
            lines.append(of(name, look(row.provider).colour(colours), row))
    return lines


def cells(row: Decoding, copy: float) -> dict[str, str]:
    """A recorded row's figures, beside a copy's bytes per second; 0: not recorded."""
    start = {"implementation": row.label, "splits": str(row.splits or "auto") * (row.provider == OWN)}
    if row.times is None:
        return start | {"note": row.skipped}
    times = {"p20": row.times.p20, "median": row.times.p50, "p80": row.times.p80}
    return {
        **start,
        **{name: seconds_text(seconds) for name, seconds in times.items()},
        "K and V over time": scaled(row.bytes_per_second, "B/s"),
        "of a copy": percent_text(row.bytes_per_second, copy) if copy else "",
        "note": "",
    }

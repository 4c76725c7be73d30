"""Decoding over the number of splits, modelled and recorded: on Decoding, and on Speed for split keys."""

from collections.abc import Mapping

from app.elements import plot
from app.figures import decoding as figures
from app.figures.algorithms import implementation
from app.figures.colours import Palette
from app.figures.curves import Curve
from app.figures.units import bytes_text, counted, heads_text, seconds_text
from engine.algorithms import split_kv
from engine.experiment import Experiment
from engine.model.simulation import Simulation, simulate
from engine.problem.hardware import gpu_named
from engine.recordings.recording import Recording
from engine.studies import decoding as studies

OWN = split_kv.ALGORITHM.key
TONES = ("q", "v", "o", "violet", "lime", "rose", "s")  # of those that choose their splits by themselves


def modelled(found: Mapping[int, Simulation], dash: str = "solid") -> Curve:
    """The modelled times over the number of splits."""
    return Curve({splits: one.modelled.seconds for splits, one in found.items()}, "k", dash, " splits")


def level(seconds: float, tone: str, dash: str = "dash") -> Curve:
    """A time that no number of splits changes."""
    return Curve(dict.fromkeys((studies.SPLITS[0], studies.SPLITS[-1]), seconds), tone, dash)


def recorded(recording: Recording, decoding: Experiment, colours: Palette) -> None:
    """What was recorded over the splits at the nearest number of keys, its model, and its rivals."""
    rows = [row for row in studies.recorded_near(recording, decoding) if row.times is not None]
    if not rows:
        return
    problem, gpu = rows[0].problem, gpu_named(recording.device.gpu)
    like = studies.recorded_decoding(rows, (gpu or decoding.gpu).key)
    swept = {row.splits: row.times.p50 for row in sorted(rows, key=lambda row: row.splits or 0) if row.splits}
    lines = {"split keys": Curve(swept, "k", said=" splits")} if swept else {}
    if gpu:
        lines["the same, modelled"] = modelled(studies.by_splits(like), "dot")
    others, tones = (row for row in rows if not row.splits and not row.page_size), iter(TONES)
    for row in others:
        if row.provider == "copy":
            seconds = studies.seconds_at(simulate(like), row.bytes_per_second)
            lines["K and V at a copy's speed"] = level(seconds, "bad")
        elif row.provider == OWN:
            lines["the kernel's own choice"] = level(row.times.p50, "ink")
        else:
            name = implementation({"provider": row.provider, "label": row.label})
            lines[name] = level(row.times.p50, next(tones))
    plot(
        f"{recording.heading}: {problem.seq_kv:,} keys",
        figures.times(lines, None, colours),
        f"One query with {heads_text(problem.heads, problem.kv_heads)}, d {problem.head_dim}, "
        f"{problem.dtype}, reads {bytes_text(studies.key_reads(simulate(like)))} of K and V. The dotted line "
        f"is modelled with key blocks of {like.tiling.block_kv}; dashed lines have no splits to set.",
        key="recorded decoding",
    )


def this_cache(decoding: Experiment, colours: Palette) -> None:
    """The modelled time of a scenario over the number of splits, and what limits it."""
    found, splits = studies.by_splits(decoding), decoding.tiling.splits
    # of the data sheet, as reads come nearer to it than a copy does (an H200's: 4.46 TB/s of 4.8, and 4.27)
    least = studies.seconds_at(simulate(decoding), decoding.gpu.memory_bytes_per_second)
    best, now = studies.fastest(found), found[splits].modelled
    merge = "One split needs no second kernel."
    if "combine" in now.parts:
        merge = f"A second kernel merges them, which takes {seconds_text(now.parts['combine'])} of that."
    lines = {"split keys": modelled(found), "K and V at the memory's peak": level(least, "bad")}
    plot(
        "This cache",
        figures.times(lines, splits, colours),
        f"With {counted(splits, 'split')} (dotted) it takes {seconds_text(now.seconds)}; fastest are "
        f"{best:,}, with {seconds_text(found[best].modelled.seconds)}. {merge}",
        after=f", {decoding.gpu.name}, modelled",
    )

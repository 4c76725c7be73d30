"""Measured rows beside modelled ones: the same figures of both, and where they stand under the roofline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from engine.experiment import OFFERED, Experiment
from engine.hardware import GPUS, Gpu
from engine.measuring.bench import field_flops
from engine.simulation import simulate
from engine.survey import OverLength, at_length

BASELINE = "eager"  # what a speed-up is a speed-up over: PyTorch's unfused attention
# what moves what; all others move what flash2 moves
ALIKE = {"eager": "standard", "standard": "standard", "flash1": "flash1", "flash3": "flash3"}

Row = dict[str, Any]


def measured_rows(rows: Iterable[Row]) -> list[Row]:
    """The rows that have a time, with the speed-up over unfused PyTorch at that length, if it was timed."""
    timed = [row for row in rows if row["skipped"] is None]
    base = {row["keys"]: row["p50"] for row in timed if row["provider"] == BASELINE}
    return [
        {**row, "speedup": base[row["keys"]] / row["p50"] if row["keys"] in base else None} for row in timed
    ]


def modelled_rows(survey: OverLength) -> list[Row]:
    """The modelled times of every algorithm over the length, in the same figures as measured rows."""
    return [
        modelled_row(simulation.experiment, keys)
        for simulations in survey.simulations.values()
        for keys, simulation in zip(survey.lengths, simulations, strict=True)
    ]


def modelled_row(experiment: Experiment, keys: int) -> Row:
    """The modelled time of one experiment; the speed-up is over the standard algorithm."""
    problem, seconds = experiment.problem, simulate(experiment).modelled.seconds
    return {
        "provider": experiment.algorithm,
        "keys": keys,
        "p50": seconds,
        "tflops": field_flops(problem) / seconds / 1e12,
        "tokens_per_second": problem.batch * problem.seq_q / seconds,
        "speedup": simulate(experiment.changed(algorithm="standard")).modelled.seconds / seconds,
    }


def intensity(experiment: Experiment, provider: str, keys: int) -> float:
    """FLOPs, as the field counts them, a modelled DRAM byte, of what a provider runs at a length."""
    algorithm = ALIKE.get(provider, "flash2")
    simulation = simulate(at_length(experiment.changed(algorithm=algorithm), keys))
    return field_flops(simulation.experiment.problem) / simulation.traffic.dram.total


def under_roof(experiment: Experiment, rows: Iterable[Row]) -> list[Row]:
    """The rows with their intensity, FLOP/byte, modelled."""
    return [{**row, "intensity": intensity(experiment, row["provider"], row["keys"])} for row in rows]


def pairs(experiment: Experiment, rows: Iterable[Row]) -> list[Row]:
    """The rows that have a model, with the modelled seconds of the same algorithm and length beside them."""
    modelled = []
    for row in rows:
        if row["provider"] in OFFERED:
            like = at_length(experiment.changed(algorithm=row["provider"]), row["keys"])
            what = f"{row['label']}, N = {row['keys']:,}"
            seconds = simulate(like).modelled.seconds
            modelled.append({**row, "modelled": seconds, "origin": "measured here", "what": what})
    return modelled


def gpu_named(name: str) -> Gpu | None:
    """The preset of a GPU by the name that its driver gives it; None if there is none."""
    words = re.split(r"\W+", name.lower())
    joined = {"".join(words[start : start + 2]) for start in range(len(words))}
    return next((gpu for gpu in GPUS.values() if gpu.key in joined.union(words)), None)


def same_machine(gpu: Gpu, row: Mapping[str, Any]) -> bool:
    """Whether a row was measured on the GPU that the model is of."""
    return bool(row["cuda"]) and gpu_named(row["device"]) == gpu

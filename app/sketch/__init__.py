"""A prediction that a reader or a room draws, then the truth: a curve over the length, or a way by tiles."""

from collections.abc import Sequence
from math import log2
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from app.canvas.moving import Moving
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.schedule.step import Operation
from engine.studies.survey import seconds_over_length

SKETCH = Moving("sketch", Path(__file__).with_name("sketch.html"), "A prediction that is drawn")
SHORTEST, LONGEST = 1024, 16_384  # tokens, over which a curve is drawn by factors of two
POINTS, HIGH = 64, 1000  # points that are drawn at most; a curve's are equally far apart, each from 0 to HIGH
Drawn = Sequence[int]


def asked() -> dict[str, Any]:
    """The empty picture: how many times the time of the first length a longer sequence takes."""
    lengths = [SHORTEST * 2**n for n in range(int(log2(LONGEST / SHORTEST)) + 1)]
    top = (LONGEST // SHORTEST) ** 3  # room for what grows faster than any answer
    marks = [[4**n, HIGH * log2(4**n) / log2(top)] for n in range(int(log2(top) / 2) + 1)]
    says = "Draw with a finger or the pointer. Each line is 4 × the last."
    about = "Time over the number of tokens."
    return _empty(about, says) | {"lengths": lengths, "marks": marks, "high": HIGH}


def told(experiment: Experiment, cloud: Sequence[Drawn]) -> dict[str, Any]:
    """The same with the modelled truth of an experiment, and the curves that a room has drawn."""
    data = asked()
    seconds = seconds_over_length(experiment, data["lengths"])
    power = data["marks"][-1][1] / log2(data["marks"][-1][0])  # of HIGH for each factor of two
    truth = [power * log2(each / seconds[0]) for each in seconds]
    took = f"{LONGEST:,} tokens take {seconds[-1] / seconds[0]:.0f} times as long as {SHORTEST:,} (modelled)"
    if cloud:
        guessed = 2 ** (median(curve[-1] for curve in cloud) / power)
        took += f"; half of the {len(cloud)} who drew said {guessed:.0f} times or more"
    return data | {"truth": truth, "cloud": list(map(list, cloud)), "says": f"{took}."}


def way_asked(experiment: Experiment) -> dict[str, Any]:
    """The empty picture: the tiles of a head, through which its kernel's way is drawn."""
    schedule = simulate(experiment).schedule
    says = "Draw with a finger or the pointer."
    about = "The order in which tiles are visited."
    return _empty(about, says) | {"tiles": [len(schedule.query_rows), len(schedule.key_rows)]}


def way_told(experiment: Experiment, cloud: Sequence[Drawn]) -> dict[str, Any]:
    """The same with the way of the experiment's schedule, and the ways that a room has drawn."""
    data, steps = way_asked(experiment), simulate(experiment).schedule.columns
    visits = steps.operation == Operation.SCORES
    rows, keys = data["tiles"]
    truth = np.ravel_multi_index((steps.query_block[visits], steps.key_block[visits]), (rows, keys)).tolist()
    says = f"{len(truth)} of {rows * keys} tiles (counted)"
    if cloud:
        same = sum(list(way) == truth for way in cloud)
        tiles = sum(set(way) == set(truth) for way in cloud)
        says += f"; of the {len(cloud)} who drew, {tiles} chose these tiles, and {same} this order"
    return data | {"truth": truth, "cloud": list(map(list, cloud)), "says": f"{says}."}


def _empty(about: str, says: str) -> dict[str, Any]:
    return {"about": about, "says": says, "truth": [], "cloud": []}

"""A prediction that is drawn: a curve over the length, by a reader or a room, then the truth below it."""

from collections.abc import Sequence
from math import log2
from pathlib import Path
from statistics import median
from typing import Any

from app.canvas.moving import Moving
from engine.experiment import Experiment
from engine.studies.survey import seconds_over_length

SKETCH = Moving("sketch", Path(__file__).with_name("sketch.html"), "A predicted curve")
SHORTEST, LONGEST = 1024, 16_384  # tokens, over which it is drawn by factors of two
POINTS, HIGH = 64, 1000  # a curve's points at most, equally far apart, each from 0 to HIGH
Curve = Sequence[int]


def asked() -> dict[str, Any]:
    """The empty picture: how many times the time of the first length a longer sequence takes."""
    lengths = [SHORTEST * 2**n for n in range(int(log2(LONGEST / SHORTEST)) + 1)]
    top = (LONGEST // SHORTEST) ** 3  # room for what grows faster than any answer
    marks = [[4**n, HIGH * log2(4**n) / log2(top)] for n in range(int(log2(top) / 2) + 1)]
    about = "Draw with a finger or the pointer; ↑ and ↓ tilt a straight line. Each line is 4 × the last."
    return {"lengths": lengths, "marks": marks, "high": HIGH, "truth": [], "cloud": [], "about": about}


def told(experiment: Experiment, cloud: Sequence[Curve]) -> dict[str, Any]:
    """The same with the modelled truth of an experiment, and the curves that a room has drawn."""
    data = asked()
    seconds = seconds_over_length(experiment, data["lengths"])
    power = data["marks"][-1][1] / log2(data["marks"][-1][0])  # of HIGH for each factor of two
    data |= {
        "truth": [power * log2(each / seconds[0]) for each in seconds],
        "cloud": [list(c) for c in cloud],
    }
    took = f"{LONGEST:,} tokens take {seconds[-1] / seconds[0]:.0f} times as long as {SHORTEST:,} (modelled)"
    if cloud:
        guessed = 2 ** (median(curve[-1] for curve in cloud) / power)
        took += f"; half of the {len(cloud)} who drew said {guessed:.0f} times or more"
    return data | {"about": f"{took}."}

"""The words and numbers of a tour's step: every number is computed for the scenario on the screen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log

from app.figures.units import bytes_text, chip_bytes_text, scaled, seconds_text
from engine.experiment import Experiment
from engine.studies.answers import BYTES, CHIP_BYTES, FLOPS, SECONDS, Answer, answer

TIMES, FACTOR, SHARE = "times", "×", "%"  # units of a step: how often, how many times as much, what part
OFTEN = ("never", "once", "twice")


def options(choices: Sequence[str], experiment: Experiment) -> list[Answer]:
    """The choices for a scenario, in order; those that come to the same are one. Raises AnswerError."""
    found = dict.fromkeys(
        Answer(value.value, value.unit, "") for value in (answer(choice, experiment) for choice in choices)
    )
    return list(found)


def nearest(choices: Sequence[Answer], right: Answer) -> int:
    """Which of the choices the answer is closest to, as a ratio."""
    return min(range(len(choices)), key=lambda index: apart(choices[index], right))


def apart(one: Answer, other: Answer) -> float:
    """How far two values are apart, as the logarithm of their ratio."""
    if one.value <= 0 or other.value <= 0:
        return 0.0 if one.value == other.value else float("inf")
    return abs(log(one.value / other.value))


def filled(words: str, experiment: Experiment) -> str:
    """Words with every {expression} replaced by its value and unit, also "{} times"; raises AnswerError."""
    pattern = rf"(?<!\\)\{{([^{{}}]+)\}}(?: ({TIMES}))?"
    return re.sub(pattern, lambda found: text(answer(found[1], experiment), found[2] or ""), words)


def text(value: Answer, unit: str = "", figures: int = 3) -> str:
    """A value with its unit, the step's own where it is a plain number; `figures` digits of a fraction."""
    if value.unit == BYTES:
        return bytes_text(value.value)
    if value.unit == CHIP_BYTES:
        return chip_bytes_text(value.value)
    if value.unit == SECONDS:
        return seconds_text(value.value)
    if value.unit == FLOPS:
        return scaled(value.value, value.unit)
    if value.unit:
        return f"{_number(value.value, figures)} {value.unit}"
    if unit == TIMES and value.value in range(len(OFTEN)):
        return OFTEN[int(value.value)]
    if unit.startswith(SHARE):
        return f"{_number(100 * value.value, figures)}{unit}"
    number = _number(value.value, figures)
    return f"{number}{unit}" if unit == FACTOR else f"{number} {unit}".rstrip()


def _number(value: float, figures: int) -> str:
    whole = float(value).is_integer() or float(f"{value:.{figures}g}") >= 100
    return f"{value:,.0f}" if whole else f"{value:.{figures}g}"

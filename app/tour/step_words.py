"""The words and numbers of a tour's step: every number is computed for the scenario on the screen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import log

from app.figures.units import bytes_text, chip_bytes_text, power_text, scaled, seconds_text
from engine.experiment import Experiment
from engine.studies.answers import Answer, answer, holds
from engine.studies.quantities import BYTES, CHIP_BYTES, FLOPS, RATE, SECONDS

TIMES, FACTOR, SHARE = "times", "×", "%"  # units of a step: how often, how many times as much, what part
OFTEN = ("never", "once", "twice")
TEXTS = {
    **{BYTES: bytes_text, CHIP_BYTES: chip_bytes_text, SECONDS: seconds_text},
    **{unit: partial(scaled, unit=unit) for unit in (FLOPS, RATE)},
}
CHOICE_FIGURES = 2  # a choice to predict from is rounded more than its answer


@dataclass(frozen=True)
class Choice:
    """What the room may choose.

    Attributes:
        expression: its value; where it has words, the condition under which they are true.
        label: its words; empty where the value is shown.
        reply: what is said to those who choose it, with {expressions}; may be empty.
        line: where it stands in its file.
    """

    expression: str
    label: str = ""
    reply: str = ""
    line: int = 0


@dataclass(frozen=True)
class Option:
    """A choice as it is shown for a scenario: its words, the reply, and how far it is from the answer."""

    text: str
    reply: str
    distance: float

    def right(self, options: Sequence[Option]) -> bool:
        """Whether it is the one that comes nearest, of those that are shown."""
        return self is min(options, key=lambda option: option.distance)


def options(choices: Sequence[Choice], expression: str, unit: str, experiment: Experiment) -> list[Option]:
    """The choices for a scenario, in order; those that come to the same are one. Raises AnswerError."""
    if all(choice.label for choice in choices):
        return [
            Option(
                filled(choice.label, experiment),
                filled(choice.reply, experiment),
                0.0 if holds(choice.expression, experiment) else float("inf"),
            )
            for choice in choices
        ]
    right, found = answer(expression, experiment), {}
    for choice in choices:
        value = answer(choice.expression, experiment)
        shown = Option(
            text(value, unit, CHOICE_FIGURES), filled(choice.reply, experiment), apart(value, right)
        )
        found.setdefault((value.value, value.unit), shown)
    return list(found.values())


def right(found: Sequence[Option]) -> str:
    """The words of the one that is right; empty where the room draws and there are none."""
    return next((option.text for option in found if option.right(found)), "")


def apart(one: Answer, other: Answer) -> float:
    """How far two values are apart, as the logarithm of their ratio."""
    if one.value <= 0 or other.value <= 0:
        return 0.0 if one.value == other.value else float("inf")
    return abs(log(one.value / other.value))


def filled(words: str, experiment: Experiment) -> str:
    """Words with every {expression} replaced by its value and unit, also "{} times" and "{}%"."""
    pattern = rf"(?<!\\)\{{([^{{}}]+)\}}(?: ({TIMES})|({SHARE}))?"
    return re.sub(
        pattern, lambda found: text(answer(found[1], experiment), found[2] or found[3] or ""), words
    )


def text(value: Answer, unit: str = "", figures: int = 3) -> str:
    """A value with its unit, the step's own where it is a plain number; `figures` digits of a fraction."""
    if value.unit in TEXTS:
        return TEXTS[value.unit](value.value)
    if value.unit:
        return f"{_number(value.value, figures)} {value.unit}"
    if unit == TIMES and value.value in range(len(OFTEN)):
        return OFTEN[int(value.value)]
    if unit.startswith(SHARE):
        return f"{_number(100 * value.value, figures)}{unit}"
    number = _number(value.value, figures)
    return f"{number}{unit}" if unit.startswith(FACTOR) else f"{number} {unit}".rstrip()


def _number(value: float, figures: int) -> str:
    if 0 < abs(value) < 1e-3:
        return power_text(value)
    whole = float(value).is_integer() or float(f"{value:.{figures}g}") >= 100
    return f"{value:,.0f}" if whole else f"{value:.{figures}g}"

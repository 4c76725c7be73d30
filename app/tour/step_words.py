"""The words and numbers of a tour's step: every number is computed for the scenario on the screen."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import log
from typing import TYPE_CHECKING

from app.figures.units import bytes_text, chip_bytes_text, power_text, scaled, seconds_text
from engine.experiment import Experiment
from engine.studies.answers import Answer, answer, holds
from engine.studies.quantities import BYTES, CHIP_BYTES, FLOPS, SECONDS

if TYPE_CHECKING:
    from app.tour.file import Step

TIMES, FACTOR, SHARE = "times", "×", "%"  # units of a step: how often, how many times as much, what part
OFTEN = ("never", "once", "twice")
TEXTS = {
    **{BYTES: bytes_text, CHIP_BYTES: chip_bytes_text, SECONDS: seconds_text},
    FLOPS: partial(scaled, unit=FLOPS),
}
CHOICE_FIGURES = 2  # a choice to predict from is rounded more than its answer


@dataclass(frozen=True)
class Choice:
    """What the room may choose."""

    expression: str  # its value; where it has words, the condition under which they are true
    label: str = ""  # its words; empty where the value is shown
    reply: str = ""  # what is said to those who choose it, with {expressions}
    line: int = 0  # where it stands in its file


@dataclass(frozen=True)
class Option:
    """A choice as it is shown for a scenario: its words, the reply, how far it is from the answer."""

    text: str
    reply: str
    distance: float
    right: bool = False  # whether it comes nearest, of those that are shown


class Said:
    """What a step says for a scenario, each part computed when it is first asked for; raises AnswerError."""

    def __init__(self, step: Step, experiment: Experiment):
        self.step, self.experiment = step, experiment

    def filled(self, words: str) -> str:
        """Some of its words with their numbers."""
        return filled(words, self.experiment)

    @cached_property
    def answer(self) -> Answer | None:
        """The number behind its answer, if there is one."""
        return answer(self.step.answer, self.experiment) if self.step.answer else None

    @property
    def value(self) -> str:
        """That number with its unit; empty where there is none."""
        return text(self.answer, self.step.unit) if self.answer else ""

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """Its choices, in order; those that come to the same are one."""
        found: dict[object, Option] = {}
        for key, option in map(self.option, self.step.choices):
            found.setdefault(key, option)
        nearest = min(found.values(), key=lambda option: option.distance, default=None)
        return tuple(replace(option, right=option is nearest) for option in found.values())

    def option(self, choice: Choice) -> tuple[object, Option]:
        """What a choice comes to, and how it is shown."""
        reply = self.filled(choice.reply)
        if choice.label:
            off = 0.0 if holds(choice.expression, self.experiment) else float("inf")
            return choice.label, Option(self.filled(choice.label), reply, off)
        value = answer(choice.expression, self.experiment)
        shown = text(value, self.step.unit, CHOICE_FIGURES)
        return (value.value, value.unit), Option(shown, reply, apart(value, self.answer))

    @property
    def right(self) -> str:
        """The words of the choice that is right; empty where the room draws and there are none."""
        return next((option.text for option in self.options if option.right), "")


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

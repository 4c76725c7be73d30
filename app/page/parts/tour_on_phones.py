"""A tour's step as a room of phones sees it, and the room's votes on the presenter's screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from app import scenario
from app.room import screen
from app.room.room import Shown
from app.room.votes import Question
from app.tour import step_words
from app.tour.file import Step
from engine.experiment import Experiment
from engine.studies.answers import AnswerError


def publish(steps: Sequence[Step], number: int, tally: Sequence[int]) -> list[int] | None:
    """Show a step to the room's phones; its votes by choice, of phones and keys, or None without a room.

    Args:
        number: of the step, from 1 on.
        tally: whether its answer is shown, then the votes that were counted with keys.
    """
    if not screen.opened():
        return None
    step, experiment, told = steps[number - 1], scenario.current(), bool(tally[0])
    place = f"step {number} of {len(steps)}"
    picture = _picture(number, experiment, told)
    shown = Shown(step.title, place, screen.described(experiment), picture)
    if step.question:
        with suppress(AnswerError):  # the page says that it cannot be computed
            shown = _asked(shown, step, experiment, tally)
    if not told:
        after = steps[number : number + 1]
        ahead = [_picture(number, experiment, True)] * bool(step.question)
        ahead += [_picture(number + 1, each.experiment, False) for each in after]
        shown = replace(shown, ahead=tuple(ahead))
    return screen.publish(shown)


def _picture(number: int, experiment: Experiment, told: bool) -> Mapping[str, Any]:
    return {
        "page": "tour",
        "values": scenario.url_values(experiment),
        "asked": {"tour": scenario.place("tour"), "step": number, "told": told},
    }


def _asked(shown: Shown, step: Step, experiment: Experiment, tally: Sequence[int]) -> Shown:
    """The same with the step's question, its choices and, once it is told, its answer."""
    options = step_words.options(step.choices, step.answer, step.unit, experiment)
    text = step_words.filled(step.question, experiment)
    return replace(
        shown,
        question=Question(shown.place, text, tuple(option.text for option in options)),
        asked=screen.words(text),
        choices=tuple(screen.words(option.text) for option in options),
        told=bool(tally[0]),
        right=next((index for index, option in enumerate(options) if option.right(options)), -1),
        replies=tuple(screen.words(option.reply) for option in options),
        hands=tuple(tally[1 : 1 + len(options)]),
    )

"""The Tour page: one screen, one idea, one question whose answer is computed for the scenario on screen."""

from __future__ import annotations

import streamlit as st

from app import scenario, theme
from app.presenter import keys
from app.presenter.mode import presenting
from app.tour import file, words
from app.tour.file import Step, TourError
from app.tour.pictures import PICTURES
from engine.experiment import Experiment
from engine.studies.answers import AnswerError, answer

FIRST = "attention"
MOST_CHOICES, CHOICE_FIGURES = 5, 2  # a choice to predict from is rounded more than its answer
KEYS = {
    **dict.fromkeys(("ArrowRight", " ", "PageDown"), "tour_next"),
    **dict.fromkeys(("ArrowLeft", "PageUp"), "tour_back"),
    **{str(choice + 1): f"tour_choice_{choice}" for choice in range(MOST_CHOICES)},
}
HELP = "Keys: → or Space goes on, ← goes back, 1 to 5 vote, Enter plays, p presents."


def show() -> None:
    """Draw the step that the link names."""
    name = _chosen()
    try:
        shown = file.load(name)
    except TourError as error:
        st.text(f"{error}.")
        return
    number = _number(len(shown.steps))
    step = shown.steps[number - 1]
    scenario.arrive(f"{name} {number}", step.experiment)
    if not presenting():
        st.caption(f"**{shown.title}.** {shown.about} {HELP}")
    _screen(step, number, len(shown.steps), _tally(name, number))


def _chosen() -> str:
    """The tour of the link; a choice of tours where there are several."""
    known, linked = file.names(), scenario.place("tour")
    wanted = linked or FIRST
    if wanted not in known:
        must = f"it must be one of {', '.join(known)}"
        st.text(f"The link's tour is {wanted!r:.60}; {must}. Shown instead: {FIRST}.")
        wanted = FIRST
    if len(known) > 1 and not presenting():
        index = known.index(wanted) if wanted in known else None
        wanted = st.selectbox("Tour", known, index, key=f"tour_choice {wanted}") or wanted
    if linked not in ("", wanted):
        scenario.go(step="1")
    scenario.go(tour=wanted)
    return wanted


def _number(steps: int) -> int:
    """The step of the link, within the tour."""
    text = scenario.place("step")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if text and not 1 <= number <= steps:
        st.text(f"The link's step is {text!r:.40}; it must be a whole number from 1 to {steps}.")
    number = min(max(number, 1), steps)
    scenario.go(step=str(number))
    return number


def _tally(name: str, number: int) -> list[int]:
    """Of one step: whether its answer is shown, then the votes for each choice."""
    return scenario.kept(f"tally {name} {number}", [0] * (1 + MOST_CHOICES))


def _screen(step: Step, number: int, steps: int, tally: list[int]) -> None:
    """Words, question and answer on the left, the picture on the right."""
    experiment = scenario.current()
    st.header(step.title, anchor=False)
    try:
        st.markdown(words.filled(step.before, experiment))
        left, picture = st.columns([1, 1.8], gap="large")
        with left, st.container(key="tour_words"):
            _question(step, experiment, tally)
            _way(number, steps, tally)
            if tally[0]:
                _answer(step, experiment)
        with picture, st.container(key="tour_picture"):
            PICTURES[step.picture](experiment, theme.colours())
    except AnswerError as error:
        st.text(f"This step cannot be computed for the scenario: {error}.")
    keys.bind(KEYS, key="tour_keys")


def _question(step: Step, experiment: Experiment, tally: list[int]) -> None:
    """What the room predicts: a button a choice, each counting its votes."""
    choices = words.options(step.choices, experiment)
    right = words.nearest(choices, answer(step.answer, experiment)) if tally[0] else None
    st.subheader(step.question, anchor=False)
    for index, choice in enumerate(choices):
        votes = tally[1 + index]
        counted = f" · {votes} {'vote' if votes == 1 else 'votes'}" if votes else ""
        st.button(
            f"{index + 1} &nbsp; **{words.text(choice, step.unit, CHOICE_FIGURES)}**{counted}",
            key=f"tour_choice_{index}",
            type="primary" if index == right else "secondary",
            width="stretch",
            on_click=_count,
            args=(tally, 1 + index),
        )


def _way(number: int, steps: int, tally: list[int]) -> None:
    """Back, and on: first to the answer, then to the next step."""
    label, act, arguments = "Next", _go, (number + 1,)
    if not tally[0]:
        label, act, arguments = "The answer", _count, (tally, 0)
    ended = bool(tally[0]) and number == steps
    label = "The end" if ended else label
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Back", key="tour_back", disabled=number == 1, on_click=_go, args=(number - 1,))
        st.button(label, key="tour_next", disabled=ended, width=160, on_click=act, args=arguments)
        st.markdown(f":gray[{number} of {steps}]", width="content")


def _count(tally: list[int], index: int) -> None:
    tally[index] += 1


def _go(number: int) -> None:
    scenario.go(step=str(number))


def _answer(step: Step, experiment: Experiment) -> None:
    """The computed answer, where it comes from, and the words that explain it."""
    computed = answer(step.answer, experiment)
    origin = {
        "given": "from the scenario",
        "counted": "counted by the scheduler",
        "modelled": f"modelled for the {experiment.gpu.name}",
    }[computed.origin]
    st.metric(f"Answer, {origin}", words.text(computed, step.unit))
    if step.formula:
        st.latex(step.formula)
    st.markdown(words.filled(step.after, experiment))
    if experiment != step.experiment:
        st.caption("You have changed the step's scenario: the numbers follow it, the words do not.")

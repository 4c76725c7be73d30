"""The Tour page: one screen, one idea, one question whose answer is computed for the scenario on screen."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app import inside, keys, scenario, theme, tour
from app.figures import roofline as roofs
from app.figures import softmax as softmax_figures
from app.figures import traffic as traffic_figures
from app.figures.base import CONFIG, NAMES
from app.figures.colours import Palette
from app.figures.units import share_text
from app.player import player
from app.player.payload import begun, build
from app.tour import Step, TourError
from engine.algorithms import flash3
from engine.experiment import Experiment
from engine.model.footprint import largest_context
from engine.model.roofline import roofline
from engine.model.warp_groups import inside as lanes_of
from engine.studies.answers import AnswerError, answer
from engine.studies.comparison import modelled_rows, under_roof
from engine.studies.survey import by_algorithm, over_length
from engine.trace.softmax import PRESETS, naive_sums, online_steps

FIRST = "attention"
CHART_HEIGHT = 370  # px at the usual scale
MOST_CHOICES, CHOICE_FIGURES = 5, 2  # a choice to predict from is rounded more than its answer
KEYS = {
    **dict.fromkeys(("ArrowRight", " ", "PageDown"), "tour_next"),
    **dict.fromkeys(("ArrowLeft", "PageUp"), "tour_back"),
    **{str(choice + 1): f"tour_choice_{choice}" for choice in range(MOST_CHOICES)},
}
HELP = "Keys: → or Space on, ← back, 1 to 5 vote, Enter plays, p presents."
ROW, ROW_BLOCK, ROW_STEP = "rising", 4, 3  # the row of scores on screen: which, in what steps, how many done


def show() -> None:
    """Draw the step that the link names."""
    name = _chosen()
    try:
        shown = tour.load(name)
    except TourError as error:
        st.text(f"{error}.")
        return
    number = _number(len(shown.steps))
    step = shown.steps[number - 1]
    scenario.arrive(f"{name} {number}", step.experiment)
    if not scenario.presenting():
        st.caption(f"**{shown.title}.** {shown.about} {HELP}")
    _screen(step, number, len(shown.steps), _tally(name, number))


def _chosen() -> str:
    """The tour of the link; a choice of tours where there are several."""
    known, linked = tour.names(), scenario.place("tour")
    wanted = linked or FIRST
    if wanted not in known:
        must = f"it must be one of {', '.join(known)}"
        st.text(f"The link's tour is {wanted!r:.60}; {must}. Shown instead: {FIRST}.")
        wanted = FIRST
    if len(known) > 1 and not scenario.presenting():
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
    return scenario.tally(f"{name} {number}", 1 + MOST_CHOICES)


def _screen(step: Step, number: int, steps: int, tally: list[int]) -> None:
    """Words, question and answer on the left, the picture on the right."""
    experiment = scenario.current()
    st.header(step.title, anchor=False)
    try:
        st.markdown(tour.told(step.before, experiment))
        words, picture = st.columns([1, 1.8], gap="large")
        with words, st.container(key="tour_words"):
            _question(step, experiment, tally)
            _way(number, steps, tally)
            if tally[0]:
                _answer(step, experiment)
        with picture, st.container(key="tour_picture"):
            PICTURES[step.picture](experiment, theme.colours())
    except AnswerError as error:
        st.text(f"Not for this scenario: {error}.")
    keys.bind(KEYS, key="tour_keys")


def _question(step: Step, experiment: Experiment, tally: list[int]) -> None:
    """What the room predicts: a button a choice, each counting its votes."""
    choices = tour.options(step, experiment)
    right = tour.nearest(choices, answer(step.answer, experiment)) if tally[0] else None
    st.subheader(step.question, anchor=False)
    for index, choice in enumerate(choices):
        votes = tally[1 + index]
        counted = f" · {votes} {'vote' if votes == 1 else 'votes'}" if votes else ""
        st.button(
            f"{index + 1} &nbsp; **{tour.text(choice, step.unit, CHOICE_FIGURES)}**{counted}",
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
    st.metric(f"Answer, {origin}", tour.text(computed, step.unit))
    if step.formula:
        st.latex(step.formula)
    st.markdown(tour.told(step.after, experiment))
    if experiment != step.experiment:
        st.caption("The scenario is no longer the step's: the numbers follow it, the words do not.")


def _chart(figure, alt: str) -> None:
    figure.layout.height = max(figure.layout.height, CHART_HEIGHT * theme.colours().scale)
    st.plotly_chart(figure, theme=None, config=CONFIG, key=alt, alt=alt)


def _player(experiment: Experiment, colours: Palette) -> None:
    player(begun(build(experiment)), key=f"tour {scenario.place('step')}")


def _race(experiment: Experiment, colours: Palette) -> None:
    player(begun(build(experiment), race=True), key=f"tour {scenario.place('step')}")


def _bytes(experiment: Experiment, colours: Palette) -> None:
    st.markdown(f"**Bytes by tensor and direction**, all heads, DRAM, modelled, {experiment.gpu.name}")
    st.html(traffic_figures.by_tensor(by_algorithm(experiment), "dram", colours))


def _length(experiment: Experiment, colours: Palette) -> None:
    st.markdown("**Bytes over the sequence length**: DRAM, modelled")
    survey, keys_now = over_length(experiment), experiment.problem.seq_kv
    _chart(traffic_figures.over_length(survey, "dram", keys_now, colours), "Bytes over the sequence length")


def _memory(experiment: Experiment, colours: Palette) -> None:
    st.markdown("**Memory the tensors take**, modelled")
    largest = {name: largest_context(experiment.changed(algorithm=name)) for name in NAMES}
    survey, keys_now = over_length(experiment), experiment.problem.seq_kv
    _chart(traffic_figures.memory(survey, keys_now, largest, colours), "Memory over the sequence length")


def _roofline(experiment: Experiment, colours: Palette) -> None:
    gpu, problem = experiment.gpu, experiment.problem
    names = "grey standard, amber FlashAttention-1, green FlashAttention-2; filled: this length"
    st.markdown(f"**Roofline** of the {gpu.name}, {problem.dtype}, modelled: {names}")
    model = under_roof(experiment, modelled_rows(over_length(experiment)))
    shape = roofline(gpu, problem.dtype)
    _chart(roofs.roofline(shape, gpu.name, model, [], problem.seq_kv, colours), "Roofline")


def _softmax(experiment: Experiment, colours: Palette) -> None:
    """A short row of scores, half way."""
    scores = np.array(PRESETS[ROW].scores)
    steps, dtype = online_steps(scores, ROW_BLOCK), experiment.problem.dtype
    st.markdown(f"**One row of scores**, {ROW_BLOCK} at a time, after step {ROW_STEP}; computed in float64")
    naive, low = naive_sums(scores, dtype), scenario.presenting()
    figure = softmax_figures.row(scores, steps, ROW_STEP, naive, dtype, colours, low=low)
    _chart(figure, "Scores, weights, sums and rescale factors")


def _inside(experiment: Experiment, colours: Palette) -> None:
    block = lanes_of(experiment, flash3.ALGORITHM.pipeline)
    st.markdown(
        f"**Inside one block of FlashAttention-3**, {experiment.gpu.name}, modelled: tensor cores "
        f"{share_text(block.tensor_busy)} of the time at work, softmax units {share_text(block.softmax_busy)}"
    )
    inside.show(block, key="tour inside")


PICTURES = {
    "player": _player,
    "race": _race,
    "bytes": _bytes,
    "length": _length,
    "memory": _memory,
    "roofline": _roofline,
    "softmax": _softmax,
    "inside": _inside,
}

"""The end of a tour: where to go from here, and the whole tour as a file to take home."""

from __future__ import annotations

import streamlit as st

from app import scenario
from app.figures.colours import Palette
from app.tour import step_words
from app.tour.file import Step, Tour, load
from engine.experiment import Experiment
from engine.studies.answers import answer

LINKS = """
**Read** FlashAttention [1](https://arxiv.org/abs/2205.14135),
[2](https://arxiv.org/abs/2307.08691), [3](https://arxiv.org/abs/2407.08608),
[online softmax](https://arxiv.org/abs/1805.02867); **watch** [tiles](tiles), [softmax](softmax),
[backward](backward), [decoding](decoding); **measure** [bytes](traffic), [times](speed),
[blocks on SMs](gpu), [claims](claims)
"""


def show(experiment: Experiment, colours: Palette) -> None:
    """Links, and the file of the tour on the screen."""
    name = scenario.place("tour")
    tour = load(name)
    st.markdown(LINKS)
    st.download_button(
        "Take the tour home",
        text(tour),
        f"{name}-tour.md",
        "text/markdown",
        on_click="ignore",
        key="tour_file",
    )


def text(tour: Tour) -> str:
    """The tour as Markdown: every question with its answer and the words that explain it."""
    return "\n\n".join([f"# {tour.title}", tour.about.strip(), *map(_of_step, tour.steps)]) + "\n"


def _of_step(step: Step) -> str:
    parts = [f"## {step.title}", step_words.filled(step.before, step.experiment)]
    if step.question:
        options = step_words.options(step.choices, step.answer, step.unit, step.experiment)
        right = next(option for option in options if option.right(options))
        parts.append(f"**{step_words.filled(step.question, step.experiment)}**")
        parts.append("\n".join(f"- {option.text}" for option in options))
        told = [right.text] if step.choices[0].label else []
        if step.answer:
            found = answer(step.answer, step.experiment)
            told.append(f"{step_words.text(found, step.unit)} ({found.origin})")
        parts.append(f"Answer: {', '.join(told)}.")
    if step.formula:
        parts.append(f"$$ {step.formula} $$")
    return "\n\n".join(part for part in [*parts, step_words.filled(step.after, step.experiment)] if part)

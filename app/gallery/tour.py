"""A tour as one page: every step with its votes, its answer and its picture."""

from __future__ import annotations

from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from app.canvas.moving import Moving
from app.figures import roofline as roofs
from app.figures import traffic
from app.figures.colours import LIGHT
from app.gallery.shell import both, frame, page, sideways, unseen
from app.gallery.svg import chart
from app.gallery.written import written
from app.markup import markdown
from app.markup.formulas import mathml
from app.tour import words
from app.tour.file import Step, load
from app.tour.pictures import PICTURES
from engine.experiment import Experiment
from engine.model.roofline import roofline
from engine.studies.answers import answer
from engine.studies.comparison import modelled_rows, under_roof
from engine.studies.survey import by_algorithm, by_length, largest_contexts

VOTES = Path(__file__).parent / "votes.js"
ABOUT = "Predict each answer, then let it be told: it is computed for the step's scenario."


def tour(name: str) -> dict[str, str]:
    """The tour's page, and the pages that it shows within it, by their files' names."""
    shown, files = load(name), {}
    steps = [_step(step, f"{number}", name, files) for number, step in enumerate(shown.steps, 1)]
    body = f"<h1>{escape(shown.title)}</h1>{''.join(steps)}"
    return {"tour.html": page("Tour", ABOUT, body, VOTES.read_text("utf-8")), **files}


def _step(step: Step, number: str, name: str, files: dict[str, str]) -> str:
    """One step; a moving picture is a file of its own."""
    experiment = step.experiment
    before, after = (markdown.html(words.filled(text, experiment)) for text in (step.before, step.after))
    picture = _picture(step.picture, step, f"tour-{number}.html", name, files)
    title = f"<h2>{number}. {escape(step.title)}</h2>"
    if not step.question:
        return f"<section class='step'>{title}{before}{after}{picture}</section>"
    answer = told(step) + after
    if step.reveals != step.picture:
        answer += _picture(step.reveals, step, f"tour-{number}-answer.html", name, files)
    return (
        f"<section class='step'>{title}{before}{_question(step)}{picture}"
        "<button class='tell' aria-expanded='false'>The answer</button>"
        f"<div class='answer' hidden>{answer}</div></section>"
    )


def _question(step: Step) -> str:
    """The question, and a button for each choice with what is said to those who chose it wrongly."""
    options = words.options(step.choices, step.answer, step.unit, step.experiment)
    buttons = "".join(
        f"<button data-choice='{'right' if option.right(options) else 'wrong'}'>"
        f"<b>{markdown.inline(option.text)}</b><span></span></button>"
        f"<p class='reply' hidden>{markdown.inline(option.reply)}</p>"
        for option in options
    )
    asked = markdown.inline(words.filled(step.question, step.experiment))
    return f"<p class='question'>{asked}</p><div class='choices'>{buttons}</div>"


def told(step: Step) -> str:
    """The number behind the answer, and its formula."""
    words_told = ""
    if step.answer:
        found = answer(step.answer, step.experiment)
        words_told = f"<p class='metric'>{escape(words.text(found, step.unit))}, {found.origin}</p>"
    return words_told + (mathml(step.formula) if step.formula else "")


def _picture(picture: str, step: Step, file: str, name: str, files: dict[str, str]) -> str:
    """A picture of a step; a moving one is a file within the page."""
    text, moved = drawn(picture, step.experiment, name)
    if not moved:
        return text
    moving, data = moved
    files[file] = moving.offline(data, step.title, unseen(step.title))
    return text + frame(file, step.title)


def drawn(picture: str, experiment: Experiment, tour: str) -> tuple[str, tuple[Moving, Any] | None]:
    """What the tour's own function draws, in both themes, and the moving picture, which knows both."""
    write = partial(written, PICTURES[picture], experiment, places={"tour": tour, "step": "1"})
    first = write(colours=LIGHT)
    if first.moving:
        return first.text(), first.moving[0]
    return both(lambda colours: (first if colours is LIGHT else write(colours=colours)).text()), None


def bytes_by_tensor(experiment: Experiment) -> str:
    """Bytes of every tensor that cross DRAM."""
    title = "<p><b>Bytes by tensor and direction</b>, all heads, DRAM, modelled</p>"
    found = by_algorithm(experiment)
    return title + both(lambda colours: sideways(traffic.by_tensor(found, "dram", colours)))


def bytes_by_length(experiment: Experiment) -> str:
    """Bytes that cross DRAM over the sequence length."""
    survey, keys = by_length(experiment), experiment.problem.seq_kv
    alt = "Bytes over the sequence length: DRAM, modelled"
    return f"<p><b>{alt}</b></p>" + both(
        lambda colours: chart(traffic.bytes_by_length(survey, "dram", keys, colours), alt)
    )


def memory_by_length(experiment: Experiment) -> str:
    """Memory that the tensors take over the length, against the GPU's."""
    survey, keys, ends = by_length(experiment), experiment.problem.seq_kv, largest_contexts(experiment)
    alt = "Memory that the tensors take over the sequence length, modelled"
    return f"<p><b>{alt}</b></p>" + both(
        lambda colours: chart(traffic.memory_by_length(survey, keys, ends, colours), alt)
    )


def under_the_roof(experiment: Experiment) -> str:
    """Every algorithm and length under the GPU's roofline."""
    gpu, problem = experiment.gpu, experiment.problem
    points = under_roof(experiment, modelled_rows(by_length(experiment)))
    shape, alt = roofline(gpu, problem.dtype), f"Roofline of the {gpu.name}, {problem.dtype}, modelled"
    return f"<p><b>{alt}</b></p>" + both(
        lambda colours: chart(roofs.roofline(shape, gpu.name, points, [], problem.seq_kv, colours), alt)
    )

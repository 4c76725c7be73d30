"""A tour as one page: every step with its votes, its answer and its picture."""

from __future__ import annotations

from html import escape
from pathlib import Path

from app import inside
from app.figures import roofline as roofs
from app.figures import traffic
from app.gallery import words as markdown
from app.gallery.formulas import mathml
from app.gallery.shell import both, frame, page
from app.gallery.svg import chart
from app.player import moving
from app.player.payload import begun, build
from app.tour import words
from app.tour.file import Step, load
from engine.algorithms import flash3
from engine.experiment import Experiment
from engine.model.roofline import roofline
from engine.model.warp_groups import inside as lanes_of
from engine.studies.answers import answer
from engine.studies.comparison import modelled_rows, under_roof
from engine.studies.survey import by_algorithm, by_length, largest_contexts

VOTES = Path(__file__).parent / "votes.js"
ABOUT = "Predict each answer, then let it be told: it is computed for the step's scenario."
CHOICE_FIGURES = 2  # a choice to predict from is rounded more than its answer


def tour(name: str) -> dict[str, str]:
    """The tour's page, and the pages that it shows within it, by their files' names."""
    shown, files = load(name), {}
    steps = [_step(step, number, files) for number, step in enumerate(shown.steps, 1)]
    body = f"<h1>{escape(shown.title)}</h1>{''.join(steps)}"
    return {"tour.html": page("Tour", ABOUT, body, VOTES.read_text("utf-8")), **files}


def _step(step: Step, number: int, files: dict[str, str]) -> str:
    """One step; a moving picture is a file of its own."""
    experiment = step.experiment
    choices = words.options(step.choices, experiment)
    told = answer(step.answer, experiment)
    buttons = "".join(
        f"<button data-choice='{n}'><b>{escape(words.text(choice, step.unit, CHOICE_FIGURES))}</b>"
        "<span></span></button>"
        for n, choice in enumerate(choices)
    )
    return (
        f"<section class='step' data-right='{words.nearest(choices, told)}'>"
        f"<h2>{number}. {escape(step.title)}</h2>{markdown.html(words.filled(step.before, experiment))}"
        f"<p class='question'>{markdown.inline(step.question)}</p><div class='choices'>{buttons}</div>"
        "<button class='tell' aria-expanded='false'>The answer</button>"
        f"<div class='answer' hidden><p class='metric'>{escape(words.text(told, step.unit))}, "
        f"{told.origin}</p>"
        f"{mathml(step.formula) if step.formula else ''}"
        f"{markdown.html(words.filled(step.after, experiment))}</div>"
        f"{_picture(step, number, files)}</section>"
    )


def _picture(step: Step, number: int, files: dict[str, str]) -> str:
    """The step's picture; one that only the dashboard has gives way to the player of the same scenario."""
    experiment, file = step.experiment, f"tour-{number}.html"
    if step.picture in CHARTS:
        return CHARTS[step.picture](experiment)
    if step.picture == "inside":
        block = lanes_of(experiment, flash3.ALGORITHM.pipeline)
        files[file] = inside.moving().offline(inside.payload(block), step.title)
    else:
        packed = begun(build(experiment), race=step.picture == "race")
        files[file] = moving().offline(packed, step.title)
    return frame(file, step.title)


def bytes_by_tensor(experiment: Experiment) -> str:
    """Bytes of every tensor that cross DRAM."""
    title = "<p><b>Bytes by tensor and direction</b>, all heads, DRAM, modelled</p>"
    found = by_algorithm(experiment)
    return title + both(
        lambda colours: f"<div class='scroll'>{traffic.by_tensor(found, 'dram', colours)}</div>"
    )


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


CHARTS = {
    "bytes": bytes_by_tensor,
    "length": bytes_by_length,
    "memory": memory_by_length,
    "roofline": under_the_roof,
}

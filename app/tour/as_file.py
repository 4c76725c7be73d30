"""A tour as files: a page with every step, its votes, answer and picture; and Markdown with every answer."""

from dataclasses import replace
from html import escape
from pathlib import Path

from app import markup
from app.gallery.html_page import frame, unseen
from app.gallery.picture import Drawn
from app.gallery.without_streamlit import in_both_themes
from app.markup import mathml
from app.tour import step_words
from app.tour.file import FOLDER, PICTURES, Step, load, names
from engine.experiment import Experiment
from engine.studies.answers import answer

VOTES = Path(__file__).with_name("votes.js")
ABOUT = "Predict each answer, then let it be told: it is computed for the step's scenario."


def tour(name: str, folder: Path = FOLDER) -> Drawn:
    """A tour's page, and the pages that it shows within it; raises TourError."""
    shown, files = load(name, folder), {}
    place = name if folder == FOLDER else names()[0]  # a picture may ask which tour it is in
    steps = [_step(step, f"{number}", place, files) for number, step in enumerate(shown.steps, 1)]
    html = f"<h1>{escape(shown.title)}</h1>{''.join(steps)}"
    return Drawn(html, below=f"<script>{VOTES.read_text('utf-8')}</script>", says=ABOUT, framed=files)


def _step(step: Step, number: str, name: str, files: dict[str, str]) -> str:
    """One step; a moving picture is a file of its own."""
    experiment = step.experiment
    before, after = (markup.html(step_words.filled(text, experiment)) for text in (step.before, step.after))
    picture = _picture(step.picture, step, f"tour-{number}.html", name, files)
    title = f"<h2>{number}. {escape(step.title)}</h2>"
    if not step.question:
        return f"<section class='step'>{title}{before}{after}{picture}</section>"
    told = _answer(step) + after
    if step.reveals != step.picture:
        told += _picture(step.reveals, step, f"tour-{number}-answer.html", name, files)
    return (
        f"<section class='step'>{title}{before}{_question(step)}{picture}"
        "<button class='tell' aria-expanded='false'>The answer</button>"
        f"<div class='answer' hidden>{told}</div></section>"
    )


def _question(step: Step) -> str:
    """The question, and a button for each choice with what is said to those who chose it wrongly."""
    options = step_words.options(step.choices, step.answer, step.unit, step.experiment)
    buttons = "".join(
        f"<button data-choice='{'right' if option.right(options) else 'wrong'}'>"
        f"<b>{markup.inline(option.text)}</b><span></span></button>"
        f"<p class='reply' hidden>{markup.inline(option.reply)}</p>"
        for option in options
    )
    asked = markup.inline(step_words.filled(step.question, step.experiment))
    return f"<p class='question'>{asked}</p><div class='choices'>{buttons}</div>"


def _answer(step: Step) -> str:
    """The number behind the answer, and its formula."""
    says = ""
    if step.answer:
        found = answer(step.answer, step.experiment)
        says = f"<p class='metric'>{escape(step_words.text(found, step.unit))}, {found.origin}</p>"
    return says + (mathml(step.formula) if step.formula else "")


def _picture(picture: str, step: Step, file: str, name: str, files: dict[str, str]) -> str:
    """A picture of a step; a moving one is a file within the page."""
    made = drawn(picture, step.experiment, name)
    if not made.moving:
        return made.html
    files[file] = made.moving.offline(made.data, step.title, unseen(step.title))
    return made.html + frame(file, step.title) + made.below


def drawn(picture: str, experiment: Experiment, tour: str) -> Drawn:
    """What the tour's own function draws."""
    return in_both_themes(PICTURES[picture], experiment, tour=tour, step="1")


def on_a_phone(experiment: Experiment, *, tour: str, step: int, told: bool) -> Drawn:
    """A step: its words and its picture, or those of its answer."""
    shown = replace(load(tour).steps[step - 1], experiment=experiment)
    above, below, picture, number = shown.before, "" if shown.question else shown.after, shown.picture, ""
    if told and shown.question:
        above, picture, number = shown.after or shown.before, shown.reveals, _answer(shown)
    made = drawn(picture, experiment, tour)
    html, after = (markup.html(step_words.filled(text, experiment)) for text in (above, below))
    return replace(made, html=number + html + made.html, below=made.below + after, title=shown.title)

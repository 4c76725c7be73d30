"""A tour as a page with every step, its votes, answer and picture; and a step as phones see it."""

from dataclasses import replace
from html import escape
from pathlib import Path

from app import markup
from app.gallery.html_page import frame, unseen
from app.gallery.picture import Drawn
from app.gallery.without_streamlit import in_both_themes
from app.markup import mathml
from app.tour.file import FOLDER, PICTURES, load
from app.tour.step_words import Said
from engine.experiment import Experiment

VOTES = Path(__file__).with_name("votes.js")
ABOUT = "Predict each answer, then let it be told: it is computed for the step's scenario."


def tour(name: str, folder: Path = FOLDER, file: str = "tour") -> Drawn:
    """A tour's page, and the files that it frames, whose names begin with `file`; raises TourError."""
    shown, files = load(name, folder), {}
    steps = [_step(step.said(), n, f"{file}-{n}", files) for n, step in enumerate(shown.steps, 1)]
    return Drawn(
        "".join(steps), below=f"<script>{VOTES.read_text('utf-8')}</script>", says=ABOUT, framed=files
    )


def _step(said: Said, number: int, file: str, files: dict[str, str]) -> str:
    """One step; a moving picture is a file of its own."""
    step = said.step
    before, after = (markup.html(said.filled(text)) for text in (step.before, step.after))
    picture = _picture(step.picture, said, f"{file}.html", files)
    title = f"<h2>{number}. {escape(step.title)}</h2>"
    if not step.question:
        return f"<section class='step'>{title}{before}{after}{picture}</section>"
    told = _answer(said) + after
    if step.reveals != step.picture:
        told += _picture(step.reveals, said, f"{file}-answer.html", files)
    return (
        f"<section class='step'>{title}{before}{_question(said)}{picture}"
        "<button class='tell' aria-expanded='false'>The answer</button>"
        f"<div class='answer' hidden>{told}</div></section>"
    )


def _question(said: Said) -> str:
    """The question, and a button for each choice with what is said to those who chose it wrongly."""
    buttons = "".join(
        f"<button data-choice='{'right' if option.right else 'wrong'}'>"
        f"<b>{markup.inline(option.text)}</b><span></span></button>"
        f"<p class='reply' hidden>{markup.inline(option.reply)}</p>"
        for option in said.options
    )
    asked = markup.inline(said.filled(said.step.question))
    return f"<p class='question'>{asked}</p><div class='choices'>{buttons}</div>"


def _answer(said: Said) -> str:
    """The number behind the answer, and its formula."""
    says = f"<p class='metric'>{escape(said.value)}, {said.answer.origin}</p>" if said.answer else ""
    return says + (mathml(said.step.formula) if said.step.formula else "")


def _picture(picture: str, said: Said, file: str, files: dict[str, str]) -> str:
    """A picture of a step; a moving one is a file within the page."""
    made, title = drawn(picture, said.experiment), said.step.title
    if not made.moving:
        return made.html
    files[file] = made.moving.offline(made.data, title, unseen(title))
    return made.html + frame(file, title) + made.below


def drawn(picture: str, experiment: Experiment) -> Drawn:
    """What the tour's own function draws."""
    return in_both_themes(PICTURES[picture], experiment)


def on_a_phone(experiment: Experiment, *, tour: str, step: int, told: bool) -> Drawn:
    """A step: its words and its picture, or those of its answer."""
    shown = load(tour).steps[step - 1]
    said = shown.said(experiment)
    above, below, picture, number = shown.before, "" if shown.question else shown.after, shown.picture, ""
    if told and shown.question:
        above, picture, number = shown.after or shown.before, shown.reveals, _answer(said)
    made = drawn(picture, experiment)
    html, after = (markup.html(said.filled(text)) for text in (above, below))
    return replace(made, html=number + html + made.html, below=made.below + after, title=shown.title)

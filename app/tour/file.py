"""The file of a guided tour: Markdown in steps, read and checked once.

A file is a title, some words about the tour, and steps:

    # The tour's title
    Some words about it.

    ## The step's title
    scenario: algorithm=flash2&seq=4096&block_q=128     what a link to the dashboard holds
    picture: player                                      one of PICTURES
    question: How many times is K read?                  what the room predicts
    choices: 1 | query_blocks | keys                     2 to 5 expressions
    answer: k_reads                                      an expression, see `engine.studies.answers`
    unit: times                                          optional, of a plain number; or ×, % of something
    formula: \\lceil N / B_r \\rceil                        optional, LaTeX, shown with the answer

    Markdown that is shown at once. {query_blocks} stands for what is computed.

    ---

    Markdown that is shown with the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from pathlib import Path
from urllib.parse import parse_qsl

from app.tour.words import apart, filled, options, text
from engine.experiment import Experiment, ExperimentError
from engine.studies.answers import AnswerError, answer

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "tours"
PICTURES = ("player", "race", "bytes", "length", "memory", "roofline", "softmax", "inside")
REQUIRED = ("scenario", "picture", "question", "choices", "answer")
OPTIONAL = ("unit", "formula")
CLOSE = 1.25  # an answer must lie within this factor of a choice, and no second choice may
LARGEST_FILE = 200_000  # characters


class TourError(ValueError):
    """A tour that cannot be shown; the message names the file and the line, and what must be there."""


@dataclass(frozen=True)
class Step:
    """One screen: a scenario's picture, a question, and words before and after its answer."""

    title: str
    experiment: Experiment
    picture: str
    question: str
    choices: tuple[str, ...]
    answer: str
    unit: str
    formula: str
    before: str
    after: str


@dataclass(frozen=True)
class Tour:
    """A tour's title, the words about it, and its steps in order."""

    title: str
    about: str
    steps: tuple[Step, ...]


def names(folder: Path = FOLDER) -> list[str]:
    """The tours there are, by the names of their files."""
    return sorted(path.stem for path in folder.glob("*.md"))


def load(name: str, folder: Path = FOLDER) -> Tour:
    """A tour by its name; raises TourError."""
    if name not in names(folder):
        raise TourError(f"There is no tour {name!r:.60}; it must be one of {', '.join(names(folder))}")
    path = folder / f"{name}.md"
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise TourError(f"{path.name}: cannot be read; it must be a text file in UTF-8") from None
    return parse(text, path.name)


@lru_cache(maxsize=16)
def parse(text: str, file: str) -> Tour:
    """A tour from the text of its file, all of it checked; raises TourError."""
    if len(text) > LARGEST_FILE:
        raise TourError(f"{file}: has {len(text):,} characters; it must have at most {LARGEST_FILE:,}")
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("## ")]
    if not lines or not lines[0].startswith("# "):
        raise TourError(f"{file}, line 1: must be the tour's title, '# ' and words")
    if not starts:
        raise TourError(
            f"{file}, line {len(lines)}: ends without a step; a step begins with '## ' and a title"
        )
    ends = [*starts[1:], len(lines)]
    steps = [_step(lines[start:end], start + 1, file) for start, end in zip(starts, ends, strict=True)]
    return Tour(lines[0][2:].strip(), _joined(lines[1 : starts[0]]), tuple(steps))


def _step(lines: Sequence[str], first: int, file: str) -> Step:
    """A step from its lines; `first` is the number of the first."""
    at = dict.fromkeys((*REQUIRED, *OPTIONAL), first)
    values: dict[str, str] = {}
    body = len(lines)
    for offset, line in enumerate(lines[1:], 1):
        if not line.strip():
            body = offset
            break
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or name not in at or name in values or not value:
            known = ", ".join((*REQUIRED, *OPTIONAL))
            must = f"must be 'name: value' with each of {known} once at most, or empty before the text"
            raise TourError(f"{file}, line {first + offset}: {line.strip()!r:.60} {must}")
        values[name], at[name] = value, first + offset
    for name in REQUIRED:
        if name not in values:
            raise TourError(
                f"{file}, line {first}: the step has no {name}; it must have {', '.join(REQUIRED)}"
            )
    if values["picture"] not in PICTURES:
        must = f"it must be one of {', '.join(PICTURES)}"
        raise TourError(f"{file}, line {at['picture']}: picture is {values['picture']!r:.60}; {must}")
    before, _, after = _joined(lines[body:]).partition("\n---\n")
    step = Step(
        lines[0][3:].strip(),
        _experiment(values["scenario"], at["scenario"], file),
        values["picture"],
        values["question"],
        tuple(choice.strip() for choice in values["choices"].split("|")),
        values["answer"],
        values.get("unit", ""),
        values.get("formula", ""),
        before.strip(),
        after.strip(),
    )
    _check(step, at, first + body + 1, file)
    return step


def _experiment(link: str, line: int, file: str) -> Experiment:
    try:
        return Experiment.of(**dict(parse_qsl(link.rpartition("?")[2], keep_blank_values=True)))
    except ExperimentError as error:
        raise TourError(f"{file}, line {line}: {error}") from None


def _check(step: Step, at: dict[str, int], body: int, file: str) -> None:
    """Whether everything can be computed, and exactly one choice is the answer."""
    for name, line, check in (
        ("choices", at["choices"], lambda: options(step.choices, step.experiment)),
        ("answer", at["answer"], lambda: answer(step.answer, step.experiment)),
        ("text", body, lambda: (filled(step.before, step.experiment), filled(step.after, step.experiment))),
    ):
        try:
            check()
        except AnswerError as error:
            raise TourError(f"{file}, line {line}: {name}: {error}") from None
    found, right = options(step.choices, step.experiment), answer(step.answer, step.experiment)
    if not 2 <= len(found) <= 5 or len(found) < len(step.choices):
        raise TourError(
            f"{file}, line {at['choices']}: choices must be 2 to 5 different ones between | signs"
        )
    near = [choice for choice in found if apart(choice, right) <= log(CLOSE)]
    if len(near) != 1:
        must = f"exactly one must be within a factor of {CLOSE} of it"
        value = text(right, step.unit)
        raise TourError(
            f"{file}, line {at['choices']}: the answer is {value}, {len(near)} choices fit; {must}"
        )


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines).strip() + "\n"

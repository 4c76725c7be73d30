"""The file of a guided tour: Markdown in steps, read and checked once.

A file is a title, some words about the tour, and steps:

    # The tour's title
    Some words about it.

    ## The step's title
    scenario: algorithm=flash2&seq=4096&block_q=128     what a link to the dashboard holds
    picture: hierarchy                                   one of PICTURES
    reveals: player                                      optional, the picture that comes with the answer
    question: How many times is K read?                  what the room predicts
    choice: 1 | Whoever reads it once must keep all of it.          an expression, and what is said of it
    choice: query_blocks | Once for each of them.
    answer: k_reads                                      an expression, see `engine.studies.answers`
    unit: times                                          optional, of a plain number; or ×, % of something
    formula: \\lceil N / B_r \\rceil                        optional, LaTeX, shown with the answer
    minutes: 0 3 6                                       optional, in lectures of 15, 45, 90; 0: left out. Or
                                                         one number, where a tour is a single lecture
    notes: Let them argue first.                         optional, for the lecturer's own window

    Markdown that is shown at once. {query_blocks} stands for what is computed.

    ---

    Markdown that is shown with the answer.

Two to five lines begin with choice:, and what is said of each may be left out. Choices may be words, each
with the condition under which they are true, and exactly one is: `choice: "It does fewer FLOPs" |
flash2.flops < standard.flops | Both multiply the same matrices.` Such a question needs no answer; one that is
given is shown as the number behind it. A question whose picture is drawn on has no choices. A step without a
question shows its words and its picture, and nothing is asked.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import log
from pathlib import Path
from urllib.parse import parse_qsl

from app.figures.colours import Palette
from app.tour.step_words import Choice, Said
from engine.decoded import leads_elsewhere
from engine.experiment import Experiment, ExperimentError
from engine.root import ROOT
from engine.studies.answers import AnswerError

Picture = Callable[[Experiment, Palette], None]
FOLDER = ROOT / "assets" / "tours"
DRAWN: set[str] = set()  # those that are drawn on: a question with one has no choices
PICTURES: dict[str, Picture] = {}  # that a step can show, by name, as `pictures` enters them
REQUIRED = ("scenario", "picture")
QUESTION, CHOICE, ANSWER, MINUTES = "question", "choice", "answer", "minutes"
KNOWN = (*REQUIRED, QUESTION, CHOICE, ANSWER, "reveals", "unit", "formula", MINUTES, "notes")
PARTS = re.compile(r'(?:"([^"]*)"\s*\|?)?([^|]*)\|?(.*)')  # of a choice: words, expression, reply
LECTURES = (15, 45, 90)  # minutes of a lecture; a step says what it takes in each
USUAL_LECTURE = 45
CLOSE = 1.25  # an answer must lie within this factor of a choice, and no second choice may
FEWEST, MOST = 2, 5  # choices
LARGEST_FILE = 200_000  # characters


class TourError(ValueError):
    """A tour that cannot be shown; the message names the file and the line, and what must be there."""


@dataclass(frozen=True)
class Step:
    """One screen: a scenario's picture, a question, and words before and after its answer."""

    title: str
    experiment: Experiment
    picture: str
    reveals: str  # the picture with the answer; where the file names none, the one before
    question: str  # empty where nothing is asked; then there are no choices
    choices: tuple[Choice, ...]
    answer: str  # an expression; empty where the choices are words and no number stands behind them
    unit: str
    formula: str
    before: str
    after: str
    minutes: tuple[int, ...] = ()  # in each of LECTURES, 0: left out; or one number; or nothing is said
    notes: str = ""  # what the lecturer's own window says of it

    def said(self, experiment: Experiment | None = None) -> Said:
        """Its words and numbers for a scenario, or for its own."""
        return Said(self, experiment or self.experiment)

    @property
    def draws(self) -> bool:
        """Whether its question is answered by drawing on the picture."""
        return self.picture in DRAWN

    def takes(self, lecture: int) -> int:
        """Minutes of a lecture of so many; 0 where the file says nothing."""
        return self.minutes[LECTURES.index(lecture) if len(self.minutes) > 1 else 0] if self.minutes else 0


@dataclass(frozen=True)
class Tour:
    """A tour's title, the words about it, and its steps in order."""

    title: str
    about: str
    steps: tuple[Step, ...]

    @property
    def timed(self) -> bool:
        """Whether its steps say how long they take."""
        return any(step.minutes for step in self.steps)

    @property
    def lectures(self) -> tuple[int, ...]:
        """The minutes of its lectures, the usual one first: LECTURES, or those of all its steps together."""
        if any(len(step.minutes) == 1 for step in self.steps):
            return (sum(sum(step.minutes) for step in self.steps),)
        return USUAL_LECTURE, *(minutes for minutes in LECTURES if minutes != USUAL_LECTURE)

    def lecture(self, minutes: int) -> list[int]:
        """The numbers of the steps, from 1 on, of a lecture of so many minutes."""
        timed = self.timed
        return [n for n, step in enumerate(self.steps, 1) if not timed or step.takes(minutes)]


class Way:
    """The steps of a lecture, at one of them: what is before it, and what is next."""

    def __init__(self, tour: Tour, number: int, minutes: int):
        self.steps, self.number, self.minutes = tour.steps, number, minutes
        self.numbers = sorted({*tour.lecture(minutes), number})  # a link may lead to one that it leaves out
        self.at = self.numbers.index(number)
        self.place = f"step {self.at + 1} of {len(self.numbers)}"
        self.step = tour.steps[number - 1]

    def beside(self, by: int) -> int:
        """The number of the step before, or of the next; 0 where there is none."""
        at = self.at + by
        return self.numbers[at] if 0 <= at < len(self.numbers) else 0

    @property
    def next(self) -> Step | None:
        """The step after this one."""
        number = self.beside(1)
        return self.steps[number - 1] if number else None

    @property
    def until(self) -> int:
        """Minutes from the lecture's start to this step's end."""
        return sum(self.steps[n - 1].takes(self.minutes) for n in self.numbers[: self.at + 1])


def names(folder: Path = FOLDER) -> list[str]:
    """The tours there are, by the names of their files."""
    return sorted(path.stem for path in folder.glob("*.md"))


def title(name: str, folder: Path = FOLDER) -> str:
    """A tour's title, of which no step is looked at; of a file that has none, its name."""
    try:
        with (folder / f"{name}.md").open(encoding="utf-8") as lines:
            first = lines.readline()
    except (OSError, UnicodeDecodeError):
        return name
    return first[2:].strip() if first.startswith("# ") else name


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
    try:
        return _parsed(text)
    except TourError as error:
        raise TourError(f"{file}{', ' if str(error).startswith('line ') else ': '}{error}") from None


def _must(holds: object, line: int, says: str) -> None:
    """Refuse what does not hold, with its line."""
    if not holds:
        raise TourError(f"line {line}: {says}")


def _parsed(text: str) -> Tour:
    if len(text) > LARGEST_FILE:
        raise TourError(f"has {len(text):,} characters; it must have at most {LARGEST_FILE:,}")
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("## ")]
    _must(lines and lines[0].startswith("# "), 1, "must be the tour's title, '# ' and words")
    _must(starts, len(lines), "ends without a step; a step begins with '## ' and a title")
    for number, line in enumerate(lines, 1):  # what would make every browser of a room ask another server
        found = leads_elsewhere(line)
        _must(not found, number, f"{found!r:.60} cannot be shown; a tour holds no pictures, links or HTML")
    steps = tuple(_step(lines[start:end], start + 1) for start, end in pairwise([*starts, len(lines)]))
    if len({len(step.minutes) for step in steps if step.minutes}) > 1:
        raise TourError(f"{MINUTES} must be of one lecture at every step, or of {len(LECTURES)}")
    return Tour(lines[0][2:].strip(), "\n".join(lines[1 : starts[0]]).strip(), steps)


def _step(lines: Sequence[str], first: int) -> Step:
    """A step from its lines; `first` is the number of the first."""
    body = next((n for n, line in enumerate(lines) if not line.strip()), len(lines))
    values, choices, at = _header(lines[1:body], first)
    drawn, worded = values.get("picture") in DRAWN, any(choice.label for choice in choices)
    asks = QUESTION in values or CHOICE in at
    needed = (
        [QUESTION] * asks + [CHOICE] * (asks and not drawn) + [ANSWER] * (asks and not drawn and not worded)
    )
    for name in (*REQUIRED, *needed):
        must = f"it must have {', '.join((*REQUIRED, *needed))}"
        _must(name in at, first, f"the step has no {name}; {must}")
    _must(not (drawn and choices), at.get(CHOICE, first), "choice must be left out: the picture is drawn on")
    for name in ("picture", "reveals"):
        must = f"{name} is {values.get(name)!r:.60}; it must be one of {', '.join(PICTURES)}"
        _must(values.get(name, values["picture"]) in PICTURES, at.get(name, first), must)
    try:
        link = parse_qsl(values["scenario"].rpartition("?")[2], keep_blank_values=True)
        experiment = Experiment.of(**dict(link))
    except ExperimentError as error:
        raise TourError(f"line {at['scenario']}: {error}") from None
    before, _, after = ("\n".join(lines[body:]) + "\n").partition("\n---\n")
    given = {name: values.get(name, "") for name in ("picture", QUESTION, ANSWER, "unit", "formula", "notes")}
    step = Step(
        title=lines[0][3:].strip(),
        experiment=experiment,
        reveals=values.get("reveals", values["picture"]),
        choices=tuple(choices),
        before=before.strip(),
        after=after.strip(),
        minutes=_minutes(values.get(MINUTES, ""), at.get(MINUTES, first)),
        **given,
    )
    _check(step, {"text": first + body + 1, **at})
    return step


def _minutes(value: str, line: int) -> tuple[int, ...]:
    """Of each lecture; nothing where the step says nothing."""
    found = value.split()
    whole = len(found) in (0, 1, len(LECTURES)) and all(each in map(str, range(91)) for each in found)
    must = f"it must be {len(LECTURES)} whole numbers from 0 to 90, for lectures of {LECTURES} minutes"
    _must(whole, line, f"minutes is {value!r:.60}; {must}")
    return tuple(map(int, found))


def _header(lines: Sequence[str], title: int) -> tuple[dict[str, str], list[Choice], dict[str, int]]:
    """The values of a step by name, its choices, and the lines that they stand in, below the title's."""
    values, choices, at = {}, [], {}
    for number, line in enumerate(lines, title + 1):
        name, _, value = (part.strip() for part in line.partition(":"))
        known = name in KNOWN and value and (name == CHOICE or name not in values)
        must = (
            f"must be 'name: value' with each of {', '.join(KNOWN)} once at most, but choice often, or empty"
        )
        _must(known, number, f"{line.strip()!r:.60} {must} before the text")
        at.setdefault(name, number)
        if name == CHOICE:
            label, expression, reply = (part.strip() for part in PARTS.match(value).groups(""))
            choices.append(Choice(expression, label, reply, number))
        else:
            values[name] = value
    return values, choices, at


def _check(step: Step, at: Mapping[str, int]) -> None:
    """Whether everything can be computed, and exactly one choice is the answer."""
    said = step.said()
    for name, words in {
        "text": step.before + step.after,
        QUESTION: step.question,
        "notes": step.notes,
    }.items():
        with _computed(at.get(name, 0), name):
            said.filled(words)
    with _computed(at.get(ANSWER, 0), ANSWER):
        value = said.value
    if not step.choices:
        return
    worded = any(choice.label for choice in step.choices)
    for choice in step.choices:
        must = 'choices must be all numbers, or all "words" with a condition'
        _must(bool(choice.label) == worded, choice.line, must)
        with _computed(choice.line, CHOICE):
            said.option(choice)
    line, found = at[CHOICE], said.options
    must = f"choices must be {FEWEST} to {MOST} different ones"
    _must(FEWEST <= len(found) <= MOST and len(found) == len(step.choices), line, must)
    near = sum(option.distance <= log(CLOSE) for option in found)
    must = f"exactly one must be within a factor of {CLOSE} of it"
    says = f"{near} choices are true; exactly one must be" if worded else ""
    _must(near == 1, line, says or f"the answer is {value}, {near} choices fit; {must}")


@contextmanager
def _computed(line: int, name: str) -> Iterator[None]:
    """What cannot be computed is said with its line."""
    try:
        yield
    except AnswerError as error:
        raise TourError(f"line {line}: {name}: {error}") from None

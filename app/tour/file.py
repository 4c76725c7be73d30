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

Two to five lines begin with choice:, and what is said of each may be left out. All of them can stand in one
line without that: `choices: 1 | query_blocks | keys`. Choices may be words, each with the condition under
which they are true, and exactly one is: `choice: "It does fewer FLOPs" | flash2.flops < standard.flops | Both
multiply the same matrices.` Such a question needs no answer; one that is given is shown as the number behind
it. A question whose picture is drawn on has no choices. A step without a question shows its words and its
picture, and nothing is asked.
"""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import log
from pathlib import Path
from urllib.parse import parse_qsl

from app.figures.colours import Palette
from app.tour.step_words import Choice, filled, options, text
from engine.experiment import Experiment, ExperimentError
from engine.recordings.decoded import leads_elsewhere
from engine.root import ROOT
from engine.studies.answers import AnswerError, answer

Picture = Callable[[Experiment, Palette], None]
FOLDER = ROOT / "assets" / "tours"
DRAWN: set[str] = set()  # those that are drawn on: a question with one has no choices
PICTURES: dict[str, Picture] = {}  # that a step can show, by name; `lecture` and `pictures` enter theirs
REQUIRED = ("scenario", "picture")
QUESTION, MANY, ONE, ANSWER = "question", "choices", "choice", "answer"
MINUTES = "minutes"
OPTIONAL = (QUESTION, ONE, MANY, ANSWER, "reveals", "unit", "formula", MINUTES, "notes")
LECTURES = (15, 45, 90)  # minutes of a lecture; a step says what it takes in each
USUAL_LECTURE = 45
CLOSE = 1.25  # an answer must lie within this factor of a choice, and no second choice may
FEWEST, MOST = 2, 5  # choices
LARGEST_FILE = 200_000  # characters


class TourError(ValueError):
    """A tour that cannot be shown; the message names the file and the line, and what must be there."""


@dataclass(frozen=True)
class Step:
    """One screen: a scenario's picture, a question, and words before and after its answer.

    Attributes:
        reveals: the picture with the answer; where the file names none, the one before.
        question: empty where nothing is asked; then there are no choices.
        answer: an expression; empty where the choices are words and no number stands behind them.
        minutes: that it takes in each of LECTURES, 0 where it is left out; one number in a tour that is one
            lecture; empty where nothing is said.
        notes: what the lecturer's own window says of it.
    """

    title: str
    experiment: Experiment
    picture: str
    reveals: str
    question: str
    choices: tuple[Choice, ...]
    answer: str
    unit: str
    formula: str
    before: str
    after: str
    minutes: tuple[int, ...] = ()
    notes: str = ""

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
    _harmless(lines[: starts[0]], 1, file)
    ends = [*starts[1:], len(lines)]
    steps = [_step(lines[start:end], start + 1, file) for start, end in zip(starts, ends, strict=True)]
    if len({len(step.minutes) for step in steps if step.minutes}) > 1:
        raise TourError(f"{file}: {MINUTES} must be of one lecture at every step, or of {len(LECTURES)}")
    return Tour(lines[0][2:].strip(), _joined(lines[1 : starts[0]]), tuple(steps))


def _step(lines: Sequence[str], first: int, file: str) -> Step:
    """A step from its lines; `first` is the number of the first."""
    values, at, choices, body = _header(lines, first, file)
    numbers = bool(QUESTION in values or choices) and not any(choice.label for choice in choices)
    numbers = numbers and values.get("picture") not in DRAWN
    for name in REQUIRED + (ANSWER,) * numbers:
        if name not in values:
            must = f"it must have {', '.join((*REQUIRED, QUESTION, MANY, ANSWER))}"
            raise TourError(f"{file}, line {first}: the step has no {name}; {must}")
    for name in ("picture", "reveals"):
        if name in values and values[name] not in PICTURES:
            must = f"it must be one of {', '.join(PICTURES)}"
            raise TourError(f"{file}, line {at[name]}: {name} is {values[name]!r:.60}; {must}")
    before, _, after = _joined(lines[body:]).partition("\n---\n")
    _harmless(lines, first, file)
    try:
        link = parse_qsl(values["scenario"].rpartition("?")[2], keep_blank_values=True)
        experiment = Experiment.of(**dict(link))
    except ExperimentError as error:
        raise TourError(f"{file}, line {at['scenario']}: {error}") from None
    given = {name: values.get(name, "") for name in ("picture", QUESTION, ANSWER, "unit", "formula", "notes")}
    step = Step(
        title=lines[0][3:].strip(),
        experiment=experiment,
        reveals=values.get("reveals", values["picture"]),
        choices=choices,
        before=before.strip(),
        after=after.strip(),
        minutes=_minutes(values.get(MINUTES, ""), at[MINUTES], file),
        **given,
    )
    _check(step, at, first + body + 1, file)
    return step


def _minutes(value: str, line: int, file: str) -> tuple[int, ...]:
    """Of each lecture; nothing where the step says nothing."""
    found = value.split()
    if found and (
        len(found) not in (1, len(LECTURES)) or not all(each in map(str, range(91)) for each in found)
    ):
        must = f"it must be {len(LECTURES)} whole numbers from 0 to 90, for lectures of {LECTURES} minutes"
        raise TourError(f"{file}, line {line}: minutes is {value!r:.60}; {must}")
    return tuple(map(int, found))


def _harmless(lines: Sequence[str], first: int, file: str) -> None:
    """Refuse what would make every browser of a room ask another server."""
    for number, line in enumerate(lines, first):
        if found := leads_elsewhere(line):
            must = "a tour holds no pictures, links or HTML of its own"
            raise TourError(f"{file}, line {number}: {found!r:.60} cannot be shown; {must}")


def _header(lines: Sequence[str], first: int, file: str):
    """The values of a step by name, the lines they stand in, its choices, and where its text begins."""
    at = dict.fromkeys((*REQUIRED, *OPTIONAL), first)
    values: dict[str, str] = {}
    choices: list[Choice] = []
    for offset, line in enumerate(lines[1:], 1):
        number = first + offset
        if not line.strip():
            return values, at, tuple(choices), offset
        name, colon, value = (part.strip() for part in line.partition(":"))
        twice = name in values or (name in (ONE, MANY) and choices and (name != ONE or MANY in values))
        if not colon or name not in at or twice or not value:
            known = ", ".join((*REQUIRED, *OPTIONAL))
            must = (
                f"must be 'name: value' with each of {known} once at most (choice often, if choices is not "
                "there), or empty before the text"
            )
            raise TourError(f"{file}, line {number}: {line.strip()!r:.60} {must}")
        at[name] = number
        if name == ONE:
            choices.append(_choice(value, number))
            continue
        values[name] = value
        if name == MANY:
            choices = [Choice(part.strip(), line=number) for part in value.split("|")]
    return values, at, tuple(choices), len(lines)


def _choice(value: str, line: int) -> Choice:
    """`expression | reply`, or `"words" | condition | reply`."""
    if value.startswith('"'):
        label, _, rest = value[1:].partition('"')
        condition, _, reply = rest.strip().removeprefix("|").partition("|")
        return Choice(condition.strip(), label.strip(), reply.strip(), line)
    expression, _, reply = value.partition("|")
    return Choice(expression.strip(), "", reply.strip(), line)


def _check(step: Step, at: dict[str, int], body: int, file: str) -> None:
    """Whether everything can be computed, and exactly one choice is the answer."""
    for name, line, words in (
        ("text", body, step.before + step.after),
        (QUESTION, at[QUESTION], step.question),
        ("notes", at["notes"], step.notes),
    ):
        with _at(file, line, name):
            filled(words, step.experiment)
    if step.answer:
        with _at(file, at[ANSWER], ANSWER):
            answer(step.answer, step.experiment)
    if bool(step.question and not step.draws) != bool(step.choices):
        missing = MANY if step.question else QUESTION
        raise TourError(f"{file}, line {at[QUESTION]}: the step has no {missing}; a question has both")
    if step.choices:
        _check_choices(step, file)


def _check_choices(step: Step, file: str) -> None:
    line = step.choices[0].line
    worded = [bool(choice.label) for choice in step.choices]
    if any(worded) and not all(worded):
        number = step.choices[worded.index(False)].line
        raise TourError(
            f'{file}, line {number}: choices must be all numbers, or all "words" with a condition'
        )
    for choice in step.choices:
        with _at(file, choice.line, MANY):
            options((choice,), step.answer, step.unit, step.experiment)
    found = options(step.choices, step.answer, step.unit, step.experiment)
    if not FEWEST <= len(found) <= MOST or len(found) < len(step.choices):
        raise TourError(
            f"{file}, line {line}: choices must be {FEWEST} to {MOST} different ones between | signs"
        )
    near = [option for option in found if option.distance <= log(CLOSE)]
    if len(near) == 1:
        return
    if any(worded):
        raise TourError(f"{file}, line {line}: {len(near)} choices are true; exactly one must be")
    value = text(answer(step.answer, step.experiment), step.unit)
    must = f"exactly one must be within a factor of {CLOSE} of it"
    raise TourError(f"{file}, line {line}: the answer is {value}, {len(near)} choices fit; {must}")


@contextmanager
def _at(file: str, line: int, name: str):
    """What cannot be computed is said with its line."""
    try:
        yield
    except AnswerError as error:
        raise TourError(f"{file}, line {line}: {name}: {error}") from None


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines).strip() + "\n"

"""The Tour page: one idea a screen, voted on first, its answer computed for the scenario on screen."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from app import markup, scenario
from app.figures.units import counted, unbroken
from app.gallery.picture import Picture, SiteFile
from app.presenter import keys, lectern
from app.room import screen
from app.room.room import Shown
from app.room.votes import Question
from app.scenario import theme
from app.scenario.presentation import presenting
from app.sidebar import inputs
from app.tour import as_file, file
from app.tour.file import Step, Tour, TourError, Way
from app.tour.pictures import PICTURES
from app.tour.step_words import Said
from engine.experiment import Experiment, described
from engine.studies.answers import AnswerError

FIRST = "attention"
ORIGINS = {
    "given": "from the scenario",
    "computed": "computed here",
    "counted": "counted",
    "modelled": "modelled for the {gpu}",
    "recorded": "recorded on {a_gpu}",
}
KEYS = {
    **dict.fromkeys(("ArrowRight", " ", "PageDown"), "tour_next"),
    **dict.fromkeys(("ArrowLeft", "PageUp"), "tour_back"),
    **{str(choice + 1): f"tour_choice_{choice}" for choice in range(file.MOST)},
}
Place = tuple[str, int]  # a tour, and the number of a step
CHANGED = "You have changed the step's scenario: the numbers follow it, the words do not."
HELP = "Keys: 1 to 5 vote, → or Space goes on, ← goes back, Enter plays, p presents."


def show() -> None:
    """Draw the step that the link names."""
    choices, linked = st.container(horizontal=True, gap="medium"), scenario.place("tour")
    with choices:
        known = file.names()
        name = _choice("Tour", known, _linked("tour", known, FIRST), file.title)
    if linked not in ("", name):
        scenario.go(step="1", minutes="")
    scenario.go(tour=name)
    try:
        shown = file.load(name)
    except TourError as error:
        st.text(f"{error}.")
        return
    numbers = [f"{number}" for number in range(1, 1 + len(shown.steps))]
    number = int(_linked("step", numbers, "1", f"a whole number from 1 to {len(numbers)}"))
    scenario.go(step=f"{number}")
    scenario.arrive(f"{name} {number}", shown.steps[number - 1].experiment)
    if not presenting():
        st.caption(f"**{shown.title}.** {shown.about if number == 1 else ''} {HELP}")
    with choices:
        way = Way(shown, number, _lecture(shown))
    said, tally = way.step.said(scenario.current()), _tally(name, number)
    room = _publish(said, way, tally) if presenting() else None
    if presenting():
        lectern.tell(_notes(said, way, tally))
    _screen(said, (name, number), way, room)


def _linked(name: str, known: Sequence[str], usual: str, must: str = "") -> str:
    """The link's value of a name, or the usual one, with a sentence where there is none such."""
    text = scenario.place(name)
    if not text or text in known:
        return text or usual
    must = must or f"one of {', '.join(known)}"
    st.text(f"The link's {name} is {text!r:.60}; it must be {must}. Shown instead: {usual}.")
    return usual


def _choice(label: str, known: Sequence[str], now: str, named: Callable[[str], str]) -> str:
    """A row of buttons for those who prepare a lecture; what is chosen of them."""
    if len(known) < 2 or presenting():
        return now
    asked = {"format_func": named, "key": f"{label} {now}", "label_visibility": "collapsed"}
    return st.segmented_control(label, known, default=now, **asked) or now


def _lecture(shown: Tour) -> int:
    """The minutes of the link's lecture, or of the one that is chosen."""
    usual, *others = map(str, shown.lectures)
    known = sorted((usual, *others), key=int)
    linked = _linked("minutes", known, usual)
    minutes = _choice("Lecture", known if shown.timed else [], linked, "{} minutes".format)
    scenario.go(minutes="" if minutes == usual else minutes)
    return int(minutes)


def _tally(name: str, number: int) -> list[int]:
    """Of one step: whether its answer is shown, then the votes for each choice."""
    return scenario.kept(f"tally {name} {number}", [0] * (1 + file.MOST))


def _screen(said: Said, place: Place, way: Way, room: list[int] | None) -> None:
    """Title and way on, then words, then the question beside a picture, or below its answer the picture."""
    step, told = said.step, bool(_tally(*place)[0])
    keys.bind(KEYS)
    with st.container(horizontal=True, vertical_alignment="center", key="tour_head"):
        st.header(step.title, anchor=False)
        _on(step, place, way)
    try:
        if not step.question:
            _told(said)
            return
        words = said.filled(step.after if told and step.after else step.before)
        if told:
            words = f"{_answered(said, _tally(*place)[1:] if room is None else room)} {words}"
            words += f" ${step.formula}$" * bool(step.formula)
        with st.container(key="tour_text"):
            st.markdown(words)
        if told:
            with st.container(key="tour_played"):
                inputs.show(brief=True)
                _picture(step.reveals, said)
            return
        left, picture = st.columns([1, 1.8], gap="large")
        with left, st.container(key="tour_words"):
            _question(said, place, room)
        with picture, st.container(key="tour_picture"):
            _picture(step.picture, said)
    except AnswerError as error:
        st.text(f"This step cannot be computed for the scenario: {error}.")


def _picture(name: str, said: Said) -> None:
    PICTURES[name](said.experiment, theme.colours())


def _notes(said: Said, way: Way, tally: list[int]) -> dict[str, str | int]:
    """What the lecturer's own window shows of a step: its answer too."""
    step = said.step
    notes = {
        "now": step.title,
        "next": way.next.title if way.next else "The end",
        "place": way.place,
        "minutes": step.takes(way.minutes),
        "until": way.until,
    }
    with suppress(AnswerError):
        notes["notes"] = markup.inline(said.filled(step.notes))
        if step.question:
            votes = " · ".join(map(str, tally[1 : 1 + len(said.options)]))
            told = any(tally[1:]) and not screen.opened()  # of a room, the window itself hears the votes
            notes |= {
                "question": said.filled(step.question),
                "answer": said.right,
                "votes": f"Votes: {votes}" * told,
            }
    return notes


def _told(said: Said) -> None:
    """A step that asks nothing: its words, and beside them what else it says, with its picture."""
    left, right = st.columns([1.5, 1], gap="medium")
    with left, st.container(key="tour_words"):
        st.markdown(said.filled(said.step.before))
    with right, st.container(key="tour_picture"):
        st.markdown(said.filled(said.step.after))
        _picture(said.step.picture, said)


def _question(said: Said, place: Place, room: list[int] | None) -> None:
    """What the room predicts: a button a choice, each counting its votes.

    Where phones vote, the votes come with the answer: nobody is to follow the others.
    """
    st.subheader(unbroken(said.filled(said.step.question)), anchor=False)
    for index, option in enumerate(said.options):
        votes = _tally(*place)[1 + index] if room is None else 0
        st.button(
            f"{index + 1} &nbsp; **{option.text}**" + f" · {counted(votes, 'vote')}" * bool(votes),
            key=f"tour_choice_{index}",
            width="stretch",
            on_click=_choose,
            args=(place, index),
        )


def _on(step: Step, place: Place, way: Way) -> None:
    """Back, and on: first to the answer, then to the next step."""
    back, on = way.beside(-1), way.beside(1)
    label, act, arguments = "Next", _go, (on,)
    if step.question and not _tally(*place)[0]:
        label, act, arguments = "The answer", _count, (place, 0)
    ended = act is _go and not on
    label = "The end" if ended else label
    with st.container(horizontal=True, vertical_alignment="center", width="content", key="tour_way"):
        st.button("Back", key="tour_back", disabled=not back, on_click=_go, args=(back,))
        st.button(label, key="tour_next", disabled=ended, width=160, on_click=act, args=arguments)
        st.markdown(f":gray[{way.place.removeprefix('step ')}]", width="content")


def _choose(place: Place, index: int) -> None:
    """Count a vote. A room votes on until the answer is asked for; a single reader gets it at once."""
    _count(place, 1 + index)
    if not presenting() and not _tally(*place)[0]:
        _count(place, 0)


def _count(place: Place, index: int) -> None:
    """Found by its place: a button is drawn once for all who open a link, so it holds nobody's own tally."""
    _tally(*place)[index] += 1


def _go(number: int) -> None:
    scenario.go(step=str(number))


def _answered(said: Said, votes: list[int]) -> str:
    """The answer in words, where the picture takes the screen, the votes, and the usual mistake."""
    told = f"**{said.right}.**" * bool(said.right)
    if said.answer:
        gpu = said.experiment.gpu
        told = (
            f"**{said.value}, {ORIGINS[said.answer.origin].format(gpu=gpu.name, a_gpu=gpu.with_article)}.**"
        )
    if any(votes) and said.options:
        each = list(zip(said.options, votes, strict=False))
        counts = " · ".join(f"**{n}**" if option.right else f"{n}" for option, n in each)
        most, missed = max((n, option.reply) for option, n in each if not option.right)
        told += f" Votes: {counts}." + f" {missed}" * (most > 0)
    return told + f" {CHANGED}" * (said.experiment != said.step.experiment)


def _publish(said: Said, way: Way, tally: Sequence[int]) -> list[int] | None:
    """Show a step to the room's phones; its votes by choice, of phones and keys, or None without a room."""
    if not screen.opened():
        return None
    step, experiment, told = said.step, said.experiment, bool(tally[0])
    shown = Shown(step.title, way.place, described(experiment), _seen(way.number, experiment, told))
    if step.question:
        with suppress(AnswerError):  # the page says that it cannot be computed
            shown = _asked(shown, said, tally)
    if not told:
        ahead = [_seen(way.number, experiment, True)] * bool(step.question)
        ahead += [_seen(way.beside(1), way.next.experiment, False)] if way.next else []
        shown = replace(shown, ahead=tuple(ahead))
    return screen.publish(shown)


def _seen(number: int, experiment: Experiment, told: bool) -> Mapping[str, Any]:
    asked = {"tour": scenario.place("tour"), "step": number, "told": told}
    return {"page": "tour", "values": scenario.url_values(experiment), "asked": asked}


def _asked(shown: Shown, said: Said, tally: Sequence[int]) -> Shown:
    """The same with the step's question, its choices and, once it is told, its answer."""
    options, text = said.options, said.filled(said.step.question)
    return replace(
        shown,
        question=Question(shown.place, text, tuple(option.text for option in options)),
        asked=screen.words(text),
        choices=tuple(screen.words(option.text) for option in options),
        draws=said.step.draws,
        told=bool(tally[0]),
        right=next((index for index, option in enumerate(options) if option.right), -1),
        replies=tuple(screen.words(option.reply) for option in options),
        hands=tuple(tally[1 : 1 + len(options)]),
    )


ABOUT = "A lecture with a question at every step."


def site_files(lecture: Path | None = None) -> list[SiteFile]:
    """The pages of the tours in the static site, or that of a file."""
    own = [(lecture.stem, lecture.parent)] if lecture else [(name, file.FOLDER) for name in file.names()]
    stems = ["tour", *(name for name, _ in own[1:])]
    return [
        SiteFile(f"{stem}.html", file.title(*one), ABOUT, partial(as_file.tour, *one, stem))
        for stem, one in zip(stems, own, strict=True)
    ]


PICTURE = Picture(as_file.on_a_phone, several=site_files)

"""The Tour page: one idea a screen, voted on first, its answer computed for the scenario on screen."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from app import markup, scenario
from app.figures.lecture import histogram
from app.figures.units import unbroken
from app.gallery.picture import Picture, SiteFile
from app.presenter import keys, lectern
from app.room import screen
from app.room.room import Shown
from app.room.votes import Question
from app.scenario import theme
from app.scenario.presentation import presenting
from app.sidebar import inputs
from app.tour import as_file, file, step_words
from app.tour.file import Step, Tour, TourError, Way
from app.tour.pictures import PICTURES, WIDE
from engine.experiment import Experiment
from engine.studies.answers import Answer, AnswerError, answer

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
    choices = st.container(horizontal=True, gap="medium")
    with choices:
        name = _chosen()
    try:
        shown = file.load(name)
    except TourError as error:
        st.text(f"{error}.")
        return
    number = _number(len(shown.steps))
    step = shown.steps[number - 1]
    scenario.arrive(f"{name} {number}", step.experiment)
    if not presenting():
        st.caption(f"**{shown.title}.** {shown.about if number == 1 else ''} {HELP}")
    with choices:
        way = Way(shown, number, _lecture(shown))
    tally = _tally(name, number)
    room = _publish(way, tally) if presenting() else None
    if presenting():
        lectern.tell(_notes(way, tally))
    _screen(step, (name, number), way, room)


def _lecture(shown: Tour) -> int:
    """The minutes of the link's lecture; a choice of them for those who prepare one."""
    known, text = [str(minutes) for minutes in sorted(shown.lectures)], scenario.place("minutes")
    usual = str(shown.lectures[0])
    if text and text not in known:
        must = f"it must be one of {', '.join(known)}"
        st.text(f"The link's minutes are {text!r:.40}; {must}. Shown instead: {usual}.")
    minutes = text if text in known else usual
    if shown.timed and len(known) > 1 and not presenting():
        named = "{} minutes".format
        minutes = (
            st.segmented_control(
                "Lecture",
                known,
                default=minutes,
                format_func=named,
                key=f"tour_minutes {minutes}",
                label_visibility="collapsed",
            )
            or minutes
        )
    scenario.go(minutes="" if minutes == usual else minutes)
    return int(minutes)


def _chosen() -> str:
    """The tour of the link; a choice of tours where there are several."""
    known, linked = file.names(), scenario.place("tour")
    wanted = linked or FIRST
    if wanted not in known:
        must = f"it must be one of {', '.join(known)}"
        st.text(f"The link's tour is {wanted!r:.60}; {must}. Shown instead: {FIRST}.")
        wanted = FIRST
    if len(known) > 1 and not presenting():
        asked = wanted
        named = {"format_func": file.title, "key": f"tours {asked}", "label_visibility": "collapsed"}
        wanted = st.segmented_control("Tour", known, default=asked, **named) or asked
    if linked not in ("", wanted):
        scenario.go(step="1", minutes="")
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
    return scenario.kept(f"tally {name} {number}", [0] * (1 + file.MOST))


def _screen(step: Step, place: Place, way: Way, room: list[int] | None) -> None:
    """Title and way on, then words, then question and answer on the left, the picture on the right."""
    experiment, told = scenario.current(), bool(_tally(*place)[0])
    keys.bind(KEYS, key="tour_keys")
    with st.container(horizontal=True, vertical_alignment="center", key="tour_head"):
        st.header(step.title, anchor=False)
        _on(step, place, way)
    try:
        if not step.question:
            _told(step, experiment)
            return
        shown = step.reveals if told else step.picture
        wide = told and shown in WIDE
        words = step_words.filled(step.after if told and step.after else step.before, experiment)
        with st.container(key="tour_text"):
            if wide:
                words = f"{_answered(step, experiment, _tally(*place)[1:] if room is None else room)} {words}"
                words += f" ${step.formula}$" * bool(step.formula)
            st.markdown(words)
        if wide:
            with st.container(key="tour_played"):
                inputs.show(brief=True)
                PICTURES[shown](experiment, theme.colours())
            return
        left, picture = st.columns([1, 1.8], gap="large")
        with left, st.container(key="tour_words"):
            _question(step, experiment, place, room)
            if told:
                _answer(step, experiment)
        with picture, st.container(key="tour_picture"):
            PICTURES[shown](experiment, theme.colours())
    except AnswerError as error:
        st.text(f"This step cannot be computed for the scenario: {error}.")


def _notes(way: Way, tally: list[int]) -> dict[str, str | int]:
    """What the lecturer's own window shows of a step: its answer too."""
    step, experiment = way.steps[way.number - 1], scenario.current()
    notes = {
        "now": step.title,
        "next": way.next.title if way.next else "The end",
        "place": way.place,
        "minutes": step.takes(way.minutes),
        "until": way.until,
    }
    try:
        notes["notes"] = markup.inline(step_words.filled(step.notes, experiment))
        if not step.question:
            return notes
        options = step_words.options(step.choices, step.answer, step.unit, experiment)
        question = step_words.filled(step.question, experiment)
    except AnswerError:
        return notes
    votes = " · ".join(map(str, tally[1 : 1 + len(options)]))
    told = any(tally[1:]) and not screen.opened()  # of a room, the window itself hears the votes
    return notes | {
        "question": question,
        "answer": step_words.right(options),
        "votes": f"Votes: {votes}" * told,
    }


def _told(step: Step, experiment: Experiment) -> None:
    """A step that asks nothing: its words, and beside them what else it says, with its picture."""
    left, right = st.columns([1.5, 1], gap="medium")
    with left, st.container(key="tour_words"):
        st.markdown(step_words.filled(step.before, experiment))
    with right, st.container(key="tour_picture"):
        st.markdown(step_words.filled(step.after, experiment))
        PICTURES[step.picture](experiment, theme.colours())


def _question(step: Step, experiment: Experiment, place: Place, room: list[int] | None) -> None:
    """What the room predicts: a button a choice, each counting its votes; replies come with the answer.

    Where phones vote, the votes come with the answer too: nobody is to follow the others.
    """
    options = step_words.options(step.choices, step.answer, step.unit, experiment)
    tally = _tally(*place)
    told = bool(tally[0])
    counts = tally[1:] if room is None else room if told else [0] * len(options)
    wrong = [index for index, option in enumerate(options) if option.reply and not option.right(options)]
    if presenting():  # a room's screen has room for one reply: to its most frequent mistake
        wrong = sorted(wrong, key=lambda index: counts[index])[-1:]
    if room and told and options:
        st.html(histogram(room))
    st.subheader(unbroken(step_words.filled(step.question, experiment)), anchor=False)
    for index, option in enumerate(options):
        votes = counts[index]
        right = told and option.right(options)
        counted = f" · {votes} {'vote' if votes == 1 else 'votes'}" if votes else ""
        st.button(
            f"{index + 1} &nbsp; **{option.text}**{counted}",
            key=f"tour_choice_{index}",
            type="primary" if right else "secondary",
            width="stretch",
            on_click=_choose,
            args=(place, index),
        )
        if told and votes and index in wrong:
            st.markdown(option.reply)


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


def _answered(step: Step, experiment: Experiment, votes: list[int]) -> str:
    """The answer in words, where the picture takes the screen, the votes, and the usual mistake."""
    options = step_words.options(step.choices, step.answer, step.unit, experiment)
    right = step_words.right(options)
    told = f"**{right}.**" * bool(right)
    if step.answer:
        computed = answer(step.answer, experiment)
        told = f"**{step_words.text(computed, step.unit)}, {_origin(computed, experiment)}.**"
    if any(votes) and options:
        of_each = (
            f"**{n}**" if one.right(options) else f"{n}" for one, n in zip(options, votes, strict=False)
        )
        most, missed = max(
            (n, one.reply) for one, n in zip(options, votes, strict=False) if not one.right(options)
        )
        told += f" Votes: {' · '.join(of_each)}." + f" {missed}" * (most > 0)
    return told + f" {CHANGED}" * (experiment != step.experiment)


def _origin(computed: Answer, experiment: Experiment) -> str:
    return ORIGINS[computed.origin].format(gpu=experiment.gpu.name, a_gpu=experiment.gpu.with_article)


def _answer(step: Step, experiment: Experiment) -> None:
    """The computed answer, where it comes from, and its formula."""
    with st.container(key="tour_told"):
        if step.answer:
            computed = answer(step.answer, experiment)
            st.metric(f"Answer, {_origin(computed, experiment)}", step_words.text(computed, step.unit))
        if step.formula:
            st.latex(step.formula)
        if experiment != step.experiment:
            st.caption(CHANGED)


def _publish(way: Way, tally: Sequence[int]) -> list[int] | None:
    """Show a step to the room's phones; its votes by choice, of phones and keys, or None without a room.

    Args:
        way: the lecture at this step.
        tally: whether its answer is shown, then the votes that were counted with keys.
    """
    if not screen.opened():
        return None
    number, step = way.number, way.steps[way.number - 1]
    experiment, told = scenario.current(), bool(tally[0])
    picture = _seen(number, experiment, told)
    shown = Shown(step.title, way.place, screen.described(experiment), picture)
    if step.question:
        with suppress(AnswerError):  # the page says that it cannot be computed
            shown = _asked(shown, step, experiment, tally)
    if not told:
        ahead = [_seen(number, experiment, True)] * bool(step.question)
        if way.next:
            ahead.append(_seen(way.beside(1), way.next.experiment, False))
        shown = replace(shown, ahead=tuple(ahead))
    return screen.publish(shown)


def _seen(number: int, experiment: Experiment, told: bool) -> Mapping[str, Any]:
    return {
        "page": "tour",
        "values": scenario.url_values(experiment),
        "asked": {"tour": scenario.place("tour"), "step": number, "told": told},
    }


def _asked(shown: Shown, step: Step, experiment: Experiment, tally: Sequence[int]) -> Shown:
    """The same with the step's question, its choices and, once it is told, its answer."""
    options = step_words.options(step.choices, step.answer, step.unit, experiment)
    text = step_words.filled(step.question, experiment)
    return replace(
        shown,
        question=Question(shown.place, text, tuple(option.text for option in options)),
        asked=screen.words(text),
        choices=tuple(screen.words(option.text) for option in options),
        draws=step.draws,
        told=bool(tally[0]),
        right=next((index for index, option in enumerate(options) if option.right(options)), -1),
        replies=tuple(screen.words(option.reply) for option in options),
        hands=tuple(tally[1 : 1 + len(options)]),
    )


ABOUT = "Attention from slow to fast, with a question at every step."


def site_file(lecture: Path | None = None) -> SiteFile:
    """The page of a tour in the static site: the first one, or that of a file."""
    name, folder = (FIRST, file.FOLDER) if lecture is None else (lecture.stem, lecture.parent)
    return SiteFile("tour.html", "Tour", ABOUT, partial(as_file.tour, name, folder))


PICTURE = Picture(as_file.on_a_phone, lambda: [site_file()])

"""The scenario: widgets, URL and Experiment kept as one; the only user of session state and query parameters.

The Experiment in the session is the truth. A link or the browser's back button replaces it; a widget changes
one value of it; every run shows it in the widgets and writes it to the URL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from engine.experiment import BY_NAME, PARAMETERS, Experiment, ExperimentError

EXPERIMENT, NOTICES, EXTRAS, TOUCHED, ECHOES = "experiment", "notices", "extra options", "touched", "echoes"
OFFERED, SUBJECT, PLACE, ARRIVED = "offered", "subject", "place", "arrived"
PLACES = ("tour", "step", "present")  # where the reader is: in the URL beside the scenario
ALWAYS = ("algorithm", "seq", "head_dim", "block_q", "block_kv")
OFF, EMPTIED = None, ("window", "seq_kv")  # an emptied number: no window, as many keys as queries

PRESETS = {
    "The 4096-token example": {"seq": 4096, "head_dim": 128, "block_q": 128, "causal": True},
    "Long context": {
        "seq": 131072,
        "head_dim": 128,
        "heads": 32,
        "kv_heads": 8,
        "block_q": 128,
        "dtype": "bfloat16",
        "causal": True,
    },
    "Decoding, 65,536 keys": {
        "seq": 1,
        "seq_kv": 65536,
        "head_dim": 128,
        "heads": 32,
        "kv_heads": 8,
        "causal": True,
    },
    "Tiny, to count by hand": {
        "seq": 64,
        "head_dim": 16,
        "heads": 1,
        "block_q": 16,
        "block_kv": 16,
        "dtype": "float32",
    },
}


def current() -> Experiment:
    """The experiment that the sidebar shows."""
    return st.session_state[EXPERIMENT]


def under(algorithm: str) -> Experiment:
    """The scenario under an algorithm that only this page shows."""
    return shows(current().changed(algorithm=algorithm))


def shows(experiment: Experiment) -> Experiment:
    """Note what this page made of the scenario; who takes the page home gets that."""
    st.session_state[SUBJECT] = experiment
    return experiment


def subject() -> Experiment:
    """What the page shows: the scenario, or what it made of it."""
    return st.session_state[SUBJECT] or current()


def notices() -> tuple[str, ...]:
    """One sentence for each value of the link that could not be used, until the scenario is changed."""
    return st.session_state[NOTICES]


def adopt() -> None:
    """Take the scenario from the URL when the session starts or the reader goes back, else from widgets.

    A URL without values is where Streamlit leads when the page is switched: it says nothing of the scenario.
    """
    values = st.query_params.to_dict()
    went_back = getattr(get_script_run_ctx(), "is_history_navigation", False) and values
    st.session_state[OFFERED], st.session_state[SUBJECT] = {}, None
    if EXPERIMENT in st.session_state and not went_back:
        return _take()
    st.session_state[PLACE] = places = {name: values.pop(name) for name in PLACES if name in values}
    st.session_state[ARRIVED] = "by link" if values else ""
    experiment, errors = Experiment.lenient(values)
    st.session_state[EXPERIMENT] = experiment
    if places.get("present", "false") not in ("true", "false"):
        errors = (*errors, ExperimentError("present", repr(places.pop("present"))[:60], "true or false"))
    st.session_state[NOTICES] = tuple(notice(error) for error in errors)
    st.session_state[TOUCHED], st.session_state[ECHOES] = [], {}


def publish(path: str) -> None:
    """Write the scenario to the URL, and where the reader is on the page of that path."""
    wanted = link_values(path)
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)


def link_values(path: str = "") -> dict[str, str]:
    """The values of a link to what is shown now: the scenario, the mode and, on the tour's page, its step."""
    names = PLACES if path == "tour" else ("present",)
    return {name: place(name) for name in names if place(name) not in ("", "false")} | url_values(current())


def short_values(path: str) -> dict[str, str]:
    """The fewest values of a link that others open: the scenario's own, and a step of the tour."""
    plain = {name: _text(parameter.default) for name, parameter in BY_NAME.items()}
    return {
        name: value
        for name, value in link_values(path).items()
        if name != "present" and value != plain.get(name)
    }


def place(name: str) -> str:
    """Where the reader is: the tour, its step, or "true" of present; empty where the link says nothing."""
    return st.session_state[PLACE].get(name, "")


def go(**places: str) -> None:
    """Set where the reader is."""
    st.session_state[PLACE].update(places)


def arrive(where: str, experiment: Experiment) -> None:
    """Show a place's own scenario when the reader comes there; a link that brings its own keeps it."""
    arrived, st.session_state[ARRIVED] = st.session_state[ARRIVED], where
    if arrived not in (where, "by link"):
        st.session_state[EXPERIMENT], st.session_state[NOTICES] = experiment, ()


def key(name: str) -> str:
    """The key of a widget that stands beside the scenario and is not part of it."""
    return f"beside {name}"


def picked(name: str) -> Any:
    """What such a widget holds; None before it is first drawn, as pages run before the sidebar."""
    return st.session_state.get(key(name))


def unpick(name: str) -> None:
    """Let such a widget start anew."""
    st.session_state.pop(key(name), None)


def presenting() -> bool:
    """Whether the page is shown to a room."""
    return place("present") == "true"


def tally(name: str, size: int) -> list[int]:
    """Counts that a page keeps for this visitor, zeros at first, to be changed in place."""
    return st.session_state.setdefault(f"tally {name}", [0] * size)


def offer(title: str, make: Callable[[], str], kind: str = "HTML") -> None:
    """Note what makes a file of something that this page shows: offline HTML, or a Perfetto trace."""
    st.session_state[OFFERED][title, kind] = make


def offered(kind: str) -> dict[str, Callable[[], str]]:
    """What this run of the page has offered to take home as files of a kind, by title."""
    return {title: make for (title, each), make in st.session_state[OFFERED].items() if each == kind}


def url_values(experiment: Experiment) -> dict[str, str]:
    """The values of a link that restores the experiment exactly; the first few are always there."""
    flat = experiment.flat()
    defaults = {parameter.name: parameter.default for parameter in PARAMETERS}
    defaults |= {"kv_heads": flat["heads"], "seq_kv": flat["seq"]}
    return {name: _text(value) for name, value in flat.items() if name in ALWAYS or value != defaults[name]}


def control(name: str, options: Sequence[Any] | None = None) -> dict[str, Any]:
    """The arguments that tie a widget to one value; `options` are those of a select box.

    The widget is set only when it shows another value, so that a slider is never pulled back in mid-drag.
    It begins with the value too: a browser that a rerun overtakes misses the setting, and reports that.
    """
    key, value = _key(name), shown(name)
    if key not in st.session_state:
        st.session_state[key] = value
    elif st.session_state[key] != value:
        st.session_state[ECHOES].setdefault(name, set()).update((st.session_state[key], value))
        st.session_state[key] = value
    begins = {"value": OFF if name in EMPTIED else value}  # as an emptied field reports how it began
    if options is not None:
        begins = {"index": options.index(value) if value in options else None}
    return {"key": key, "on_change": _touch, "args": (name,), **begins}


def shown(name: str) -> Any:
    """A value as its widget shows it."""
    experiment = current()
    if name == "preset":
        return next((label for label in PRESETS if preset(label) == experiment), None)
    if name == "seq_kv" and experiment.problem.seq_kv == experiment.problem.seq_q:
        return OFF
    return experiment.flat()[name.removesuffix(" typed")]


def options(name: str, usual: tuple[int, ...]) -> list[int]:
    """What a slider offers: the usual values, and the last unusual one that was typed or came with a link."""
    extras = st.session_state.setdefault(EXTRAS, {})
    value = current().flat()[name]
    if value not in usual:
        extras[name] = value
    return sorted({*usual, extras.get(name, value)})


def counter(name: str, most: int, first: int) -> dict[str, Any]:
    """The arguments of a page's own counter from 0 to `most`: kept within its bounds when they change."""
    key = _key(name)
    value = min(st.session_state.get(key, first), most)
    if st.session_state.get(key) != value:
        st.session_state[key] = value
    return {"key": key, "value": value}


def count(key: str, by: int, most: int) -> None:
    """Move a counter, within its bounds."""
    st.session_state[key] = min(max(st.session_state[key] + by, 0), most)


def _key(name: str) -> str:
    return f"scenario {name}"


def _touch(name: str) -> None:
    st.session_state[TOUCHED].append(name)


def _take() -> None:
    """Change the scenario as the widgets say that have changed.

    While one widget is moved quickly, the browser still reports what another held before it was set to
    follow: that echo is no wish of the reader. Once a widget changes alone, the browser has caught up.
    """
    touched, echoes = st.session_state[TOUCHED], st.session_state[ECHOES]
    st.session_state[TOUCHED] = []
    if len(touched) == 1:
        echoes.clear()
    for name in touched:
        value = st.session_state.get(_key(name))
        if value not in echoes.get(name, ()):
            st.session_state[EXPERIMENT] = _with(current(), name, value)
            st.session_state[NOTICES] = ()


def _with(experiment: Experiment, name: str, value: Any) -> Experiment:
    if name == "preset":
        return preset(value) if value else experiment
    if value is OFF and name not in EMPTIED:
        return experiment
    return changed(experiment, name.removesuffix(" typed"), value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def notice(error: ExperimentError) -> str:
    """One sentence on a value of a link that was replaced; it quotes the link, so show it as text."""
    if error.field == "present":
        return f"The link's {error}. Shown instead: false."
    if error.field not in BY_NAME:
        return f"The link has a value named {error.field!r:.60}, which is not known here; it was left out."
    default = BY_NAME[error.field].default
    shown = {"kv_heads": "as many as heads", "seq_kv": "as many as queries"}.get(error.field, default)
    return f"The link's {error}. Shown instead: {'off' if shown is None else _text(shown)}."


def changed(experiment: Experiment, name: str, value: Any) -> Experiment:
    """The experiment with one value replaced; equal keys follow the queries, equal key heads the heads."""
    values = {name: value}
    problem = experiment.problem
    if name == "seq" and problem.seq_kv == problem.seq_q:
        values["seq_kv"] = value
    if name == "heads":
        most = value if problem.kv_heads == problem.heads else problem.kv_heads
        values["kv_heads"] = max(divisor for divisor in divisors(value) if divisor <= most)
    return experiment.changed(**values)


def divisors(number: int) -> list[int]:
    """Every divisor, in order."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def preset(name: str) -> Experiment:
    """The experiment of a preset for talks; raises KeyError."""
    return Experiment.of(**PRESETS[name])

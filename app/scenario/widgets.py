"""Widgets that show and change one value of the scenario each, and those that stand beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app.scenario import state
from app.scenario.presets import PRESETS, preset
from engine.experiment import Experiment, ExperimentError

TOUCHED, ECHOES, EXTRAS = "touched", "echoes", "extra options"
OFF, EMPTIED = None, ("before", "seq_kv")  # an emptied number: no window, as many keys as queries


def control(name: str, options: Sequence[Any] | None = None) -> dict[str, Any]:
    """The arguments that tie a widget to one value; `options` are those of a select box.

    The widget is set only when it shows another value, so that a slider is never pulled back in mid-drag.
    It begins with the value too: a browser that a rerun overtakes misses the setting, and reports that.
    """
    key, value = _key(name), _shown(name)
    if key not in st.session_state:
        st.session_state[key] = value
    elif st.session_state[key] != value:
        st.session_state[ECHOES].setdefault(name, set()).update((st.session_state[key], value))
        st.session_state[key] = value
    begins = {"value": OFF if name in EMPTIED else value}  # as an emptied field reports how it began
    if options is not None:
        begins = {"index": options.index(value) if value in options else None}
    return {"key": key, "on_change": _touch, "args": (name,), **begins}


def options(name: str, usual: tuple[int, ...]) -> list[int]:
    """What a slider offers: the usual values, and the last unusual one that was typed or came with a link."""
    extras = state.kept(EXTRAS, {})
    value = _number(state.current(), name)
    if value not in usual:
        extras[name] = value
    return sorted({*usual, extras.get(name, value)})


def forget() -> None:
    """What widgets have reported is of another scenario."""
    st.session_state[TOUCHED], st.session_state[ECHOES] = [], {}


def take() -> None:
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
            try:
                state.replace(_with(state.current(), name, value))
            except ExperimentError as error:  # of what was typed
                state.note(f"The scenario was not changed, because {error}.")


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


def key_beside(name: str) -> str:
    """The key of a widget that stands beside the scenario and is not part of it."""
    return f"beside {name}"


def value_beside(name: str) -> Any:
    """What such a widget holds, or held where a page does not draw it; None before it is first drawn."""
    held = state.kept("beside", {})
    if key_beside(name) in st.session_state:
        held[name] = st.session_state[key_beside(name)]
    return held.get(name)


def clear_beside(name: str) -> None:
    """Let such a widget start anew."""
    st.session_state.pop(key_beside(name), None)
    state.kept("beside", {}).pop(name, None)


def counter(name: str, most: int, first: int) -> dict[str, Any]:
    """The arguments of a page's own counter from 0 to `most`: kept within its bounds when they change."""
    key = _key(name)
    value = min(st.session_state.get(key, first), most)
    if st.session_state.get(key) != value:
        st.session_state[key] = value
    return {"key": key, "value": value}


def count(key: str, by: int, most: int) -> int:
    """Move a counter, within its bounds; where it stands then."""
    st.session_state[key] = min(max(st.session_state[key] + by, 0), most)
    return st.session_state[key]


def _key(name: str) -> str:
    return f"scenario {name}"


def _shown(name: str) -> Any:
    """A value as its widget shows it."""
    experiment = state.current()
    if name == "preset":
        return next((label for label in PRESETS if preset(label) == experiment), None)
    if name == "seq_kv" and experiment.problem.seq_kv == experiment.problem.seq_q:
        return OFF
    mask = experiment.problem.mask
    if name in ("before", "after"):
        return OFF if mask.window is None else mask.window - 1 if name == "before" else mask.keys_after
    if name == "lengths":
        return str(mask.documents_text()).replace(":", ", ")
    return _number(experiment, name.removesuffix(" typed"))


def _number(experiment: Experiment, name: str) -> Any:
    """A flat value; of lengths of documents, how many there are."""
    documents = experiment.problem.mask.documents
    if name == "documents" and not isinstance(documents, int):
        return len(documents)
    return experiment.flat()[name]


def _touch(name: str) -> None:
    st.session_state[TOUCHED].append(name)


def _with(experiment: Experiment, name: str, value: Any) -> Experiment:
    if name == "preset":
        return preset(value) if value else experiment
    if value is OFF and name not in EMPTIED:
        return experiment
    mask = experiment.problem.mask
    if name == "before":
        return changed(experiment, "window", value if value is OFF else (value, mask.ahead))
    if name == "after":  # alone it leaves all keys before
        return changed(experiment, "window", ((mask.window or experiment.problem.seq_kv) - 1, value))
    if name == "lengths":
        return changed(experiment, "documents", value)
    return changed(experiment, name.removesuffix(" typed"), value)

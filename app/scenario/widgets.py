"""Widgets that show and change one value of the scenario each."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app.scenario import state
from app.scenario.presets import PRESETS, preset
from engine.experiment import PARAMETERS, Experiment, ExperimentError
from engine.problem.heads import HeadsError, text_of
from engine.problem.problem import DRAWN

TEXT, FIRST = "sentence", "text:5.3"  # whose numbers: those of a text, at first of this layer and head
OFF, EMPTIED = None, ("before", "seq_kv")  # an emptied number: no window, as many keys as queries


def control(name: str, options: Sequence[Any] | None = None) -> dict[str, Any]:
    """The arguments that tie a widget to one value; `options` are those of a select box.

    A widget that has to show another value than it holds is replaced, by one of another key: while the one
    that it follows is moved quickly, the browser still reports what it held before, as if that were a wish.
    It begins with the value too: a browser that a rerun overtakes misses the setting, and reports that.
    """
    held, value, key = state.held(), _shown(name), f"scenario {name}"
    key, _ = held.get(name, (key, value))
    if st.session_state.get(key, value) != value:
        st.session_state.pop(key, None)
        key = f"scenario {name} {int(key.removeprefix(f'scenario {name}') or 0) + 1}"
    if key not in st.session_state:
        st.session_state[key] = value
    held[name] = key, value
    begins = {"value": OFF if name in EMPTIED else value}  # as an emptied field reports how it began
    if options is not None:
        begins = {"index": options.index(value) if value in options else None}
    return {"key": key, **begins}


def options(name: str, usual: tuple[int, ...]) -> list[int]:
    """What a slider offers: the usual values, and the last unusual one that was typed or came with a link."""
    extras = state.kept("extra options", {})
    value = _number(state.current(), name)
    if value not in usual:
        extras[name] = value
    return sorted({*usual, extras.get(name, value)})


def forget() -> None:
    """What widgets report now is of another scenario, and was asked before a link asked otherwise."""
    held = state.held()
    held.update({name: (key, st.session_state.get(key)) for name, (key, _) in held.items()})


def take() -> None:
    """Change what is shown as the widgets say that hold another value than they were drawn with.

    No callback tells which: one that a rerun overtakes is lost, and what it would have told with it.
    """
    held = state.held()
    for name, (key, last) in list(held.items()):
        value = st.session_state.get(key, last)
        if value == last:
            continue
        held[name] = key, value
        if name.startswith("own "):  # of a page alone
            state.go(**{name.removeprefix("own "): str(value)})
            continue
        try:
            state.replace(_with(state.current(), name, value))
        except ExperimentError as error:
            if name == "lengths" or (name in PARAMETERS and PARAMETERS[name].label):  # typed
                state.note(f"The scenario was not changed, because {error}.")
        except HeadsError as error:
            state.note(f"{error}.")


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


def text(value: Any) -> str:
    """A flat value as a link has it; empty where it is none."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def divisors(number: int) -> list[int]:
    """Every divisor, in order."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def _shown(name: str) -> Any:
    """A value as its widget shows it."""
    experiment = state.current()
    if name in HEAD_OF:
        return HEAD_OF[name](experiment.problem.inputs)
    if name == "preset":
        return next((label for label in PRESETS if preset(label) == experiment), None)
    if name == "seq_kv" and experiment.problem.seq_kv == experiment.problem.seq_q:
        return OFF
    mask = experiment.problem.mask
    if name in ("before", "after"):
        return OFF if mask.window is None else mask.window - 1 if name == "before" else mask.keys_after
    if name == "lengths":
        return str(mask.documents_text).replace(":", ", ")
    if name in PARAMETERS and PARAMETERS[name].label:
        value = experiment.flat()[name]
        return value if PARAMETERS[name].is_switch else text(value)
    return _number(experiment, name.removesuffix(" typed"))


def _number(experiment: Experiment, name: str) -> Any:
    """A flat value; of lengths of documents, how many there are."""
    documents = experiment.problem.mask.documents
    if name == "documents" and not isinstance(documents, int):
        return len(documents)
    return experiment.flat()[name]


def _with(experiment: Experiment, name: str, value: Any) -> Experiment:
    if name == "preset":
        return preset(value) if value in PRESETS else experiment
    if value is OFF and name not in EMPTIED:
        return experiment
    if name in HEAD_OF:
        return _of_head(experiment, name, value)
    mask = experiment.problem.mask
    if name == "before":
        return changed(experiment, "window", value if value is OFF else (value, mask.ahead))
    if name == "after":  # alone it leaves all keys before
        return changed(experiment, "window", ((mask.window or experiment.problem.seq_kv) - 1, value))
    if name == "lengths":
        return changed(experiment, "documents", value)
    return changed(experiment, name.removesuffix(" typed"), None if value == "" else value)


HEAD_OF = {  # what widgets show of the numbers' name
    "numbers": lambda inputs: TEXT if text_of(inputs) else inputs.split(":")[0],
    "sentence": lambda inputs: (text_of(inputs) or (0, 0, ""))[2],
    "layer": lambda inputs: (text_of(inputs) or (0,))[0],
    "head": lambda inputs: named[1] if (named := text_of(inputs)) else int(f"{inputs}:0".split(":")[1]),
}


def _of_head(experiment: Experiment, name: str, value: Any) -> Experiment:
    """On other numbers; where drawn ones were left, the scenario that had them comes back with them."""
    inputs, left = experiment.problem.inputs, state.kept("left for heads", {})
    if inputs == DRAWN:
        left["drawn"] = experiment
    if name == "numbers" and value == DRAWN:
        return left.get("drawn") or experiment.changed(inputs=DRAWN)
    if name == "numbers":
        return experiment.on(FIRST if value == TEXT else f"{value}:0")
    if (named := text_of(inputs)) is None:
        return experiment.changed(inputs=f"{inputs.split(':')[0]}:{value}")
    parts = dict(zip(("layer", "head", "sentence"), named, strict=True)) | {name: value}
    return experiment.on("text:{layer}.{head}:{sentence}".format(**parts))

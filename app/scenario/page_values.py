"""What one page alone asks: in its address beside the scenario, and kept while other pages are shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.scenario import state
from engine.experiment import ExperimentError
from engine.studies import beyond, paging, several_gpus, tensor_memory, your_model, zoom


@dataclass(frozen=True)
class Own:
    """The page that asks for a value, what it may be, and what it usually is."""

    page: str
    options: tuple
    usual: Any

    def read(self, text: str) -> Any:
        """The option that a link's text means; None where it means none."""
        return next((each for each in self.options if str(each).lower() == text.strip().lower()), None)


OWN: Mapping[str, Own] = {
    name: Own(page, options, usual)
    for page, asked in (
        *(("across", several_gpus.CHOICES), ("decoding", paging.CHOICES), ("zoom", zoom.CHOICES)),
        ("model", your_model.CHOICES),
        ("flash3", tensor_memory.CHOICES),
        ("beyond", beyond.CHOICES),
    )
    for name, (options, usual) in asked.items()
}


def read(values: Mapping[str, str]) -> tuple[dict[str, str], list[ExperimentError]]:
    """Those of a link's values that are a page's own, and what is wrong with the others of these names."""
    found, errors = {}, []
    for name in values.keys() & OWN.keys():
        if OWN[name].read(values[name]) is not None:
            found[name] = values[name]
        else:
            must = f"one of {', '.join(map(str, OWN[name].options))}"
            errors.append(ExperimentError(name, repr(values[name])[:60], must))
    return found, errors


def own(name: str) -> Any:
    """The value that is asked for, or the usual one."""
    value = OWN[name].read(state.place(name))
    return OWN[name].usual if value is None else value


def tie(name: str, value: Any, key: str = "") -> dict[str, Any]:
    """The arguments that tie a widget, which shows this value, to one that a page asks for."""
    key = f"own {key or name}"
    if st.session_state.get(key) != value:
        st.session_state[key] = value
    _held()[name] = key, value
    return {"key": key}


def take() -> None:
    """Ask for what the widgets hold that hold another value than they were drawn with."""
    for name, (key, last) in list(_held().items()):
        value = st.session_state.get(key, last)
        if value != last:
            state.go(**{name: str(value)})
            _held()[name] = key, value


def forget() -> None:
    """What widgets report now was asked before a link asked otherwise."""
    _held().clear()


def _held() -> dict[str, tuple[str, Any]]:
    """Of every value the key of its widget, and what that held when it was last seen."""
    return state.kept("held own", {})


def own_values(page: str) -> dict[str, str]:
    """What a link to a page says of its own values: those that are not the usual ones."""
    asked = {name: own(name) for name, one in OWN.items() if one.page == page}
    return {name: str(value) for name, value in asked.items() if value != OWN[name].usual}


def asked(page: str, link: Mapping[str, str]) -> dict[str, Any]:
    """What a link asks of a page, by name; the usual where it asks nothing."""
    own = {name: one for name, one in OWN.items() if one.page == page}
    read = {name: one.read(link.get(name, "")) for name, one in own.items()}
    return {name: own[name].usual if value is None else value for name, value in read.items()}

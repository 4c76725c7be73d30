"""What one page alone asks: in its address beside the scenario, and kept while other pages are shown."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import streamlit as st

from app.scenario import state
from engine.experiment import ExperimentError
from engine.studies import beyond, decoding, several_gpus, tensor_memory, your_model, zoom


class Own(NamedTuple):
    """What a value may be, what it usually is, and the page that asks for it."""

    options: tuple
    usual: Any
    page: str

    def read(self, text: str) -> Any:
        """The option that a link's text means; None where it means none."""
        return next((each for each in self.options if str(each).lower() == text.strip().lower()), None)


ASKED = {
    "across": several_gpus,
    "decoding": decoding,
    "zoom": zoom,
    "model": your_model,
    "flash3": tensor_memory,
    "beyond": beyond,
}
OWN: Mapping[str, Own] = {
    name: Own(*choice, page) for page, study in ASKED.items() for name, choice in study.CHOICES.items()
}


def read(values: Mapping[str, str]) -> tuple[dict[str, str], list[ExperimentError]]:
    """Those of a link's values that are a page's own, and what is wrong with the others of these names."""
    found, errors = {}, []
    for name in (name for name in values if name in OWN):
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
    state.held()[f"own {name}"] = key, value
    return {"key": key}


def own_values(page: str) -> dict[str, str]:
    """What a link to a page says of its own values: those that are not the usual ones."""
    asked_for = asked(page, {name: state.place(name) for name in OWN})
    return {name: str(value) for name, value in asked_for.items() if value != OWN[name].usual}


def asked(page: str, link: Mapping[str, str]) -> dict[str, Any]:
    """What a link asks of a page, by name; the usual where it asks nothing."""
    read = {name: (one.read(link.get(name, "")), one.usual) for name, one in OWN.items() if one.page == page}
    return {name: usual if value is None else value for name, (value, usual) in read.items()}

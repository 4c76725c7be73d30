"""What a browser sends is believed as far as its page can mean it; the rest is one line in the log.

A number field that holds no number, JSON that is none, a message that is no message: a page never sends them,
and they change nothing but the session that they came in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from streamlit.logger import get_logger
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.runtime import app_session
from streamlit.runtime.state.session_state import Serialized, SessionState, WStates

from app.scenario.link import TOO_LONG

LOG = get_logger(__name__)
SAID_WITH_TRACEBACK = (
    "streamlit.web.server.starlette.starlette_websocket",
    "streamlit.components.v2.bidi_component.serialization",
)
WORDS = "string_array_value"
UNREADABLE = "A browser reports a value that its widget cannot hold; it was left out."


def believe_what_can_be() -> None:
    """From now on, in this process."""
    WStates.__getitem__ = _readable(WStates.__getitem__)
    SessionState.set_widgets_from_proto = _all_read(SessionState.set_widgets_from_proto)
    app_session.sanitize_query_string = _named(app_session.sanitize_query_string)
    for name in SAID_WITH_TRACEBACK:
        get_logger(name).addFilter(_without_traceback)


def _readable(usual: Callable[[WStates, str], Any]) -> Callable[[WStates, str], Any]:
    """A widget's value; one that cannot be read is as if it had not come."""

    def value(states: WStates, key: str) -> Any:
        held, metadata = states.states.get(key), states.widget_metadata.get(key)
        if not isinstance(held, Serialized) or metadata is None:
            return usual(states, key)
        try:
            said = held.value.WhichOneof("value")
            # a browser says whole numbers as such; what a slider of words reads of others is of no use
            if metadata.value_type != WORDS or said in (None, WORDS):
                return usual(states, key)
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
            pass
        del states.states[key]
        LOG.warning(UNREADABLE)
        raise KeyError(key)

    return value


def _all_read(usual: Callable) -> Callable:
    """Read all that has come at once: nothing may be left out while callbacks go through it."""

    def read(state: SessionState, widget_states: WidgetStates) -> None:
        usual(state, widget_states)
        for key in list(state._new_widget_state.states):
            with suppress(KeyError):
                state._new_widget_state[key]

    return read


def _named(usual: Callable[[str], str]) -> Callable[[str], str]:
    """A link's values; where they are more than Streamlit takes, a name that says so."""
    return lambda query: usual(query) or (f"{TOO_LONG}=true" if query else "")


def _without_traceback(record: logging.LogRecord) -> bool:
    """What a browser sent says nothing about this program: the sentence is enough."""
    record.exc_info = record.exc_text = None
    return True

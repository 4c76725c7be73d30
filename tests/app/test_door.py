"""What no page sends changes nothing but the session that it came in, and is one line in the log."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.runtime import app_session
from streamlit.runtime.state.common import WidgetMetadata
from streamlit.runtime.state.session_state import Serialized, SessionState, WStates

from app.frame import door
from app.scenario import link
from app.serving import guard
from tests.app.test_serving import _run


@pytest.fixture
def guarded(monkeypatch):
    """A session's state behind the door."""
    for owner, name in (
        (WStates, "__getitem__"),
        (SessionState, "set_widgets_from_proto"),
        (app_session, "sanitize_query_string"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # to come back
    door.believe_what_can_be()
    return SessionState()


def reported(**values) -> WidgetStates:
    """What a browser says of a widget named "a"."""
    states = WidgetStates()
    widget = states.widgets.add(id="a")
    for name, value in values.items():
        if name.endswith("array_value"):
            getattr(widget, name).data.append(value)
        else:
            setattr(widget, name, value)
    return states


def integer(value) -> int:
    return int(3 if value is None else value)


@pytest.mark.parametrize(
    "said",
    [
        {"double_value": float("nan")},
        {"double_value": float("inf")},
        {"string_value": "x"},
        {"string_array_value": "1"},
        {"json_value": "[" * 9999},
    ],
)
def test_a_number_that_is_none_is_left_out_with_one_line(guarded, monkeypatch, said):
    lines = []
    monkeypatch.setattr(door, "LOG", SimpleNamespace(warning=lines.append))
    known = WidgetMetadata("a", integer, float, "double_value")
    guarded._new_widget_state.widget_metadata["a"] = known
    guarded.set_widgets_from_proto(reported(**said))
    assert "a" not in guarded._new_widget_state.states
    assert lines == [door.UNREADABLE]
    with pytest.raises(KeyError):
        guarded._new_widget_state["a"]


def test_what_a_widget_can_hold_is_taken(guarded):
    guarded._new_widget_state.widget_metadata["a"] = WidgetMetadata("a", integer, float, "double_value")
    for said in ({"double_value": 7.0}, {"int_value": 7}):  # a browser says whole numbers as such
        guarded.set_widgets_from_proto(reported(**said))
        assert guarded._new_widget_state["a"] == 7
        guarded._new_widget_state.widget_metadata["a"] = WidgetMetadata("a", integer, float, "double_value")
    guarded.set_widgets_from_proto(reported())  # an emptied field
    assert guarded._new_widget_state["a"] == 3


def test_a_slider_of_words_takes_words_alone(guarded):
    words = WidgetMetadata("a", lambda said: list(said or ["x"]), list, "string_array_value")
    for said, taken in (
        ({"string_array_value": "b"}, ["b"]),
        ({}, ["x"]),
        ({"double_array_value": 7.0}, None),
    ):
        guarded._new_widget_state.widget_metadata["a"] = words
        guarded.set_widgets_from_proto(reported(**said))
        assert guarded._new_widget_state.get("a") == taken


def test_a_value_for_a_widget_that_comes_later_is_read_when_it_comes(guarded):
    guarded.set_widgets_from_proto(reported(double_value=float("nan")))
    assert isinstance(guarded._new_widget_state.states["a"], Serialized)
    guarded._new_widget_state.widget_metadata["a"] = WidgetMetadata("a", integer, float, "double_value")
    with pytest.raises(KeyError):
        guarded._new_widget_state["a"]
    assert not guarded._new_widget_state.states


def test_a_message_that_is_none_is_a_sentence_without_a_traceback(guarded):
    for name in door.SAID_WITH_TRACEBACK:
        logger, lines = logging.getLogger(name), []
        handler = logging.Handler()
        handler.emit = lambda record, lines=lines: lines.append(logging.Formatter().format(record))
        logger.addHandler(handler)
        try:
            raise ValueError("secret")
        except ValueError:
            logger.warning("Error deserializing", exc_info=sys.exc_info())
        finally:
            logger.removeHandler(handler)
        assert lines == ["Error deserializing"]


@pytest.mark.parametrize(("said", "kind"), [({"text": "a"}, "disconnect"), ({"bytes": b"a"}, "receive")])
def test_who_sends_text_is_taken_as_gone(said, kind):
    kinds = []

    async def receive():
        return {"type": "websocket.receive", **said}

    async def application(scope, receive, send):
        kinds.append((await receive())["type"])

    _run(guard.Guard(application)({"type": "websocket"}, receive, None))
    assert kinds == [f"websocket.{kind}"]


def test_a_link_of_too_many_values_is_said_to_be_left_out(guarded, open_app):
    taken = app_session.sanitize_query_string
    assert taken("seq=64&causal=true") == "seq=64&causal=true"
    assert taken("") == ""
    name, _, value = taken("&".join(f"a{number}=1" for number in range(1001))).partition("=")
    app = open_app("tiles", **{name: value})
    assert [text.value for text in app.text] == [link.LEFT_OUT]
    assert name not in app.query_params


def test_a_choice_that_nobody_offers_changes_nothing(open_app):
    app = open_app("traffic")
    before = app.session_state["experiment"]
    for key, wish in (("scenario preset", "\0none"), ("scenario algorithm", "none"), ("scenario causal", 7)):
        app.session_state[key] = wish
        app._run()
        assert not app.exception
        assert app.session_state["experiment"] == before

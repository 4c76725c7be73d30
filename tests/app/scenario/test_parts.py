"""A part that is shown again is what would have been drawn, and only where the browser holds its values."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from streamlit.runtime.state.common import TESTING_KEY
from streamlit.runtime.state.session_state import SessionState, Value

from app.scenario import again, state
from app.sidebar import Field
from tests.app.scenario.test_first_run import elements


@pytest.fixture
def parts(monkeypatch):
    """Parts that are kept from now on, and the labels of the fields that are drawn nonetheless."""
    parts = again.Parts()
    parts.on, parts.drawn = True, []
    monkeypatch.setattr(again.PARTS, "show", parts.show)
    usual = Field.draw
    monkeypatch.setattr(Field, "draw", lambda *each: parts.drawn.append(each[0].label) or usual(*each))
    return parts


PRESET = "Decoding, 65,536 keys"
MOVES = (
    ("Sequence length, typed", 1216),
    ("Mask", True),  # greys a field
    ("Heads", 6),  # offers other KV heads
    ("Scenario", PRESET),  # sets nearly all
    ("Heads", 2),  # whose widget was replaced
)


def move(app, label: str, value) -> None:
    """Set the control of that label, and run."""
    controls = (*app.number_input, *app.selectbox)
    next(control for control in controls if control.label == label).set_value(value).run()
    assert not app.exception


def drawn_as(app) -> list[tuple[str, bytes]]:
    """What a page holds; what a grey widget holds is not told again, as Streamlit does in every run."""
    for node in app._tree:
        proto = getattr(node, "proto", None)
        if getattr(proto, "disabled", False) and getattr(proto, "set_value", False):
            for name in ("set_value", "raw_value", "value"):
                if name in proto.DESCRIPTOR.fields_by_name:
                    proto.ClearField(name)
    return elements(app)


def test_a_page_with_parts_shown_again_is_the_page_that_is_drawn(open_app, parts, monkeypatch):
    shown, other = open_app("tiles"), open_app("tiles")
    with monkeypatch.context() as usually:
        usually.setattr(parts, "on", False)
        drawn = open_app("tiles")
    fields = len(parts.drawn) // 3
    for label, value in MOVES:
        for app in (shown, other):
            parts.drawn.clear()
            app.session_state[TESTING_KEY] |= drawn.session_state[
                TESTING_KEY
            ]  # notes that AppTest alone takes
            move(app, label, value)
        others = len(parts.drawn)
        with monkeypatch.context() as usually:
            usually.setattr(parts, "on", False)
            move(drawn, label, value)
        assert drawn_as(shown) == drawn_as(other) == drawn_as(drawn)
        assert shown.session_state[state.EXPERIMENT] == drawn.session_state[state.EXPERIMENT]
        held = [app.session_state._state.filtered_state.keys() for app in (shown, drawn)]
        assert held[0] == held[1]
        assert others < fields or value == PRESET
    for app in (shown, other):  # nothing moves
        app.run()
        parts.drawn.clear()
        app.run()
        assert parts.drawn == []
    assert drawn_as(shown) == drawn_as(other)


@pytest.fixture
def session():
    """A session whose widget "id" held 3 in the run before."""
    return SessionState(_old_state={"id": 3})


@pytest.mark.parametrize(
    ("said", "disabled", "settled", "left"),
    [
        ({}, False, True, []),
        ({"id": 4}, False, True, ["id"]),  # moved: the page was asked with it
        ({"id": 3}, True, True, []),  # a browser repeats what a grey widget holds
        ({"id": 4}, True, False, ["id"]),  # nobody could move it
    ],
)
def test_a_grey_widget_keeps_what_it_held(session, said, disabled, settled, left):
    session._new_widget_state.states.update({name: Value(value) for name, value in said.items()})
    widget = SimpleNamespace(id="id", disabled=disabled)
    assert again._settled(session, "key", widget) is settled
    assert list(session._new_widget_state.states) == left


def test_a_widget_whose_value_was_set_or_that_is_new_is_drawn(session):
    widget = SimpleNamespace(id="id", disabled=False)
    session._new_session_state["key"] = 3
    assert not again._settled(session, "key", widget)
    assert not again._settled(session, "other key", SimpleNamespace(id="other", disabled=False))


def test_parts_are_bounded_and_those_that_set_a_value_are_not_kept(monkeypatch):
    monkeypatch.setattr(again, "MOST", 3)
    parts, message = again.Parts(), again.ForwardMsg()
    for number in range(9):
        parts._keep(number, SimpleNamespace(messages=(message,)))
    assert list(parts._kept) == [6, 7, 8]
    message.delta.new_element.number_input.set_value = True
    parts._keep(9, SimpleNamespace(messages=(message,)))
    assert list(parts._kept) == [6, 7, 8]

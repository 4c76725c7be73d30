"""While a slider is moved quickly, a run is made of its last value alone, and of every button."""

from __future__ import annotations

import asyncio

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from app.serving import moving
from tests.app.test_serving import _run


class Session:
    """What a session is to who hands it messages: something that can be held weakly."""


def move(value: float, fragment: str = "", **more) -> BackMsg:
    """A message as a browser sends it when a slider stands at a value."""
    message = BackMsg()
    message.rerun_script.fragment_id = fragment
    message.rerun_script.widget_states.widgets.add(id="slider").double_array_value.data.append(value)
    for name, given in more.items():
        setattr(message.rerun_script, name, given)
    return message


def press(value: float) -> BackMsg:
    message = move(value)
    message.rerun_script.widget_states.widgets.add(id="button", trigger_value=True)
    return message


def stop() -> BackMsg:
    return BackMsg(stop_script=True)


@pytest.mark.parametrize(
    ("sent", "at_once", "in_the_end"),
    [
        ([move(1)], [1], [1]),
        ([move(1), move(2), move(3), move(4)], [1], [1, 4]),
        ([move(1), move(2), press(3), move(4)], [1, 2, 3], [1, 2, 3, 4]),
        ([move(1), move(2, "part"), move(3)], [1, 2], [1, 2, 3]),
        ([move(1), move(2), move(3, page_name="speed")], [1, 2], [1, 2, 3]),
        ([move(1), move(2), move(3, is_history_navigation=True)], [1, 2, 3], [1, 2, 3]),
        ([move(1), move(2), stop()], [1, 2, "stop"], [1, 2, "stop"]),
    ],
)
def test_of_quick_moves_the_first_and_the_last_are_handed_on(monkeypatch, sent, at_once, in_the_end):
    monkeypatch.setattr(moving, "QUICK", 1e9)
    monkeypatch.setattr(moving, "MOVING", 0.01)
    handed = []

    async def send() -> None:
        handle, session = moving.awaiting(lambda _, message: handed.append(message)), Session()
        for message in sent:
            handle(session, message)
        assert told(handed) == at_once
        while len(handed) < len(in_the_end):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)  # nothing else comes

    def told(messages) -> list:
        return [
            message.rerun_script.widget_states.widgets[0].double_array_value.data[0]
            if message.HasField("rerun_script")
            else "stop"
            for message in messages
        ]

    _run(send())
    assert told(handed) == in_the_end


def test_moves_far_apart_and_of_others_wait_for_nobody(monkeypatch):
    handed = []
    handle = moving.awaiting(lambda session, _: handed.append(session))
    one, other = Session(), Session()
    monkeypatch.setattr(moving.time, "monotonic", iter((0.0, 0.1, 0.31)).__next__)
    for session in (one, other, one):
        handle(session, move(1))
    assert handed == [one, other, one]

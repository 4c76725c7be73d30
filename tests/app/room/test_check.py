"""The check before a lecture: each line says what there is, and a port that is taken is told."""

import socket

from app.room import check
from app.room.server import listen


def test_a_free_port_answers_and_a_taken_one_is_told(monkeypatch):
    with listen("127.0.0.1", 0) as taken:
        number = taken.getsockname()[1]
        found = dict(reversed(line) for line in check.lines("127.0.0.1", number, 0))
    said = " ".join(found)
    assert f"Port {number} cannot serve the room: Address already in use." in found
    assert "is free for the dashboard, and answers." in said
    assert "This machine is in no network" in said
    assert "only a phone can tell" in said
    assert "Kernels run" in said or "No kernel runs here" in said


def test_a_port_that_nothing_can_reach_is_told(monkeypatch):
    def refused(*_):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", refused)
    said = [sentence for verdict, sentence in check.lines("10.1.2.3", 0, 0) if verdict == check.LOOK]
    assert any("cannot serve the dashboard: Connection refused." in sentence for sentence in said)

"""The check before a lecture: each line says what there is, and a port that is taken is told."""

import socket
from types import SimpleNamespace

from app.room import check
from app.room.server import listen
from engine.worker.jobs import JobError


def test_each_line_says_what_there_is_and_a_port_that_is_taken_or_that_nothing_reaches(monkeypatch):
    monkeypatch.setattr(check, "machine", lambda: SimpleNamespace(cuda=True, device="an H200"))
    with listen("127.0.0.1", 0) as taken:
        number = taken.getsockname()[1]
        found = dict(reversed(line) for line in check.lines("127.0.0.1", number, 0))
    said = " ".join(found)
    assert found[f"Port {number} cannot serve the room: Address already in use."] == check.LOOK
    for sentence in ("is free for the dashboard, and answers.", "127.0.0.1: No phone can join"):
        assert sentence in said
    assert found.keys() > {"Kernels run on an H200."}
    assert "only a phone can tell" in said

    def refused(*_):
        raise ConnectionRefusedError(111, "Connection refused")

    def missing():
        raise JobError("PyTorch is not installed")

    monkeypatch.setattr(check, "machine", missing)
    monkeypatch.setattr(socket, "create_connection", refused)
    looks = [sentence for verdict, sentence in check.lines("10.1.2.3", 0, 0) if verdict == check.LOOK]
    assert any("cannot serve the dashboard: Connection refused." in each for each in looks)
    assert "No kernel runs here: PyTorch is not installed." in looks

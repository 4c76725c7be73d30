"""What pages say alike: made once, and said also by a session that another overtakes."""

from __future__ import annotations

from types import SimpleNamespace

from app.serving import said


class Forgotten(dict):
    """What another session forgets as soon as this one has seen that it is there."""

    def __contains__(self, key) -> bool:
        there = super().__contains__(key)
        self.clear()
        return there


def test_what_another_session_forgets_meanwhile_is_said_all_the_same(monkeypatch):
    heard, drawn = [], []
    ctx = SimpleNamespace(_enqueue=heard.append)
    monkeypatch.setattr(said, "get_script_run_ctx", lambda: ctx)
    monkeypatch.setattr(said, "get_instance", lambda: None)
    monkeypatch.setattr(said, "_said", Forgotten())

    class Place:
        _cursor = SimpleNamespace(delta_path=[0, 1])

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    def draw() -> None:
        drawn.append(True)
        ctx._enqueue("a message")

    for _ in range(2):
        said.said_once(Place(), "a footer", draw)
    assert (heard, drawn) == (["a message"] * 2, [True])

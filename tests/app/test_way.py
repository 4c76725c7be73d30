"""Short runs go first: a long one waits between the pieces of its computation, and not for ever."""

from __future__ import annotations

import time
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from app.serving import way
from engine.problem import cache
from engine.problem.cache import set_way

PATIENCE = 300  # s


@pytest.fixture
def clock(monkeypatch):
    """Seconds of a processor that a run has taken, as a test sets them."""
    taken = [0.0]
    times = {"thread_time": lambda: taken[0], "monotonic": time.monotonic, "sleep": time.sleep}
    monkeypatch.setattr(way, "time", SimpleNamespace(**times))
    return taken


def started(*steps) -> Thread:
    """A thread that takes these steps one after the other."""
    thread = Thread(target=lambda: [step() for step in steps], daemon=True)
    thread.start()
    return thread


def test_a_long_run_waits_for_a_short_one_and_no_longer(clock, monkeypatch):
    monkeypatch.setattr(way, "PASSING", PATIENCE)
    monkeypatch.setattr(way, "PATIENCE", PATIENCE)
    ways, begun, end = way.Way(), Event(), Event()

    def short() -> None:
        with ways.run():
            begun.set()
            end.wait(PATIENCE)

    passing = started(short)
    begun.wait(PATIENCE)
    done, computed = [], Event()

    def long() -> None:
        with ways.run():
            ways.give()  # it is short until it has computed for long
            done.append("short")
            computed.set()
            clock[0] = PATIENCE
            ways.give()
            done.append("long")

    waiting = started(long)
    computed.wait(PATIENCE)
    waiting.join(0.05)
    assert done == ["short"]
    end.set()
    for thread in (passing, waiting):
        thread.join(PATIENCE)
    assert done == ["short", "long"]
    assert ways._short == 0


def test_long_runs_do_not_wait_for_each_other_and_patience_ends(clock, monkeypatch):
    monkeypatch.setattr(way, "PASSING", 0.01)
    monkeypatch.setattr(way, "PATIENCE", 0.02)
    ways, begun, end = way.Way(), Event(), Event()

    def other() -> None:
        with ways.run():
            begun.set()
            end.wait(PATIENCE)

    passing = started(other)
    begun.wait(PATIENCE)
    with ways.run():
        clock[0] = 2 * way.SHORT
        for _ in range(9):
            ways.give()
        assert 0.01 <= ways._mine.run.waited < PATIENCE
        assert ways._mine.run.waited >= way.PATIENCE
    end.set()
    passing.join(PATIENCE)
    ways.give()  # outside of a run nobody waits
    assert ways._short == 0


def test_a_run_waits_no_longer_than_some_times_what_it_has_computed(clock, monkeypatch):
    monkeypatch.setattr(way.time, "sleep", lambda seconds: None)
    ways, waited = way.Way(), []
    ways._short = 1  # one that never ends
    monkeypatch.setattr(ways._changed, "wait_for", lambda done, seconds: waited.append(seconds))
    monkeypatch.setattr(way.time, "monotonic", lambda: sum(waited))
    with ways.run():
        clock[0] = way.SHORT
        for _ in range(9):
            ways.give()
    assert sum(waited) == pytest.approx(way.TIMES * way.SHORT)


def test_a_computation_gives_way_before_each_piece_that_is_made(monkeypatch):
    monkeypatch.setattr(cache, "_ways", [])
    given = []
    set_way(lambda: given.append(1))
    double = cache.kept(most=4, most_bytes=100)(lambda number: 2 * number)
    assert [double(3), double(3), double(4)] == [6, 6, 8]
    assert len(given) == 2

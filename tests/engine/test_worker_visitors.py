"""Who waits for whom: a visitor's share, turns that are fair, and jobs that end with their last viewer."""

import time
from types import SimpleNamespace

import pytest

from engine.worker import client
from engine.worker.client import GONE_SECONDS, QueueFullError, Run, Visitor, Worker
from tests.engine.test_worker import COUNT, JOBS, PATIENCE, until


@pytest.fixture
def worker(monkeypatch):
    """A worker whose one process is busy with somebody's long job; the test alone looks for viewers."""
    monkeypatch.setattr(client, "LOOKED_EVERY", 3600)
    worker = Worker(limit_seconds=3600)
    job = worker.submit(f"{JOBS}:endless", {})
    until(lambda: job.state == "running")
    yield worker
    worker.close()


def visitor(name: str) -> Visitor:
    return Visitor(name, lambda: True)


def ask(worker: Worker, who: Visitor, number: int):
    return worker.submit(COUNT, {"to": 1, "name": f"{who.name} {number}"}, visitor=who)


def test_a_job_dies_with_its_last_viewer_and_not_before(worker):
    here = {"ann": True, "bob": True}
    payload = {"to": 1}
    ann, bob = (
        worker.submit(COUNT, payload, visitor=Visitor(name, lambda name=name: here[name])) for name in here
    )
    now = time.monotonic()
    worker._give_up(now)
    here["ann"] = False
    worker._give_up(now + GONE_SECONDS / 2)  # she may only be reloading
    assert (ann.state, bob.state) == ("queued", "queued")
    worker._give_up(now + 2 * GONE_SECONDS)
    assert (ann.state, bob.state) == ("cancelled", "queued")
    here["bob"] = False
    worker._give_up(now + 4 * GONE_SECONDS)
    assert bob.state == "cancelled"
    assert not worker.waiting


def test_a_running_job_whose_window_is_closed_leaves_the_process_to_the_next(worker):
    there = [True]
    worker.current.claims[0]._visitor = Visitor("gone", lambda: there[0])
    next_one = ask(worker, visitor("ann"), 1)
    there[0] = False
    worker._give_up(time.monotonic() + 2 * GONE_SECONDS)
    assert next_one.wait(PATIENCE)
    assert next_one.state == "done"


def test_a_visitor_has_three_jobs_at_most_and_others_are_still_served(worker):
    ann = visitor("ann")
    jobs = [ask(worker, ann, number) for number in range(3)]
    with pytest.raises(QueueFullError, match="3 of your jobs run or wait here"):
        ask(worker, ann, 3)
    assert ask(worker, ann, 2).state == "queued"  # the same as one of hers
    assert ask(worker, visitor("bob"), 1).state == "queued"
    jobs[0].cancel()
    assert ask(worker, ann, 3).state == "queued"


def test_every_visitors_first_job_comes_before_anyones_second(worker):
    ann, bob, eve = map(visitor, ("ann", "bob", "eve"))
    jobs = [ask(worker, who, at) for at, who in enumerate((ann, ann, ann, bob, bob, eve))]
    assert [job.position for job in jobs] == [1, 4, 6, 2, 5, 3]
    worker.current.claims[0]._visitor = ann  # hers runs already
    assert [job.position for job in jobs] == [3, 5, 6, 1, 4, 2]


def test_waiting_is_told_by_what_such_jobs_took_and_by_how_far_the_running_one_is(monkeypatch):
    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: 1050.0))
    waits = Worker()
    running, first, second = (Run(name, COUNT, {}) for name in ("running", "first", "second"))
    waits.current, waits.waiting, waits.took = (running, [first, second], {COUNT: 7000.0})
    running.fraction, running.started_at = 0.25, 1000.0  # a quarter took 50 s
    assert waits.seconds_ahead(first) == pytest.approx(150)
    assert waits.seconds_ahead(second) == pytest.approx(150 + 7000)
    running.fraction, waits.took = 0.0, {COUNT: 90.0}
    assert waits.seconds_ahead(first) == pytest.approx(40)

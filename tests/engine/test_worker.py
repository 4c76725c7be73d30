"""The worker: one queue for all, runs shared, crashes and cancels that cost nobody else anything."""

import itertools
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from engine.worker import client
from engine.worker.client import GONE_SECONDS, QueueFullError, Visitor, Worker
from tests.engine.test_watch_process import alive

JOBS = "tests.engine.worker_jobs"
COUNT = f"{JOBS}:count"
SLOW = {"to": 60_000, "pause": 0.05}  # 50 minutes, unless it is cancelled
PATIENCE = 600  # s
NEW = itertools.count()


@pytest.fixture(scope="module")
def worker():
    """One for all tests, which leave nothing under way: a process takes a third of a second to start."""
    worker = Worker(most_waiting=5, limit_seconds=600)
    yield worker
    worker.close()


def count(worker: Worker, to: int = 1, **values):
    """A job that nobody has asked for before."""
    return worker.submit(COUNT, {"to": to, "new": next(NEW), **values})


def done(job) -> bool:
    return job.wait(PATIENCE) and job.state == "done"


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_a_job_gives_rows_progress_and_a_result(worker):
    job = count(worker, 3)
    assert done(job)
    assert job.result == {"counted": 3}
    assert [row["number"] for row in job.rows] == [0, 1, 2]
    assert (job.progress, job.message, job.error, job.position) == (1.0, "counted 2", None, 0)


def test_three_hundred_equal_submissions_from_many_threads_cost_one_run(worker, tmp_path):
    """What is remembered is found, and run anew when asked."""
    payload, jobs = {"to": 3, "pause": 0.05, "log": str(tmp_path / "runs")}, []
    assert worker.finished(COUNT, payload) is None
    threads = [
        threading.Thread(target=lambda: jobs.append(worker.submit(COUNT, payload))) for _ in range(300)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(map(done, jobs))
    assert {job.result["counted"] for job in jobs} == {3}
    assert done(worker.submit(COUNT, payload))
    assert worker.finished(COUNT, payload).result == {"counted": 3}
    assert Path(payload["log"]).read_text() == "run\n"
    assert done(worker.submit(COUNT, payload, again=True))
    assert Path(payload["log"]).read_text() == "run\nrun\n"


def test_a_process_whose_gpu_was_lost_is_replaced_at_once(worker):
    lost = worker.submit(f"{JOBS}:lose", {})
    assert lost.wait(PATIENCE)
    assert (lost.state, lost.error) == ("failed", "the GPU failed: CUDA error")
    following = [worker.submit(f"{JOBS}:chatter", {"turn": turn}) for turn in range(2)]
    assert all(map(done, following))  # though it prints
    assert following[0].result == following[1].result != lost.rows[0]["pid"]


def test_queued_jobs_know_their_position_run_in_order_and_can_be_taken_out(worker, tmp_path):
    running, log = worker.submit(COUNT, SLOW), tmp_path / "log"
    until(lambda: running.state == "running")
    queued = [count(worker, log=str(log), name=name) for name in "abcde"]
    assert [job.position for job in queued] == [1, 2, 3, 4, 5]
    assert [job.state for job in queued] == ["queued"] * 5
    with pytest.raises(QueueFullError, match="the queue is full: 5 jobs wait"):
        count(worker)
    assert worker.submit(COUNT, queued[4]._run.payload).state == "queued"  # the same as one of them
    queued[0].cancel()
    assert (queued[0].state, queued[1].position) == ("cancelled", 1)
    running.cancel()  # at once
    assert running.state == "cancelled"
    assert all(map(done, queued[1:]))
    assert log.read_text().split() == ["b", "c", "d", "e"]


def test_one_visitor_cannot_cancel_the_run_of_another(worker, tmp_path):
    payload = {"to": 1, "after": str(tmp_path / "begin")}
    mine, theirs = worker.submit(COUNT, payload), worker.submit(COUNT, payload)
    mine.cancel()
    mine.cancel()
    (tmp_path / "begin").touch()
    assert done(theirs)
    assert mine.state == "cancelled"


def test_a_refusal_is_one_sentence_and_not_remembered(worker):
    job = worker.submit(f"{JOBS}:refuse", {"sentence": "no GPU has seven horns"})
    assert job.wait(PATIENCE)
    assert (job.state, job.error) == ("failed", "no GPU has seven horns")
    assert worker.finished(f"{JOBS}:refuse", {"sentence": "no GPU has seven horns"}) is None


@pytest.mark.parametrize(("signal", "words"), [(9, "killed by the system"), (11, "signal 11")])
def test_a_dead_process_is_one_sentence_and_the_next_job_runs(worker, signal, words):
    job, after = worker.submit(f"{JOBS}:crash", {"signal": signal}), count(worker)
    assert job.wait(PATIENCE)
    assert job.state == "failed"
    assert words in job.error
    assert job.rows == ({"number": 1},)
    assert done(after)


def test_a_job_beyond_its_time_is_stopped_and_keeps_its_rows(worker):
    job, after = worker.submit(f"{JOBS}:sweep_without_end", {}), count(worker)
    until(lambda: job.rows)
    worker._give_up(time.monotonic() + 590)
    assert job.state == "running"
    worker._give_up(time.monotonic() + 600)
    assert job.wait(PATIENCE)
    assert job.error == "stopped after 600 s, the limit for one job; what had come by then is kept"
    assert job.rows
    assert done(after)


def test_the_process_ends_with_its_parent():
    """In the middle of a job, too, in which it neither reads nor writes."""
    program = (
        "import os; from engine.worker.client import Worker; w = Worker();"
        f"job = w.submit('{JOBS}:sweep_without_end', {{}});\n"
        "while not job.rows: job.wait(0.01)\n"
        "print(w._process.pid, flush=True); os._exit(0)"
    )
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=PATIENCE)
    until(lambda: not alive(int(ended.stdout)))


def test_a_process_that_ends_while_it_has_nothing_to_do_leaves_nothing_open(worker):
    assert done(count(worker))
    process = worker._process
    process.kill()
    process.wait()
    assert done(count(worker))
    assert process.stdin.closed
    assert process.stdout.closed


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux tells who started whom")
def test_what_a_job_has_detached_ends_with_it(worker):
    job = worker.submit(f"{JOBS}:fork", {})
    until(lambda: job.rows)
    pids = job.rows[0]["pids"]
    assert all(map(alive, pids))
    job.cancel()
    until(lambda: not any(map(alive, pids)))


@pytest.fixture
def busy(monkeypatch):
    """A worker whose one process is busy with somebody's long job; the test alone looks for viewers."""
    monkeypatch.setattr(client, "LOOKED_EVERY", 3600)
    busy = Worker(limit_seconds=3600)
    job = busy.submit(f"{JOBS}:endless", {})
    until(lambda: job.state == "running")
    yield busy
    busy.close()


def visitor(name: str) -> Visitor:
    return Visitor(name, lambda: True)


def ask(busy: Worker, who: Visitor, number: int):
    return busy.submit(COUNT, {"to": 1, "name": f"{who.name} {number}"}, visitor=who)


def test_a_job_dies_with_its_last_viewer_and_not_before(busy):
    here = {"ann": True, "bob": True}
    payload = {"to": 1}
    ann, bob = (
        busy.submit(COUNT, payload, visitor=Visitor(name, lambda name=name: here[name])) for name in here
    )
    now = time.monotonic()
    busy._give_up(now)
    here["ann"] = False
    busy._give_up(now + GONE_SECONDS / 2)  # she may only be reloading
    assert (ann.state, bob.state) == ("queued", "queued")
    busy._give_up(now + 2 * GONE_SECONDS)
    assert (ann.state, bob.state) == ("cancelled", "queued")
    here["bob"] = False
    busy._give_up(now + 4 * GONE_SECONDS)
    assert bob.state == "cancelled"
    assert not busy.waiting
    busy.current.claims[0]._visitor = Visitor("gone", lambda: False)  # one that runs leaves to the next
    next_one = ask(busy, visitor("ann"), 1)
    busy._give_up(now + 6 * GONE_SECONDS)
    assert done(next_one)


def test_a_visitor_has_three_jobs_at_most_and_others_are_still_served(busy):
    ann = visitor("ann")
    jobs = [ask(busy, ann, number) for number in range(3)]
    with pytest.raises(QueueFullError, match="3 of your jobs run or wait here"):
        ask(busy, ann, 3)
    assert ask(busy, ann, 2).state == "queued"  # the same as one of hers
    assert ask(busy, visitor("bob"), 1).state == "queued"
    jobs[0].cancel()
    assert ask(busy, ann, 3).state == "queued"

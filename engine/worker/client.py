"""The client of the worker process: one queue for every visitor of the server, thread-safe, without torch.

The queue lives here, so killing the process loses only the job that it runs. Equal jobs share one run, whose
result is remembered: a class that presses one button costs one run. A visitor's second job waits until every
other's first has run, and a run ends with the last of those who wanted it.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from engine.root import ROOT
from engine.worker.jobs import Update

MOST_WAITING = 400
MOST_OF_A_VISITOR = 3  # one that runs and two that wait
MOST_REMEMBERED = 64
LIMIT_SECONDS = 300.0
USUAL_SECONDS = 30.0  # of a job of a kind that has not run yet
GONE_SECONDS = 10.0  # without its viewer, after which a job is given up: time to reload a page
LOOKED_EVERY = 1.0  # s

QUEUED, STARTING, RUNNING, DONE, FAILED, CANCELLED = (
    "queued",
    "starting",
    "running",
    "done",
    "failed",
    "cancelled",
)


class QueueFullError(Exception):
    """No room for another job; the sentence says how many wait."""


@dataclass(frozen=True)
class Visitor:
    """Who asks for a job.

    Attributes:
        name: equal for all windows of one visitor, whose jobs count together.
        watches: whether the window that asked is still there.
    """

    name: Hashable
    watches: Callable[[], bool]


class _Run:
    """One run of a job, shared by all who asked for it; changed only under the worker's lock."""

    def __init__(self, key: str, kind: str, payload: dict[str, Any]):
        self.key, self.kind, self.payload = key, kind, payload
        self.state = QUEUED
        self.claims: list[Job] = []
        self.started_at = 0.0
        self.fraction, self.message, self.rows = 0.0, "", []
        self.result: Any = None
        self.error: str | None = None
        self.finished_at: float | None = None

    @property
    def under_way(self) -> bool:
        return self.state in (QUEUED, STARTING, RUNNING)


class Job:
    """One visitor's claim on a run. Reading is safe from any thread and never waits for the process."""

    def __init__(self, worker: Worker, run: _Run, visitor: Visitor | None = None):
        self._worker, self._run, self._given_up = worker, run, False
        self._visitor, self._watched_at = visitor, time.monotonic()

    @property
    def _name(self) -> Hashable:
        """Whose it is; a job that nobody is named for is a visitor by itself."""
        return id(self) if self._visitor is None else self._visitor.name

    @property
    def state(self) -> str:
        """queued, starting, running, done, failed or cancelled."""
        return CANCELLED if self._given_up else self._run.state

    @property
    def under_way(self) -> bool:
        """Whether there is still something to wait for."""
        return not self._given_up and self._run.under_way

    @property
    def position(self) -> int:
        """How many jobs are before this one, the running one included; 0 when it runs or has ended."""
        return self._worker._position(self._run)

    @property
    def waits(self) -> float:
        """Seconds until it is likely to run: of the jobs before it, by what such jobs took; at most."""
        return self._worker._waits(self._run)

    @property
    def progress(self) -> float:
        """0 to 1."""
        return self._run.fraction

    @property
    def message(self) -> str:
        """What the job does now."""
        return self._run.message

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """Partial results so far, in the order in which they came."""
        return tuple(self._run.rows)

    @property
    def result(self) -> Any:
        """What the job returned; None before it is done."""
        return self._run.result

    @property
    def error(self) -> str | None:
        """Why it failed, in one sentence."""
        return self._run.error

    @property
    def finished_at(self) -> float | None:
        """When it ended, seconds since the epoch."""
        return self._run.finished_at

    def cancel(self) -> None:
        """Give up this claim; the run stops, at once, when nobody else wants it."""
        self._worker._release(self)

    def wait(self, seconds: float) -> bool:
        """Wait for the end, at most so long; whether it has come."""
        return self._worker._wait(self, seconds)


class Worker:
    """One process and one queue before it. Starts the process with the first job and after every crash."""

    def __init__(self, most_waiting: int = MOST_WAITING, limit_seconds: float = LIMIT_SECONDS):
        self._most_waiting, self._limit_seconds = most_waiting, limit_seconds
        self._changed = threading.Condition()
        self._waiting: list[_Run] = []
        self._current: _Run | None = None
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._process: subprocess.Popen | None = None
        self._thread: threading.Thread | None = None
        self._took: dict[str, float] = {}  # seconds of the latest run of each kind
        self.ended = 0  # runs so far

    def submit(
        self, kind: str, payload: dict[str, Any], *, again: bool = False, visitor: Visitor | None = None
    ) -> Job:
        """Ask for a job ("package.module:function" and its payload), or share the equal one there is.

        Args:
            again: run anew even if a result is remembered.
            visitor: whose job it is; given up soon after its window has gone.

        Raises:
            QueueFullError: too many jobs wait, or the visitor has too many.
        """
        key = _key(kind, payload)
        with self._changed:
            run = self._runs.get(key)
            if run is None or not (run.under_way or (run.state == DONE and not again)):
                run = _Run(key, kind, payload)
            job = Job(self, run, visitor)
            if run.under_way:
                self._allow(job)
                if self._runs.get(key) is not run:
                    self._enqueue(run)
                run.claims.append(job)
            return job

    def finished(self, kind: str, payload: dict[str, Any]) -> Job | None:
        """The remembered result of such a job, whoever asked for it."""
        with self._changed:
            run = self._runs.get(_key(kind, payload))
            return Job(self, run) if run is not None and run.state == DONE else None

    def close(self) -> None:
        """End the process; waiting jobs are cancelled."""
        with self._changed:
            while self._waiting:
                self._end(self._waiting.pop(), CANCELLED)
            self._kill(CANCELLED, None)

    def _allow(self, job: Job) -> None:
        """Refuse what is more than a visitor's share."""
        others = [run for run in (*self._waiting, self._current) if run not in (None, job._run)]
        own = sum(any(claim._name == job._name for claim in run.claims) for run in others)
        if own >= MOST_OF_A_VISITOR:
            raise QueueFullError(
                f"{own} of your jobs run or wait here, and this server takes no more from one visitor; "
                "cancel one or wait for it"
            )

    def _enqueue(self, run: _Run) -> None:
        if len(self._waiting) >= self._most_waiting:
            raise QueueFullError(f"the queue is full: {len(self._waiting)} jobs wait; try again in a minute")
        self._runs[run.key] = run
        self._runs.move_to_end(run.key)
        self._forget()
        self._waiting.append(run)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="worker client", daemon=True)
            self._thread.start()
            threading.Thread(target=self._look, name="worker's viewers", daemon=True).start()
        self._changed.notify_all()

    def _forget(self) -> None:
        """Drop the oldest results beyond what is remembered; jobs under way are never dropped."""
        ended = [key for key, run in self._runs.items() if not run.under_way]
        for key in ended[: max(len(self._runs) - self._most_waiting - MOST_REMEMBERED, 0)]:
            del self._runs[key]

    def _position(self, run: _Run) -> int:
        with self._changed:
            if run not in self._waiting:
                return 0
            return self._in_turn().index(run) + (self._current is not None)

    def _waits(self, run: _Run) -> float:
        with self._changed:
            if run not in self._waiting:
                return 0.0
            turns = self._in_turn()
            ahead = sum(self._expected(each) for each in turns[: turns.index(run)])
            current = self._current
            if current is None:
                return ahead
            spent = time.monotonic() - current.started_at if current.started_at else 0.0
            left = max(self._expected(current) - spent, 0.0)
            if current.fraction > 0.1:
                left = spent / current.fraction - spent
            return ahead + min(left, max(self._limit_seconds - spent, 0.0))

    def _expected(self, run: _Run) -> float:
        """Seconds that a run is likely to take."""
        return self._took.get(run.kind, min(USUAL_SECONDS, self._limit_seconds))

    def _in_turn(self) -> list[_Run]:
        """The waiting runs in the order in which they will run: every visitor's first, then every second."""
        before: Counter[Hashable] = Counter()
        if self._current is not None:
            before.update({claim._name for claim in self._current.claims})
        turns = []
        for run in self._waiting:
            names = {claim._name for claim in run.claims}
            turns.append(min((before[name] for name in names), default=0))
            before.update(names)
        return [run for _, run in sorted(zip(turns, self._waiting, strict=True), key=lambda each: each[0])]

    def _look(self) -> None:
        """Give up, again and again, what nobody watches any more."""
        while True:
            time.sleep(LOOKED_EVERY)
            self._give_up_unwatched(time.monotonic())

    def _give_up_unwatched(self, now: float) -> None:
        with self._changed:
            runs = [run for run in (*self._waiting, self._current) if run is not None]
            claims = [claim for run in runs for claim in run.claims if claim._visitor is not None]
        for claim in claims:  # a window is asked outside the lock
            if claim._visitor.watches():
                claim._watched_at = now
            elif now - claim._watched_at >= GONE_SECONDS:
                claim.cancel()

    def _wait(self, job: Job, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not job.under_way, seconds)

    def _release(self, job: Job) -> None:
        with self._changed:
            if not job.under_way:
                return
            run, job._given_up = job._run, True
            run.claims.remove(job)
            if not run.claims and run in self._waiting:
                self._waiting.remove(run)
                self._end(run, CANCELLED)
            elif not run.claims and run is self._current:
                self._kill(CANCELLED, None)
            self._changed.notify_all()

    def _end(self, run: _Run, state: str, error: str | None = None, result: Any = None) -> None:
        run.state, run.error, run.result, run.finished_at = state, error, result, time.time()
        run.claims = []
        self.ended += 1
        if run is self._current:
            self._current = None
        self._changed.notify_all()

    def _kill(self, state: str, error: str | None) -> None:
        """Kill the process, with what it started; the run that it had ends as told."""
        process, self._process = self._process, None
        if process is not None:
            _kill_group(process)
        if self._current is not None:
            self._end(
                self._current, state, error
            )  # the client's thread, which reads from the process, buries it
        elif process is not None:
            _bury(process)

    def _time_out(self, run: _Run) -> None:
        with self._changed:
            if run is self._current:
                limit = f"{self._limit_seconds:g} s, the limit for one job"
                self._kill(FAILED, f"stopped after {limit}; what had come by then is kept")

    def _serve(self) -> None:
        """The client's one thread: take the next run, hand it to the process, record what comes back."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                run = self._in_turn()[0]
                self._waiting.remove(run)
                self._current, run.state = run, STARTING
                self._changed.notify_all()
            timer = threading.Timer(self._limit_seconds, self._time_out, (run,))
            timer.daemon = True
            timer.start()
            self._perform(run)
            timer.cancel()

    def _perform(self, run: _Run) -> None:
        process = None
        try:
            process = self._living_process(run)
            if process is None:
                return
            pickle.dump((run.kind, run.payload), process.stdin)
            process.stdin.flush()
            while self._record(run, *pickle.load(process.stdout)):
                pass
        except (EOFError, pickle.UnpicklingError, OSError) as error:
            sentence = _bury(process) if process else f"the worker process could not be started: {error}"
            with self._changed:
                if self._process is process:
                    self._process = None
                if run is self._current:
                    self._end(run, FAILED, sentence)

    def _living_process(self, run: _Run) -> subprocess.Popen | None:
        """The process, started if there is none; None when the run was given up meanwhile."""
        with self._changed:
            if run is not self._current:
                return None
            if self._process is None or self._process.poll() is not None:
                self._process = _start()
            return self._process

    def _record(self, run: _Run, what: str, value: Any) -> bool:
        """Take one reply into account; whether more are to come."""
        with self._changed:
            if run is not self._current:
                raise EOFError("given up")
            if what == "done":
                run.fraction = 1.0
                self._took[run.kind] = time.monotonic() - run.started_at
                self._end(run, DONE, result=value)
            elif what == "failed":
                self._end(run, FAILED, value)
            else:
                run.state, run.started_at = RUNNING, run.started_at or time.monotonic()
                self._update(run, value)
            return run.under_way

    def _update(self, run: _Run, update: Update | None) -> None:
        if update is not None:
            run.fraction, run.message = update.fraction, update.message
            if update.row is not None:
                run.rows.append(update.row)
        self._changed.notify_all()


_SHARED = Worker()


def shared_worker() -> Worker:
    """The server's one worker."""
    return _SHARED


def _key(kind: str, payload: dict[str, Any]) -> str:
    return json.dumps([kind, payload], sort_keys=True)


def _start() -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "engine.worker.process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
    )


def _kill_group(process: subprocess.Popen) -> None:
    """Kill the process and the compilers that it started."""
    if hasattr(os, "killpg") and process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _bury(process: subprocess.Popen) -> str:
    """Close what an ended process leaves; one sentence on how it ended."""
    code = process.wait()
    process.stdout.close()
    with suppress(BrokenPipeError):
        process.stdin.close()
    again = "the next job starts it again"
    if code == -9:
        return f"the worker process was killed by the system, most likely for want of memory; {again}"
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"the worker process ended unexpectedly ({how}; the server's log says more); {again}"

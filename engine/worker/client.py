"""The worker as the pages see it: one queue for every visitor of the server, thread-safe, without torch.

The queue lives here, so killing the process loses only the job that it runs. Equal jobs share one run, whose
result is remembered: a class that presses one button costs one run. A run ends with the last of those who
wanted it.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from engine.process_tree import Marked
from engine.root import ROOT

# with whose end ends what it starts: compilers, and kernel files with what they fork
COMMAND = [sys.executable, "-m", "engine.worker.process"]
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
MOST_WAITING = 400
MOST_OF_A_VISITOR = 3  # one that runs and two that wait
MOST_REMEMBERED = 64
LIMIT_SECONDS = 300.0
GONE_SECONDS = 10.0  # without its viewer, after which a job is given up: time to reload a page
LOOKED_EVERY = 1.0  # s

QUEUED, STARTING, RUNNING = "queued", "starting", "running"
DONE, FAILED, CANCELLED = "done", "failed", "cancelled"


@dataclass(frozen=True)
class Visitor:
    """Who asks for a job."""

    name: Hashable  # equal for all windows of one visitor, whose jobs count together
    watches: Callable[[], bool]  # whether the window that asked is still there


class Run:
    """One run of a job, shared by all who asked for it; changed only under the worker's lock."""

    def __init__(self, key: str, kind: str, payload: dict[str, Any]):
        self.key, self.kind, self.payload = key, kind, payload
        self.state = QUEUED
        self.claims: list[Job] = []
        self.taken_at = self.started_at = 0.0
        self.fraction, self.message, self.rows = 0.0, "", []
        self.result: Any = None
        self.error: str | None = None
        self.finished_at: float | None = None

    @property
    def under_way(self) -> bool:
        return self.state in (QUEUED, STARTING, RUNNING)


class Job:
    """One visitor's claim on a run. Reading is safe from any thread and never waits for the process."""

    def __init__(self, worker: Worker, run: Run, visitor: Visitor | None = None):
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
        with self._worker.changed:
            if self._run not in self._worker.waiting:
                return 0
            return self._worker.waiting.index(self._run) + (self._worker.current is not None)

    progress = property(attrgetter("_run.fraction"), doc="0 to 1.")
    message = property(attrgetter("_run.message"), doc="What the job does now.")
    rows = property(lambda self: tuple(self._run.rows), doc="Partial results so far, as they came.")
    result = property(attrgetter("_run.result"), doc="What the job returned; None before it is done.")
    error = property(attrgetter("_run.error"), doc="Why it failed, in one sentence.")
    finished_at = property(attrgetter("_run.finished_at"), doc="When it ended, seconds since the epoch.")

    def cancel(self) -> None:
        """Give up this claim; the run stops, at once, when nobody else wants it."""
        self._worker.release(self)

    def wait(self, seconds: float) -> bool:
        """Wait for the end, at most so long; whether it has come."""
        with self._worker.changed:
            return self._worker.changed.wait_for(lambda: not self.under_way, seconds)


class QueueFullError(Exception):
    """No room for another job; the sentence says how many wait."""


class Worker:
    """One process and one queue before it. Starts the process with the first job and after every crash."""

    def __init__(self, most_waiting: int = MOST_WAITING, limit_seconds: float = LIMIT_SECONDS):
        self.changed = threading.Condition()  # held by whoever reads or changes what follows
        self.waiting: list[Run] = []  # in the order in which they came
        self.current: Run | None = None  # what the process has
        self.took: dict[str, float] = {}  # seconds of the latest run of each kind
        self.limit, self.ended = limit_seconds, 0  # seconds that no run exceeds; runs so far
        self._most_waiting = most_waiting
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._process: Marked | None = None
        self._thread: threading.Thread | None = None

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
        with self.changed:
            run = self._runs.get(key)
            if run is None or not (run.under_way or (run.state == DONE and not again)):
                run = Run(key, kind, payload)
            job = Job(self, run, visitor)
            if run.under_way:
                self._allow(job)
                if self._runs.get(key) is not run:
                    self._enqueue(run)
                run.claims.append(job)
            return job

    def finished(self, kind: str, payload: dict[str, Any]) -> Job | None:
        """The remembered result of such a job, whoever asked for it."""
        with self.changed:
            run = self._runs.get(_key(kind, payload))
            return Job(self, run) if run is not None and run.state == DONE else None

    def close(self) -> None:
        """End the process; waiting jobs are cancelled."""
        with self.changed:
            while self.waiting:
                self._end(self.waiting.pop(), CANCELLED)
            self._kill(CANCELLED, None)

    def _allow(self, job: Job) -> None:
        """Refuse what is more than a visitor's share; raises QueueFullError."""
        others = [run for run in (*self.waiting, self.current) if run not in (None, job._run)]
        own = sum(any(claim._name == job._name for claim in run.claims) for run in others)
        if own >= MOST_OF_A_VISITOR:
            raise QueueFullError(
                f"{own} of your jobs run or wait here, and one visitor may have no more than that; "
                "cancel one or wait for it"
            )

    def _enqueue(self, run: Run) -> None:
        if (waiting := len(self.waiting)) >= self._most_waiting:
            raise QueueFullError(f"the queue is full: {waiting} jobs wait; try again in a minute")
        self._runs[run.key] = run
        self._runs.move_to_end(run.key)
        ended = [key for key, each in self._runs.items() if not each.under_way]
        for key in ended[: max(len(self._runs) - self._most_waiting - MOST_REMEMBERED, 0)]:
            del self._runs[key]  # the oldest results beyond what is remembered
        self.waiting.append(run)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="worker client", daemon=True)
            self._thread.start()
            threading.Thread(target=self._look, name="worker's viewers", daemon=True).start()
        self.changed.notify_all()

    def _look(self) -> None:
        """Look again and again at what has come to its end."""
        while True:
            time.sleep(LOOKED_EVERY)
            self._give_up(time.monotonic())

    def _give_up(self, now: float) -> None:
        """Give up what takes too long, and what nobody watches any more."""
        with self.changed:
            if self.current is not None and now - self.current.taken_at >= self.limit:
                limit = f"{self.limit:g} s, the limit for one job"
                self._kill(FAILED, f"stopped after {limit}; what had come by then is kept")
            runs = [run for run in (*self.waiting, self.current) if run is not None]
            claims = [claim for run in runs for claim in run.claims if claim._visitor is not None]
        for claim in claims:  # a window is asked outside the lock
            if claim._visitor.watches():
                claim._watched_at = now
            elif now - claim._watched_at >= GONE_SECONDS:
                claim.cancel()

    def release(self, job: Job) -> None:
        with self.changed:
            if not job.under_way:
                return
            run, job._given_up = job._run, True
            run.claims.remove(job)
            if not run.claims and run in self.waiting:
                self.waiting.remove(run)
                self._end(run, CANCELLED)
            elif not run.claims and run is self.current:
                self._kill(CANCELLED, None)
            self.changed.notify_all()

    def _end(self, run: Run, state: str, error: str | None = None, result: Any = None) -> None:
        run.state, run.error, run.result, run.finished_at = state, error, result, time.time()
        run.claims = []
        self.ended += 1
        if run is self.current:
            self.current = None
        self.changed.notify_all()

    def _kill(self, state: str, error: str | None) -> None:
        """Kill the process, with what it started; the run that it had ends as told."""
        process, self._process = self._process, None
        if process is not None:
            process.end()
        if self.current is not None:
            self._end(self.current, state, error)  # the thread that reads from the process buries it
        elif process is not None:
            bury(process)

    def _serve(self) -> None:
        """The client's one thread: take the next run, hand it to the process, record what comes back."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.waiting)
                run = self.waiting.pop(0)
                self.current, run.state, run.taken_at = run, STARTING, time.monotonic()
                self.changed.notify_all()
            self._perform(run)

    def _perform(self, run: Run) -> None:
        process = None
        try:
            with self.changed:
                if run is not self.current:  # given up meanwhile
                    return
                if self._process is not None and self._process.poll() is not None:
                    bury(self._process)  # it ended while it had nothing to do
                    self._process = None
                process = self._process = self._process or Marked(COMMAND, **PIPES, cwd=ROOT)
            pickle.dump((run.kind, run.payload), process.stdin)
            process.stdin.flush()
            while self._record(run, *pickle.load(process.stdout)):
                pass
        except (EOFError, pickle.UnpicklingError, OSError) as error:
            sentence = bury(process) if process else f"the worker process could not be started: {error}"
            with self.changed:
                if self._process is process:
                    self._process = None
                if run is self.current:
                    self._end(run, FAILED, sentence)

    def _record(self, run: Run, what: str, value: Any) -> bool:
        """Take one reply into account, an `Update` or how it ends; whether more are to come."""
        with self.changed:
            if run is not self.current:
                raise EOFError("given up")
            if what == "done":
                run.fraction = 1.0
                self.took[run.kind] = time.monotonic() - run.started_at
                self._end(run, DONE, result=value)
            elif what == "failed":
                self._end(run, FAILED, value)
            elif what == "lost":
                self._kill(FAILED, value)
                raise EOFError("lost")  # to be buried by who reads from it
            else:
                run.state, run.started_at = RUNNING, run.started_at or time.monotonic()
                if value is not None:
                    run.fraction, run.message = value.fraction, value.message
                    run.rows += [] if value.row is None else [value.row]
                self.changed.notify_all()
            return run.under_way


_SHARED = Worker()


def shared_worker() -> Worker:
    """The server's one worker."""
    return _SHARED


def _key(kind: str, payload: dict[str, Any]) -> str:
    return json.dumps([kind, payload], sort_keys=True)


def bury(process: subprocess.Popen) -> str:
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

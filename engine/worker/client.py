"""The client of the worker process: one queue for every visitor of the server, thread-safe, without torch.

The queue lives here, so killing the process loses only the job that it runs. Equal jobs share one run, whose
result is remembered: a class that presses one button costs one run. A visitor's second job waits until every
other's first has run, and a run ends with the last of those who wanted it.
"""

import json
import pickle
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Any

from engine.process_tree import Marked
from engine.root import ROOT
from engine.worker.jobs import Update
from engine.worker.queue import (
    CANCELLED,
    DONE,
    FAILED,
    RUNNING,
    STARTING,
    Job,
    Queue,
    QueueFullError,
    Run,
    Visitor,
)

__all__ = ["DONE", "Job", "QueueFullError", "Visitor", "Worker", "shared_worker"]

MOST_WAITING = 400
MOST_REMEMBERED = 64
LIMIT_SECONDS = 300.0
GONE_SECONDS = 10.0  # without its viewer, after which a job is given up: time to reload a page
LOOKED_EVERY = 1.0  # s


class Worker(Queue):
    """One process and one queue before it. Starts the process with the first job and after every crash."""

    def __init__(self, most_waiting: int = MOST_WAITING, limit_seconds: float = LIMIT_SECONDS):
        self._most_waiting = most_waiting
        super().__init__(limit_seconds)
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._process: Marked | None = None
        self._thread: threading.Thread | None = None
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
        with self.changed:
            run = self._runs.get(key)
            if run is None or not (run.under_way or (run.state == DONE and not again)):
                run = Run(key, kind, payload)
            job = Job(self, run, visitor)
            if run.under_way:
                self.allow(job)
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

    def _enqueue(self, run: Run) -> None:
        if (waiting := len(self.waiting)) >= self._most_waiting:
            raise QueueFullError(f"the queue is full: {waiting} jobs wait; try again in a minute")
        self._runs[run.key] = run
        self._runs.move_to_end(run.key)
        self._forget()
        self.waiting.append(run)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="worker client", daemon=True)
            self._thread.start()
            threading.Thread(target=self._look, name="worker's viewers", daemon=True).start()
        self.changed.notify_all()

    def _forget(self) -> None:
        """Drop the oldest results beyond what is remembered; jobs under way are never dropped."""
        ended = [key for key, run in self._runs.items() if not run.under_way]
        for key in ended[: max(len(self._runs) - self._most_waiting - MOST_REMEMBERED, 0)]:
            del self._runs[key]

    def _look(self) -> None:
        """Give up, again and again, what nobody watches any more."""
        while True:
            time.sleep(LOOKED_EVERY)
            self._give_up_unwatched(time.monotonic())

    def _give_up_unwatched(self, now: float) -> None:
        with self.changed:
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

    def _time_out(self, run: Run) -> None:
        with self.changed:
            if run is self.current:
                limit = f"{self.limit:g} s, the limit for one job"
                self._kill(FAILED, f"stopped after {limit}; what had come by then is kept")

    def _serve(self) -> None:
        """The client's one thread: take the next run, hand it to the process, record what comes back."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.waiting)
                run = self.in_turn()[0]
                self.waiting.remove(run)
                self.current, run.state = run, STARTING
                self.changed.notify_all()
            timer = threading.Timer(self.limit, self._time_out, (run,))
            timer.daemon = True
            timer.start()
            self._perform(run)
            timer.cancel()

    def _perform(self, run: Run) -> None:
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
            sentence = bury(process) if process else f"the worker process could not be started: {error}"
            with self.changed:
                if self._process is process:
                    self._process = None
                if run is self.current:
                    self._end(run, FAILED, sentence)

    def _living_process(self, run: Run) -> Marked | None:
        """The process, started if there is none; None when the run was given up meanwhile."""
        with self.changed:
            if run is not self.current:
                return None
            if self._process is not None and self._process.poll() is not None:
                bury(self._process)  # it ended while it had nothing to do
                self._process = None
            if self._process is None:
                self._process = start()
            return self._process

    def _record(self, run: Run, what: str, value: Any) -> bool:
        """Take one reply into account; whether more are to come."""
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
                self._update(run, value)
            return run.under_way

    def _update(self, run: Run, update: Update | None) -> None:
        if update is not None:
            run.fraction, run.message = update.fraction, update.message
            if update.row is not None:
                run.rows.append(update.row)
        self.changed.notify_all()


_SHARED = Worker()


def shared_worker() -> Worker:
    """The server's one worker."""
    return _SHARED


def _key(kind: str, payload: dict[str, Any]) -> str:
    return json.dumps([kind, payload], sort_keys=True)


def start() -> Marked:
    """A fresh process; with it ends what it starts: compilers, and kernel files with what they fork."""
    command = [sys.executable, "-m", "engine.worker.process"]
    return Marked(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)


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

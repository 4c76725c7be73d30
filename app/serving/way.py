"""Short runs first: one that computes for long lets them pass between the pieces of its computation.

All runs share one interpreter. Without this, a visitor whose scenario takes half a second of it, again and
again, makes everybody else wait about twice as long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, local

SHORT = 0.05  # s of a processor: what a page with nothing heavy takes, and some more
PASSING, PATIENCE = 0.25, 3.0  # s that a long run waits between two pieces, and in all, at most
TIMES = 3  # as long as it has computed it waits in all, at most: where all runs are slow, none is held up
# s that it waits at least where a short one has ended so many s ago: others come, and are read and answered
# by a loop that needs the interpreter too
LEAST, LATELY = 0.002, 1.0


@dataclass
class _Run:
    """A run under way in its thread."""

    began: float
    waited: float = 0.0
    short: bool = True


class Way:
    """The runs under way, and how a long one lets the short ones pass."""

    def __init__(self):
        self._short, self._passed = 0, 0.0  # runs under way; when one ended last
        self._changed = Condition()
        self._mine = local()

    @contextmanager
    def run(self) -> Iterator[None]:
        """A run of this thread."""
        run = self._mine.run = _Run(time.thread_time())
        with self._changed:
            self._short += 1
        try:
            yield
        finally:
            self._mine.run = None
            if run.short:
                self._passed = time.monotonic()
            self._ended(run)

    def give(self) -> None:
        """Let the short ones pass, if this thread's run has computed for long and its patience lasts."""
        run = getattr(self._mine, "run", None)
        if run is None or (computed := time.thread_time() - run.began) < SHORT:
            return
        self._ended(run)
        left = min(PASSING, min(PATIENCE, TIMES * computed) - run.waited)
        if left <= 0:
            return
        begun = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: not self._short, left)
        if begun - self._passed < LATELY:
            time.sleep(LEAST)
        run.waited += time.monotonic() - begun

    def _ended(self, run: _Run) -> None:
        """A short run has ended, or turned out to be a long one."""
        with self._changed:
            if run.short:
                run.short = False
                self._short -= 1
                if not self._short:
                    self._changed.notify_all()


WAY = Way()

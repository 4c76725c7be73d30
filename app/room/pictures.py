"""Pictures for phones: made one by one in a process of their own, kept compressed, the oldest forgotten."""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from engine.worker.client import DONE, QueueFullError, Worker

JOB = "app.gallery.phone:draw"
MOST_KEPT, MOST_WAITING = 32, 4  # pictures
LIMIT_SECONDS = 60.0  # to make one


class Pictures:
    """Makes what the presenter shows, and what comes next, off the thread that asks. Thread-safe."""

    def __init__(self, worker: Worker | None = None):
        self.when_made: Callable[[], None] = lambda: None
        self._worker = worker or Worker(limit_seconds=LIMIT_SECONDS)
        self._made: OrderedDict[str, bytes | None] = OrderedDict()  # None: there is no such picture
        self._waiting: list[Mapping[str, Any]] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @staticmethod
    def key(wanted: Mapping[str, Any]) -> str:
        """The name of a picture in an address: the same for the same scenario."""
        return sha256(json.dumps(wanted, sort_keys=True, default=repr).encode()).hexdigest()[:32]

    def want(self, wanted: Mapping[str, Any]) -> None:
        """Make a picture unless it is there; the newest wish is served first and the oldest given up."""
        with self._changed:
            key = self.key(wanted)
            if key in self._made:
                self._made.move_to_end(key)
                return
            others = [each for each in self._waiting if self.key(each) != key]
            self._waiting = [*others, wanted][-MOST_WAITING:]
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="room pictures", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def made(self, key: str) -> bytes | None:
        """A picture, if it is there: a gzip-compressed HTML document."""
        with self._changed:
            return self._made.get(key)

    def refused(self, key: str) -> bool:
        """Whether it could not be made."""
        with self._changed:
            return key in self._made and self._made[key] is None

    def close(self) -> None:
        """End the process."""
        self._worker.close()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                wanted = self._waiting.pop()
            self._keep(wanted, self._make(wanted))
            self.when_made()

    def _keep(self, wanted: Mapping[str, Any], picture: bytes | None) -> None:
        with self._changed:
            self._made[self.key(wanted)] = picture
            while len(self._made) > MOST_KEPT:
                self._made.popitem(last=False)

    def _make(self, wanted: Mapping[str, Any]) -> bytes | None:
        """Wait for a picture; None where it cannot be made, of which the process says why."""
        try:
            job = self._worker.submit(JOB, dict(wanted))
        except QueueFullError:
            return None
        job.wait(LIMIT_SECONDS)
        return job.result if job.state == DONE else None

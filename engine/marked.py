"""A process that ends with all that it has started, also with what has left its session or its parents."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

MARKS = "ATTENTION_TILES_MARKS"  # in the environment: what a marked process starts has its marks too
PROCESSES = Path("/proc")


class Marked(subprocess.Popen):
    """A process in a session of its own, and with a mark that Linux tells of everything that it starts."""

    def __init__(self, command: list[str], env: Mapping[str, str] = os.environ, **options):
        self.mark = uuid4().hex
        marks = f"{os.environ.get(MARKS, '')} {self.mark}"
        super().__init__(command, env={**env, MARKS: marks}, start_new_session=True, **options)

    def end(self) -> None:
        """Kill it with all that it has started; where there is no Linux, with what is in its session."""
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self.kill()
        killed: set[int] = set()
        while left := self._left() - killed:  # once more, as what is being killed may start something
            for process in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
            killed |= left

    def _left(self) -> set[int]:
        """All processes with its mark; what is starting a program has no environment yet: wait for it."""
        mark, until = self.mark.encode(), time.monotonic() + 1
        while True:
            found, starting = set(), False
            for process in PROCESSES.glob("[0-9]*"):
                with suppress(OSError):  # ended meanwhile, or another's
                    environment = (process / "environ").read_bytes()
                    if mark in environment:
                        found.add(int(process.name))
                    elif not environment:  # what has ended has no program either: the link fails
                        starting |= bool((process / "exe").readlink())
            if found or not starting or time.monotonic() > until:
                return found
            time.sleep(0.01)

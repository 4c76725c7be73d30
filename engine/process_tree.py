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
ENVIRONMENT = slice(47, 49)  # after the name in /proc/PID/stat: where its environment begins and ends
LONGEST_START = 5.0  # s that a process may have no environment yet: its program may have to come from a disk


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
        looked_at: set[int] = set()
        until = time.monotonic() + LONGEST_START
        while new := _processes() - looked_at:  # once more, as what is being killed may start something
            starting = False
            for process in new:
                marked = self._has_mark(process)
                if marked is None:
                    starting = True
                    continue
                looked_at.add(process)
                if marked:
                    until = time.monotonic() + LONGEST_START
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(process, signal.SIGKILL)
            if time.monotonic() > until:
                break
            if starting:
                time.sleep(0.01)

    def _has_mark(self, process: int) -> bool | None:
        """Whether a process has its mark; None while it is starting a program and has no environment yet."""
        place = PROCESSES / str(process)
        try:
            environment = (place / "environ").read_bytes()
            if not environment:
                (place / "exe").readlink()  # fails of what has ended
                begins, ends = (place / "stat").read_text().rpartition(")")[2].split()[ENVIRONMENT]
                return False if begins == ends != "0" else None  # some programs are started without any
        except OSError:  # ended meanwhile, or another's
            return False
        return self.mark.encode() in environment


def _processes() -> set[int]:
    """All that there are; none where there is no Linux."""
    return {int(each.name) for each in PROCESSES.glob("[0-9]*")}

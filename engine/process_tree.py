"""A process that ends with all that it has started, also with what has left its session or its parents."""

import ctypes
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
DEATH_SIGNAL = 1  # of prctl
LONGEST_ENDING, BETWEEN = 5.0, 0.01  # s that ending may take, and between two looks
LOOKS = 2  # without any, after which none is left: what starts a program has no environment for a moment


def end_with(parent: int) -> None:
    """Let this process end when its parent has, since nobody waits for its answer then."""
    if PROCESSES.exists():  # else only Linux tells
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # gone before that
        os.kill(os.getpid(), signal.SIGKILL)


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
        until, quiet = time.monotonic() + LONGEST_ENDING, 0
        while PROCESSES.exists() and quiet < LOOKS and time.monotonic() < until:
            marked = [int(each.name) for each in PROCESSES.glob("[0-9]*") if self._has_mark(each)]
            for process in marked:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
            quiet = 0 if marked else quiet + 1
            time.sleep(BETWEEN)

    def _has_mark(self, process: Path) -> bool:
        """Whether a process has its mark; one that has ended, or is another's, has none."""
        with suppress(OSError):
            return self.mark.encode() in (process / "environ").read_bytes()
        return False

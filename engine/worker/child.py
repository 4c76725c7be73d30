"""The worker's process as its client sees it: started, ended with all that it started, and buried."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from engine.root import ROOT


def start() -> subprocess.Popen:
    """A fresh process, in a group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "engine.worker.process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
    )


def kill(process: subprocess.Popen) -> None:
    """Kill the process with all that it started: compilers, and kernel files with what they forked.

    A kernel file runs in a group of its own, which outlives the process that watches it.
    """
    groups = {process.pid, *_groups_below(process.pid)} if process.poll() is None else set()
    for group in groups if hasattr(os, "killpg") else ():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    process.kill()


def _groups_below(ancestor: int) -> set[int]:
    """The groups of all processes that a process has started, and of those that they have; Linux tells."""
    children: dict[int, list[tuple[int, int]]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent, group = map(int, stat.read_text().rpartition(")")[2].split()[1:3])
            children.setdefault(parent, []).append((int(stat.parent.name), group))
    groups, waiting = set(), [ancestor]
    while waiting:
        for child, group in children.get(waiting.pop(), ()):
            groups.add(group)
            waiting.append(child)
    return groups - {os.getpgrp()}


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

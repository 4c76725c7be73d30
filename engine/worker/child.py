"""The worker's process as its client sees it: started and buried."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

from engine.marked import Marked
from engine.root import ROOT


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

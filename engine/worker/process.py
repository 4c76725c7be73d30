"""The process that runs the kernels: pickled jobs come in by stdin, one at a time; replies go out by stdout.

Triton's interpreter is not thread-safe and torch is slow to import, so both live here, never in the server.
The process ends with its parent, whose end closes stdin; in the middle of a job where Linux tells it. An
exception that is no Refusal is a bug: it ends the process with a traceback in the server's log, and the
client starts another.
"""

import os
import pickle
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import BinaryIO

from engine.process_tree import end_with
from engine.root import Refusal
from engine.worker.jobs import JobError, LostError

MISSING = "PyTorch is not installed here, and kernels need it; pip install -r requirements.txt brings it."


def main() -> None:
    """Serve jobs until stdin closes."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints goes to the log, not between the replies
    end_with(os.getppid())
    while True:
        try:
            kind, payload = pickle.load(sys.stdin.buffer)
        except EOFError:
            os._exit(0)
        _run(kind, payload, replies)


def _run(kind: str, payload: dict, replies: BinaryIO) -> None:
    """Run one job, a generator function that "package.module:function" names.

    It sends ("update", Update)s; last ("done", result) or ("failed" or "lost", sentence).
    """
    try:
        if kind.startswith("engine.") and find_spec("torch") is None:  # what only draws needs none
            raise JobError(MISSING)
        module, _, function = kind.partition(":")
        work = getattr(import_module(module), function)(payload)
        _send(replies, "started", None)
        while True:
            _send(replies, "update", next(work))
    except StopIteration as end:
        _send(replies, "done", end.value)
    except Refusal as error:
        _send(replies, "lost" if isinstance(error, LostError) else "failed", str(error))


def _send(replies: BinaryIO, what: str, value) -> None:
    pickle.dump((what, value), replies)
    replies.flush()


if __name__ == "__main__":
    main()

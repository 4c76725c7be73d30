"""`--check`: simulated phones against a room on this machine, and what they cost.

The room runs in this process and publishes as a presenter's session does; the phones run in another, so that
neither's processor time is taken for the other's.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from app.room import server
from app.room.room import Room, Shown
from app.room.votes import Question
from engine.root import ROOT

HOST = "127.0.0.1"
STEPS = 12
VOTING = 5.0  # s over which the phones' votes are spread
PATIENCE = 120  # s to wait for anything
CHOICES = ("once", "twice", "never")


@dataclass(frozen=True)
class Figures:
    """What a check found: seconds, bytes and counts; memory is None where the system does not tell."""

    phones: int
    joined: float
    join_cpu: float
    cpu: float
    memory: int | None
    latencies: tuple[float, ...]
    votes: int
    voting: float
    voting_cpu: float

    def sentences(self) -> list[str]:
        """Each figure in a line."""
        memory = (
            "is not told by this system" if self.memory is None else f"grew by {self.memory / 1e6:.1f} MB"
        )
        return [
            f"{self.phones} phones joined in {self.joined:.2f} s for {self.join_cpu:.2f} CPU-seconds.",
            f"The room's memory {memory} (measured).",
            f"A step reached a phone in {1e3 * median(self.latencies):.0f} ms (median of {STEPS} steps), the "
            f"slowest in {1e3 * max(self.latencies):.0f} ms.",
            f"{self.votes} of {self.phones} votes in {self.voting:.0f} s were counted, for "
            f"{self.voting_cpu:.2f} CPU-seconds.",
            f"In all the room took {self.cpu:.2f} CPU-seconds.",
        ]


def run(phones: int) -> int:
    """Check a room with so many phones and print the figures; 1 where a vote or a phone was lost."""
    figures = checked(phones)
    print("\n".join(figures.sentences()))
    return 0 if figures.votes == phones and len(figures.latencies) == phones * STEPS else 1


def checked(phones: int, voting: float = VOTING) -> Figures:
    """Open a room for so many phones, show its steps, let each vote once, and close it."""
    room, session = Room(), object()
    room.lead(session)
    with served(room), _crowd(room, phones, voting) as heard:
        memory, cpu = _memory(), time.process_time()
        began = time.monotonic()
        heard.send("join")
        heard.wait("joined")
        joined, join_cpu = time.monotonic() - began, time.process_time() - cpu
        latencies: list[float] = []
        for step in range(1, STEPS + 1):
            shown = time.monotonic()
            room.publish(session, Shown(f"step {step}"))
            latencies += [arrived - shown for arrived in heard.wait("step")]
        question = Question("step", "How often?", CHOICES)
        room.publish(session, Shown("vote", question=question, choices=CHOICES, hands=(0,) * len(CHOICES)))
        heard.wait("step")
        before = time.process_time()
        heard.send("vote")
        heard.wait("voted")
        after, used = time.process_time(), _memory()
        told = Shown("told", question=question, choices=CHOICES, told=True, hands=(0,) * len(CHOICES))
        votes = sum(room.publish(session, told))
        grown = None if memory is None or used is None else used - memory
    return Figures(
        phones, joined, join_cpu, after - cpu, grown, tuple(latencies), votes, voting, after - before
    )


@contextmanager
def served(room: Room, port: int = 0) -> Iterator[None]:
    """The room's server in a thread, on a port of this machine alone; on any that is free by default."""
    listener = server.listen(HOST, port)
    room.address, room.port = HOST, listener.getsockname()[1]
    ready, done = threading.Event(), threading.Event()

    async def serve() -> None:
        async with server.serving(room, listener):
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="room")
    thread.start()
    try:
        ready.wait(PATIENCE)
        yield
    finally:
        done.set()
        thread.join()


class _Heard:
    """The crowd's process: it is told what to do, and tells what it has done."""

    def __init__(self, process: subprocess.Popen):
        self._process = process

    def send(self, what: str) -> None:
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()

    def wait(self, what: str) -> list[float]:
        said, values = json.loads(self._process.stdout.readline() or '["an end", []]')
        if said != what:
            raise RuntimeError(f"the phones said {said!r}, not {what!r}")
        return values


@contextmanager
def _crowd(room: Room, phones: int, voting: float) -> Iterator[_Heard]:
    command = [sys.executable, "-m", "app.room.crowd", str(room.port), room.code, str(phones), str(voting)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        start_new_session=True,  # Ctrl+C is for the check, which ends the phones
    )
    try:
        yield _Heard(process)
    finally:
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait()


def _memory() -> int | None:
    """Bytes that this process holds, where the system tells."""
    try:
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
    except OSError:
        return None
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

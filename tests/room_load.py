"""`python -m tests.room_load` prints what simulated phones cost a room here, and how long they wait.

The room runs in this process and publishes as a presenter's session does; the phones run in another, so that
neither's processor time is taken for the other's.
"""

import asyncio
import json
import multiprocessing
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from statistics import median

from app.room import server
from app.room.room import Room, Shown
from app.room.votes import Question
from engine.parser import Parser, ended, whole
from tests.dashboard import Dashboard

HOST = "127.0.0.1"
PHONES, STEPS = 300, 12
VOTING = 5.0  # s over which the phones' votes are spread
PATIENCE = 120  # s to wait for anything
CHOICES = ("once", "twice", "never")


class Phone:
    """One browser: its cookie, its stream, and the state of the room that reached it last."""

    def __init__(self, port: int, code: str):
        self._port, self._code, self._cookie = port, code, ""
        self.state: dict = {}
        self.writer: asyncio.StreamWriter | None = None

    async def join(self, heard: asyncio.Queue) -> None:
        """Open the page, then its events, and pass on when each state came; the first is the joining."""
        head = await self._ask("GET", "", "")
        self._cookie = head.split("set-cookie: ")[1].split(";")[0]
        reader, self.writer = await asyncio.open_connection(HOST, self._port)
        self.writer.write(self._request("GET", "/events", ""))
        name = ""
        while line := (await reader.readline()).decode():
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:") and name != "mine":
                self.state = json.loads(line[5:])
                heard.put_nowait(time.monotonic())
            elif not line.strip():
                name = ""

    async def vote(self, delay: float) -> bool:
        """Vote for something after a while; whether it was counted."""
        await asyncio.sleep(delay)
        choice = random.randrange(len(self.state["choices"]))
        body = json.dumps({"question": self.state["number"], "choice": choice})
        head = await self._ask("POST", "/vote", body)
        return " 204 " in head.splitlines()[0]

    async def _ask(self, method: str, path: str, body: str) -> str:
        reader, writer = await asyncio.open_connection(HOST, self._port)
        writer.write(self._request(method, path, body, "connection: close\r\n"))
        answer = await reader.read()
        writer.close()
        return answer.partition(b"\r\n\r\n")[0].decode()

    def _request(self, method: str, path: str, body: str, more: str = "") -> bytes:
        cookie = f"cookie: {self._cookie}\r\n" if self._cookie else ""
        return (
            f"{method} /{self._code}{path} HTTP/1.1\r\nhost: {HOST}\r\n{cookie}{more}"
            f"content-length: {len(body)}\r\n\r\n{body}"
        ).encode()


async def crowd(pipe: Connection, port: int, code: str, count: int, seconds: float) -> None:
    """The phones' process: "join" opens them, "vote" lets each vote once within the seconds.

    What is done is told back with when it was, and every step of the room when it has reached all phones.
    """
    heard: asyncio.Queue[float] = asyncio.Queue()
    phones = [Phone(port, code) for _ in range(count)]
    tasks = []

    async def report() -> None:
        while True:
            pipe.send([await heard.get() for _ in phones])

    while (said := await asyncio.to_thread(pipe.recv)) != "end":
        if said == "join":
            tasks = [asyncio.create_task(each) for each in (report(), *(one.join(heard) for one in phones))]
        else:
            delays = [random.uniform(0, seconds) for _ in phones]
            counted = await asyncio.gather(*map(Phone.vote, phones, delays))
            pipe.send([time.monotonic()] * sum(counted))
    for task in tasks:
        task.cancel()


def _crowd(*given) -> None:
    asyncio.run(crowd(*given))


def measured(phones: int, voting: float = VOTING) -> dict[str, float]:
    """Open a room for so many phones, show its steps, let each vote once, and close it; figures by name."""
    room, session, own = Room(), object(), Dashboard(0, (os.getpid(),))
    room.lead(session)
    hands = (0,) * len(CHOICES)
    question = Question("step", "How often?", CHOICES)
    asked = Shown("vote", question=question, choices=CHOICES, hands=hands)
    latencies: list[float] = []
    with served(room), _phones(room, phones, voting) as pipe:
        memory, cpu, began = own.megabytes, time.process_time(), time.monotonic()
        pipe.send("join")
        pipe.recv()
        joined, join_cpu = time.monotonic() - began, time.process_time() - cpu
        for step in range(1, STEPS + 1):
            shown = time.monotonic()
            room.publish(session, Shown(f"step {step}"))
            latencies += [arrived - shown for arrived in pipe.recv()]
        room.publish(session, asked)
        pipe.recv()
        before = time.process_time()
        pipe.send("vote")
        pipe.recv()
        after, grown = time.process_time(), own.megabytes - memory
        votes = sum(room.publish(session, replace(asked, told=True)))
        pipe.send("end")
    return {
        **{"phones": phones, "s until all had joined": joined, "CPU-seconds of joining": join_cpu},
        **{"ms to a step, median": 1e3 * median(latencies), "ms to a step, worst": 1e3 * max(latencies)},
        **{"votes counted": votes, "CPU-seconds of voting": after - before, "CPU-seconds": after - cpu},
        **{"steps that reached a phone": len(latencies), "MB that the room grew by": grown},
    }


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


@contextmanager
def _phones(room: Room, phones: int, voting: float) -> Iterator[Connection]:
    """The pipe to the phones' process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_crowd, args=(there, room.port, room.code, phones, voting))
    process.start()
    there.close()  # an end of that process ends what is waited for here
    try:
        yield here
    finally:
        process.kill()
        process.join()


def main() -> int:
    """Print the figures; 1 where a vote or a phone was lost."""
    parser = Parser("tests.room_load", __doc__)
    parser.add_argument("--phones", type=whole, default=PHONES, help=f"{PHONES} by default")
    phones = parser.parse_args().phones
    if not 1 <= phones <= 1000:
        parser.error(f"phones is {phones}; it must be 1 to 1000")
    found = measured(phones)
    print("\n".join(f"{value:10,.2f}  {name}" for name, value in found.items()))
    return int((found["votes counted"], found["steps that reached a phone"]) != (phones, phones * STEPS))


if __name__ == "__main__":
    sys.exit(ended(main))

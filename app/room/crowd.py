"""Many phones in one process: each opens the page, follows the events and votes, as a browser does.

`python -m app.room.crowd PORT CODE PHONES SECONDS` does what stdin says, and prints a line of JSON when it is
done: "join" opens the phones, "vote" lets each vote once within the seconds. Steps are told as they arrive.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time

HOST = "127.0.0.1"


class Phone:
    """One browser: its cookie, its stream, and when each state of the room reached it."""

    def __init__(self, port: int, code: str):
        self._port, self._code, self._cookie = port, code, ""
        self.state: dict = {}
        self.writer: asyncio.StreamWriter | None = None

    async def join(self, heard: asyncio.Queue) -> None:
        """Open the page, then its events, and pass on when each state came; the first is the joining."""
        head, _ = await self._ask("GET", "", "")
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
        head, _ = await self._ask("POST", "/vote", body)
        return " 204 " in head.splitlines()[0]

    async def _ask(self, method: str, path: str, body: str) -> tuple[str, bytes]:
        reader, writer = await asyncio.open_connection(HOST, self._port)
        writer.write(self._request(method, path, body, "connection: close\r\n"))
        answer = await reader.read()
        writer.close()
        head, _, rest = answer.partition(b"\r\n\r\n")
        return head.decode(), rest

    def _request(self, method: str, path: str, body: str, more: str = "") -> bytes:
        cookie = f"cookie: {self._cookie}\r\n" if self._cookie else ""
        return (
            f"{method} /{self._code}{path} HTTP/1.1\r\nhost: {HOST}\r\n{cookie}{more}"
            f"content-length: {len(body)}\r\n\r\n{body}"
        ).encode()


async def main(port: int, code: str, count: int, seconds: float) -> None:
    """Do what stdin says until it closes."""
    heard: asyncio.Queue[float] = asyncio.Queue()
    phones = [Phone(port, code) for _ in range(count)]
    joined = asyncio.Event()
    streams: list[asyncio.Task] = []

    async def report() -> None:
        what = "joined"
        while True:
            _say(what, [await heard.get() for _ in phones])
            joined.set()
            what = "step"

    reporting = asyncio.create_task(report())
    while said := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if said == "join":
            streams = [asyncio.create_task(phone.join(heard)) for phone in phones]
        elif said == "vote":
            await joined.wait()
            delays = [random.uniform(0, seconds) for _ in phones]
            counted = await asyncio.gather(*map(Phone.vote, phones, delays))
            _say("voted", [time.monotonic()] * sum(counted))
    for task in (reporting, *streams):
        task.cancel()


def _say(what: str, values: list[float]) -> None:
    print(json.dumps([what, values]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))

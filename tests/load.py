"""python -m tests.load: how the server holds under visitors, in one run; no browser, loopback alone is asked.

Sessions are opened as a browser opens them, by websocket, and every message is read; nothing is drawn. A
figure in units of the machine is CPU time over that of a loop that this machine is timed with first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.request import urlopen

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.util import calc_hash
from websockets.asyncio.client import connect

from engine.parser import Parser, ended, whole

ROOT = Path(__file__).resolve().parents[1]
OPENINGS, MOVERS, MOVES, PAUSE = (50, 200, 500), 20, 8, 1.0
HEAVY = ("algorithm=split_kv&seq=1048576&splits=1024&block_q=16", "seq=1048576&block_q=16&block_kv=16")
EASE = 6.0  # s between two moves of whoever does not hurry
VISITED = ("tiles", "masks", "traffic", "speed", "decoding")
LIMIT = 120.0  # s that a session is waited for
TYPED = "Sequence length, typed"


class Session:
    """One visitor's window: its websocket, and the widget that is moved."""

    def __init__(self, socket, page: str, query: str):
        self._socket, self._page, self._query = socket, page, query
        self._typed = ""
        self.bytes = 0

    async def run(self, length: int | None = None) -> float:
        """Ask for a run, with another sequence length or as opened; seconds until its last message."""
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_script_hash = self._query, calc_hash(self._page)
        if length is not None:
            widget = state.widget_states.widgets.add()
            widget.id, widget.double_value = self._typed, length
        begun = time.perf_counter()
        await self._socket.send(message.SerializeToString())
        failed = False
        while True:
            data = await self._socket.recv()
            self.bytes += len(data)
            answer = ForwardMsg.FromString(data)
            element = answer.delta.new_element
            if element.number_input.label == TYPED:
                self._typed = element.number_input.id
            failed |= bool(element.exception.type)
            if answer.WhichOneof("type") == "script_finished":
                if failed:
                    raise RuntimeError("the page says that something could not be drawn")
                if answer.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:
                    return time.perf_counter() - begun


class Server:
    """The dashboard in a process of its own, on a free port of this machine."""

    def __init__(self, port: int, process: subprocess.Popen):
        self.port, self.process = port, process

    @contextlib.asynccontextmanager
    async def session(self, page: str = "tiles", query: str = "") -> AsyncIterator[Session]:
        """A window of a visitor."""
        address = f"ws://127.0.0.1:{self.port}/_stcore/stream"
        async with connect(address, max_size=None, open_timeout=LIMIT, ping_interval=None) as opened:
            yield Session(opened, page, query)

    @property
    def cpu(self) -> float:
        """Seconds of a processor that it took so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def megabytes(self) -> float:
        """Of memory that it holds now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def free_port() -> int:
    """One of this machine's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def served() -> Iterator[Server]:
    """A fresh server, ready."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port)]
    with tempfile.TemporaryFile() as log:
        # in a session of its own, as Ctrl+C is for whoever asks, who then ends the server
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        try:
            end = time.monotonic() + 120
            while True:
                with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}/_stcore/health"):
                    break
                assert time.monotonic() < end, "the server did not start"
                time.sleep(0.2)
            yield Server(port, process)
        finally:
            process.terminate()
            process.wait(30)


def unit() -> float:
    """Seconds of a processor that this machine takes for a fixed piece of Python; the median of some."""

    def once() -> float:
        begun = time.process_time()
        sum(at * at % 7 for at in range(300_000))
        return time.process_time() - begun

    return statistics.median(once() for _ in range(9))


def p95(values: list[float]) -> float:
    """The value that 95 of 100 stay below."""
    return sorted(values)[int(0.95 * (len(values) - 1))]


async def opening(server: Server, count: int) -> dict[str, float]:
    """So many windows open Tiles at once."""

    async def one() -> float:
        begun = time.perf_counter()
        async with asyncio.timeout(LIMIT), server.session() as session:
            await session.run()
        return time.perf_counter() - begun

    before = server.cpu
    found = await asyncio.gather(*(one() for _ in range(count)), return_exceptions=True)
    took = [each for each in found if isinstance(each, float)]
    spent = (server.cpu - before) / count
    return {
        "sessions": count,
        "failed": count - len(took),
        "p95_s": p95(took or [LIMIT]),
        "cpu_ms": 1e3 * spent,
    }


async def moving(server: Server, heavy: str = "") -> dict[str, float]:
    """Some visitors move a slider again and again, beside one who opens a heavy link again and again."""
    took, sent, stop = [], [], asyncio.Event()

    async def mover(number: int) -> None:
        async with asyncio.timeout(LIMIT), server.session() as session:
            await session.run()
            before = session.bytes
            await asyncio.sleep(PAUSE * number / MOVERS)
            for move in range(MOVES):
                took.append(await session.run(64 * (1 + (7 * number + move) % 40)))
                await asyncio.sleep(PAUSE)
            sent.append((session.bytes - before) / MOVES)

    async def burden() -> None:
        number = 0
        while heavy and not stop.is_set():
            number += 1
            async with server.session("traffic", f"{heavy}&batch={number}") as session:
                await session.run()

    beside = asyncio.create_task(burden())
    before = server.cpu
    await asyncio.gather(*map(mover, range(MOVERS)))
    spent = (server.cpu - before) / (MOVERS * (MOVES + 1))
    stop.set()
    await beside
    return {
        "movers": MOVERS,
        "p50_s": statistics.median(took),
        "p95_s": p95(took),
        "cpu_ms": 1e3 * spent,
        "kB": statistics.mean(sent) / 1e3,
    }


async def level(server: Server, minutes: int) -> list[float]:
    """MB held at the end of each minute, while visitors come, move a slider at their ease, and leave."""
    end, held = time.monotonic() + 60 * minutes, []

    async def visitor(number: int) -> None:
        for visit in range(number, 10**9, MOVERS):
            page = VISITED[visit % len(VISITED)]
            async with asyncio.timeout(LIMIT), server.session(page) as session:
                await session.run()
                for move in range(MOVES):
                    if time.monotonic() > end:
                        return
                    await asyncio.sleep(EASE)
                    await session.run(64 * (1 + (7 * visit + move) % 40))

    visitors = asyncio.gather(*map(visitor, range(MOVERS)))
    while not visitors.done():
        await asyncio.wait([visitors], timeout=60)
        held.append(server.megabytes)
    await visitors
    return held


async def measured(openings: tuple[int, ...]) -> dict:
    """All figures; a server for the openings and one for the movers."""
    found: dict = {"unit_ms": 1e3 * unit()}
    with served() as server:
        async with server.session() as session:
            found["first_s"] = await session.run()
        found["openings"] = [await opening(server, count) for count in openings]
        found["megabytes"] = server.megabytes
    with served() as server:
        await opening(server, 2)
        found["moving"] = await moving(server)
        found["beside_heavy"] = {heavy: await moving(server, heavy) for heavy in HEAVY}
        found["megabytes_after_moving"] = server.megabytes
    for each in (*found["openings"], found["moving"]):
        each["cpu_units"] = each["cpu_ms"] / found["unit_ms"]
    alone = found["moving"]["p95_s"]
    for each in found["beside_heavy"].values():
        each["times_alone"] = each["p95_s"] / alone
    return found


def main() -> None:
    """Print the figures as JSON."""
    parser = Parser("tests.load", __doc__)
    parser.add_argument(
        "--level", type=whole, help="instead, MB by minute while visitors come and go so long"
    )
    parser.add_argument(
        "--openings", type=_counts, default=OPENINGS, help="windows at once; 50,200,500 by default"
    )
    options = parser.parse_args()
    if options.level:
        with served() as server:
            print(json.dumps({"megabytes_by_minute": asyncio.run(level(server, options.level))}))
        return
    print(json.dumps(asyncio.run(measured(options.openings)), indent=1))


def _counts(text: str) -> tuple[int, ...]:
    return tuple(min(whole(count), 500) for count in text.split(","))


if __name__ == "__main__":
    sys.exit(ended(main))

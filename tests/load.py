"""`python -m tests.load` prints how the server holds under visitors: how long they wait, and CPU time.

Sessions are opened as a browser opens them, by websocket, and every message is read; nothing is drawn. A move
takes one of the page's and the sidebar's sliders to another value, both by lot, in every run the same.
"""

import asyncio
import contextlib
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from itertools import chain

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.Slider_pb2 import Slider as SliderProto
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.util import calc_hash
from websockets.asyncio.client import connect

from app.contents import PAGES
from engine.parser import Parser, ended, whole
from tests.dashboard import Dashboard, served

STILL = ("start", "claims", "rates")  # no slider does anything there
MOVED = tuple(page for page in PAGES if page not in STILL)
OPENINGS, MOVERS, MOVES, PAUSE = (50, 200), 20, 3, 1.0  # windows at once; people, moves a page, s between
ALONE = 12  # moves on each page while nobody else is there
EASE = 6.0  # s between two moves of whoever does not hurry
LIMIT = 120.0  # s that a session is waited for


class Session:
    """One visitor's window: its websocket, the page that it shows, and the sliders there."""

    def __init__(self, socket, page: str, query: str):
        self._socket, self.page, self._query = socket, page, query
        self._sliders: dict[str, SliderProto] = {}  # by label, as they were drawn last
        self._moved: dict[str, str] = {}

    async def move(self, chance: random.Random) -> float:
        """Take one of the sliders to another value; seconds until the page is there."""
        there = [one for _, one in sorted(self._sliders.items()) if one.options and not one.disabled]
        slider = chance.choice(there)
        last = self._moved.get(slider.id, slider.options[int(slider.default[0])])
        value = self._moved[slider.id] = chance.choice([each for each in slider.options if each != last])
        return await self.run(WidgetState(id=slider.id, string_array_value={"data": [value]}))

    async def run(self, *changed: WidgetState) -> float:
        """Ask for a run, as opened or with a widget changed; seconds until its last message."""
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_script_hash = self._query, calc_hash(self.page)
        state.widget_states.widgets.extend(changed)
        begun = time.perf_counter()
        await self._socket.send(message.SerializeToString())
        failed = False
        while True:
            answer = ForwardMsg.FromString(await self._socket.recv())
            element = answer.delta.new_element
            if element.HasField("slider"):
                self._sliders[element.slider.label] = element.slider
            failed |= bool(element.exception.type)
            if answer.WhichOneof("type") == "script_finished":
                if failed:
                    raise RuntimeError(f"the page {self.page} says that something could not be drawn")
                if answer.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:
                    return time.perf_counter() - begun


@contextlib.asynccontextmanager
async def window(server: Dashboard, page: str = "tiles", query: str = "") -> AsyncIterator[Session]:
    """A window of a visitor."""
    address = f"ws://127.0.0.1:{server.port}/_stcore/stream"
    async with (
        asyncio.timeout(LIMIT),
        connect(address, max_size=None, open_timeout=LIMIT, ping_interval=None) as opened,
    ):
        yield Session(opened, page, query)


def p95(values: list[float]) -> float:
    """The value that 95 of 100 stay below."""
    return sorted(values)[int(0.95 * (len(values) - 1))]


async def opening(server: Dashboard, windows: int) -> str:
    """So many windows open Tiles at once."""

    async def one() -> float:
        begun = time.perf_counter()
        async with window(server) as session:
            await session.run()
        return time.perf_counter() - begun

    before = server.cpu
    found = await asyncio.gather(*(one() for _ in range(windows)), return_exceptions=True)
    took = [each for each in found if isinstance(each, float)]
    spent = 1e3 * (server.cpu - before) / windows
    slow, worst = p95(took or [LIMIT]), max(took or [LIMIT])
    return (
        f"{windows} open Tiles at once: p95 {slow:.2f} s, worst {worst:.2f} s, "
        f"{windows - len(took)} failed, {spent:.0f} ms of CPU each"
    )


async def alone(server: Dashboard, pages: tuple[str, ...]) -> dict[str, float]:
    """ms of CPU that a move takes on each page, while nobody else is there."""
    found = {}
    for page in pages:
        async with window(server, page) as session:
            await session.run()
            before, chance = server.cpu, random.Random(page)
            for _ in range(ALONE):
                await session.move(chance)
            found[page] = 1e3 * (server.cpu - before) / ALONE
    return found


async def moving(server: Dashboard, pages: tuple[str, ...]) -> tuple[dict, float]:
    """20 people move sliders, each on another page in every round; by page how long, and ms of CPU a move."""
    took, spent = defaultdict(list), 0.0

    async def mover(number: int, session: Session) -> None:
        await asyncio.sleep(PAUSE * number / MOVERS)
        chance = random.Random(f"{number} on {session.page}")
        for _ in range(MOVES):
            took[session.page].append(await session.move(chance))
            await asyncio.sleep(PAUSE)

    for turn in range(len(pages)):
        async with contextlib.AsyncExitStack() as stack:
            people = [
                await stack.enter_async_context(window(server, pages[(number + turn) % len(pages)]))
                for number in range(MOVERS)
            ]
            await asyncio.gather(*(session.run() for session in people))
            before = server.cpu
            await asyncio.gather(*(mover(number, one) for number, one in enumerate(people)))
            spent += server.cpu - before
    return took, 1e3 * spent / sum(map(len, took.values()))


async def level(server: Dashboard, minutes: int) -> AsyncIterator[float]:
    """MB held at the end of each minute, while visitors come, move a slider at their ease, and leave."""
    end = time.monotonic() + 60 * minutes

    async def visitor(number: int) -> None:
        for visit in range(number, 10**9, MOVERS):
            chance = random.Random(visit)
            async with window(server, MOVED[visit % len(MOVED)]) as session:
                await session.run()
                for _ in range(ALONE):
                    if time.monotonic() > end:
                        return
                    await asyncio.sleep(EASE)
                    await session.move(chance)

    visitors = asyncio.gather(*map(visitor, range(MOVERS)))
    while not visitors.done():
        await asyncio.wait([visitors], timeout=60)
        yield server.megabytes
    await visitors


async def measured(server: Dashboard, options) -> None:
    """Print all figures."""
    if options.level:
        async for megabytes in level(server, options.level):
            say(f"{megabytes:.0f} MB")
        return
    async with window(server) as session:
        say(f"the first page after the start: {await session.run():.2f} s")
    for windows in options.openings:
        say(await opening(server, windows))
    say(f"{server.megabytes:.0f} MB held after that")
    took, spent = await moving(server, options.pages)
    by_page = await alone(server, options.pages)
    say("ms of CPU a move alone; p95 and worst in s among the 20")
    for page, own in by_page.items():
        say(f"{page:10} {own:5.0f} {p95(took[page]):7.2f} {max(took[page]):7.2f}")
    say(f"mean       {statistics.mean(by_page.values()):5.0f}")
    every = list(chain.from_iterable(took.values()))
    say(
        f"{MOVERS} people move sliders on {len(took)} pages: p50 {statistics.median(every):.2f} s, "
        f"p95 {p95(every):.2f} s, worst {max(every):.2f} s, {spent:.0f} ms of CPU a move"
    )
    say(f"{server.megabytes:.0f} MB held at the end")


def say(line: str) -> None:
    """Print it at once."""
    print(line, flush=True)


def main() -> None:
    """Measure a server that is started for it, or one that is there."""
    parser = Parser("tests.load", __doc__)
    add = parser.add_argument
    add("--level", type=whole, help="instead, MB by minute while visitors come and go for so many minutes")
    add("--openings", type=_counts, default=OPENINGS, help="windows at once; 50,200 by default")
    add("--pages", type=_pages, default=MOVED, help="where sliders are moved, as tiles,speed; all by default")
    add("--port", type=whole, help="of a server, or a proxy before some, that is there; a new one by default")
    add("--processes", type=_counts, default=(), help="of that server, whose CPU time and memory is told")
    options = parser.parse_args()
    there = options.port and contextlib.nullcontext(Dashboard(options.port, options.processes))
    with there or served() as server:
        asyncio.run(measured(server, options))


def _counts(text: str) -> tuple[int, ...]:
    return tuple(whole(each) for each in text.split(","))


def _pages(text: str) -> tuple[str, ...]:
    if unknown := set(text.split(",")) - set(MOVED):
        raise ValueError(f"no page has sliders and is named {unknown}")
    return tuple(text.split(","))


if __name__ == "__main__":
    sys.exit(ended(main))

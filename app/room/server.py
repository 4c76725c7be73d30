"""The room's own socket: an address that phones reach, and a server that holds nothing but their routes."""

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.room.room import MOST_PHONES, Room
from app.room.routes import phone_app
from app.serving.idle import allow_files, let_go_of_slow, sweep

EVERYWHERE = "0.0.0.0"
MOST_CONNECTIONS = 2 * MOST_PHONES + 200  # a phone's stream, and what it asks beside that
IDLE = 5  # s between two looks at a connection that asks nothing, after which it is closed
UNANSWERED = 30  # s after which a phone that confirms nothing is gone
LOGGER = logging.getLogger("room")
LOGGER.setLevel(logging.ERROR)
ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name))


def own_address() -> str:
    """This machine's address in its network; all addresses where it has none. Nothing is sent to find it.

    A datagram socket that is "connected" sends nothing: the system only chooses the way out.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("10.255.255.255", 9))
            return probe.getsockname()[0]
        except OSError:
            return EVERYWHERE


def reach(address: str) -> str:
    """Who can reach an address: "machine", "network" or "internet"."""
    parsed = ipaddress.ip_address(address)
    if parsed.is_loopback:
        return "machine"
    return "network" if parsed.is_private else "internet"


SAID = {  # what whoever opens a room is told of who can reach it
    "machine": "No phone can join: this address leads to this machine alone, which may be in no network.",
    "internet": "This address can be reached from the whole internet, not from this network alone.",
    "network": "Phones in this machine's network reach it.",
}


def listen(address: str, port: int) -> socket.socket:
    """A socket that listens; raises OSError."""
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, proto=socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # there it would share a port that is in use
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        let_go_of_slow(made, UNANSWERED)  # a phone that went away in silence is missed sooner
        made.bind((address, port))
        made.listen(MOST_PHONES)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


class Guarded(H11Protocol):
    """A connection, of which there are so many at once; what it asks wrongly fills no log."""

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        self.logger, self.access_log = LOGGER, False

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:  # of the address that has most, this one or another
            place = self.client and self.client[0]
            held = Counter(each.client and each.client[0] for each in self.connections)
            crowd, most = held.most_common(1)[0]
            others = (each for each in self.connections if each.client and each.client[0] == crowd)
            (self if held[place] == most else next(others)).transport.abort()


class Server(uvicorn.Server):
    """A server within another's loop, which has the signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(room: Room, listener: socket.socket) -> AsyncIterator[None]:
    """Serve a room to phones within the running loop."""
    allow_files()
    config = uvicorn.Config(
        phone_app(room),
        http=Guarded,
        ws="none",
        lifespan="off",
        log_config=None,
        server_header=False,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=8192,
    )
    server, loop = Server(config), asyncio.get_running_loop()
    tasks = [loop.create_task(server.serve([listener])), loop.create_task(sweep(server, IDLE))]
    room.begin(loop)
    try:
        with _ended_by_signals(room.close):
            yield
    finally:
        room.close()
        server.should_exit = True
        await tasks[0]
        tasks[1].cancel()


@contextmanager
def _ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """Let streams end when the process is asked to: the server waits for them before it closes anything."""
    before = {number: signal.getsignal(number) for number in ENDING}

    def ended(number: int, frame: object) -> None:
        end()
        if callable(before[number]):
            before[number](number, frame)

    with suppress(ValueError):  # outside the main thread nothing hears signals
        for number in ENDING:
            signal.signal(number, ended)
    try:
        yield
    finally:
        with suppress(ValueError):
            for number, handler in before.items():
                signal.signal(number, handler)

"""`python -m app.room` opens the dashboard on this machine, and a room that an audience's phones join."""

import argparse
import socket
import sys
from argparse import ArgumentTypeError
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app import room as rooms
from app.room import check, server
from app.room.pictures import Pictures
from app.room.room import ALPHABET, CODE_LENGTH, Room, is_code
from app.room.routes import presenter_route
from engine.parser import Parser, ended, whole

DASHBOARD = Path(__file__).resolve().parents[1] / "dashboard.py"
PORT, DASHBOARD_PORT = 8602, 8501


def main() -> int:
    """Serve until the process is ended."""
    arguments = _arguments()
    if arguments.check:
        for verdict, sentence in check.lines(arguments.address, arguments.port, arguments.dashboard_port):
            print(f"{verdict:<6}{sentence}", flush=True)
        print("      How many phones this machine serves is measured by: python -m tests.room_load")
        return 0
    try:
        where = "127.0.0.1", arguments.dashboard_port
        server.listen(*where).close()
        where = arguments.address, arguments.port
        listener = server.listen(*where)
    except OSError as error:
        what = f"The room or its dashboard cannot listen at {where[0]}:{where[1]}: {error.strerror}"
        print(f"{what}; --port and --dashboard-port name other ports.", file=sys.stderr)
        return 2
    room = Room(Pictures(), code=arguments.code)
    address = arguments.address  # or this machine's name, where it listens on all of its addresses
    named = socket.gethostname() if address == server.EVERYWHERE else address
    room.address, room.port = f"[{named}]" if ":" in named else named, listener.getsockname()[1]
    room.reach = server.reach(address)
    print(
        f"The room is open at {room.link}. Present with p in the dashboard, show this address with a.\n"
        f"Should it have to be started again, --code {room.code} lets the phones come back by themselves.",
        flush=True,
    )
    if room.reach != "network":
        print(server.SAID[room.reach], flush=True)
    _serve(room, listener, arguments.dashboard_port)
    return 0


def _serve(room: Room, listener: socket.socket, port: int) -> None:
    import streamlit as st

    from app.frame import startup
    from app.frame.document import routes
    from app.serving.guard import MIDDLEWARE

    @asynccontextmanager
    async def lifespan(app: st.App) -> AsyncIterator[None]:
        async with startup.lifespan(app), server.serving(room, listener):
            yield

    rooms.set_current(room)
    addresses = [*routes(), presenter_route(room)]
    app = st.App(DASHBOARD, routes=addresses, middleware=MIDDLEWARE, lifespan=lifespan)
    app.run(config=startup.settings() | {"server.address": "localhost", "server.port": port})


def port(text: str) -> int:
    """A port, or 0 for any that is free."""
    if 0 <= (number := whole(text)) <= 65535:
        return number
    raise ArgumentTypeError(f"it is {number}; it must be 0 to 65535")


def _arguments() -> argparse.Namespace:
    parser = Parser("app.room", __doc__)
    parser.add_argument("--address", default=None, help="where phones join; this machine's own by default")
    parser.add_argument("--port", type=port, default=PORT, help=f"of the room; {PORT} by default")
    parser.add_argument(
        "--dashboard-port", type=port, default=DASHBOARD_PORT, help=f"here; {DASHBOARD_PORT} by default"
    )
    parser.add_argument("--code", type=str.upper, default="", help="of a room to open again; new by default")
    parser.add_argument("--check", action="store_true", help="say what works here and what will not, and end")
    arguments = parser.parse_args()
    arguments.address = arguments.address or server.own_address()
    try:
        server.reach(arguments.address)
    except ValueError:
        parser.error(f"address is {arguments.address!r:.60}; it must be an IP address of this machine")
    if arguments.code and not is_code(arguments.code):
        parser.error(f"code is {arguments.code!r:.60}; it must be {CODE_LENGTH} characters of {ALPHABET}")
    return arguments


if __name__ == "__main__":
    sys.exit(ended(main))

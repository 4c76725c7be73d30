"""Connections that ask nothing, or take nothing of what they asked for, are closed.

The server waits without end for a first request, for the rest of one, and for who does not read. What is
asked its protocols know; what a peer takes Linux knows, and ends a connection itself.
"""

import asyncio
import gc
import socket
from contextlib import suppress

import uvicorn

SILENT, SLOW = 30, 300  # s: of who asks nothing, and of who takes nothing of an answer
MOST_FILES = 8192  # that the process may open: room for a thousand phones too


def allow_files() -> None:
    """As many open files as visitors and phones need, and no more, where the system has a limit."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def let_go_of_slow(listener: socket.socket, seconds: float = SLOW) -> None:
    """Have the system end connections that take nothing for so long, where it is Linux."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * seconds))


async def sweep(server: uvicorn.Server | None = None, seconds: float = SILENT) -> None:
    """Close connections of a server, or of the one that this process has, which ask nothing for so long."""
    server = server or next((each for each in gc.get_objects() if isinstance(each, uvicorn.Server)), None)
    idle = {}
    while server:
        await asyncio.sleep(seconds)
        before, idle = idle, {}
        for each in list(server.server_state.connections):
            request = getattr(each, "cycle", each)  # of a websocket there is none, and it is none of ours
            if request is None or (request is not each and request.response_complete):
                idle[each] = request
                if before.get(each, each) is request:
                    each.transport.abort()

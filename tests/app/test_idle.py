"""Connections that nobody needs are closed, and no others: over real sockets, with little patience."""

import asyncio
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import uvicorn

from app.frame import startup
from app.serving import guard, idle

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no other system tells what a peer has taken")
LARGE = 4 * 2**20
GET = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n"


async def application(scope, receive, send):
    if scope["path"] == "/computed":  # which takes longer than a peer may be silent
        await asyncio.sleep(1.5)
    await send({"type": "http.response.start", "status": 200})
    for _ in range(LARGE // 2**16 if scope["path"] == "/large" else 1):
        await send({"type": "http.response.body", "body": bytes(2**16), "more_body": True})
    await send({"type": "http.response.body"})


def served(visits):
    """What comes of visits to a server, each given a socket that is connected to it; its open ones after."""

    async def run():
        listener = socket.create_server(("127.0.0.1", 0))
        idle.let_go_of_slow(listener, 2.0)
        port = listener.getsockname()[1]
        settings = {"lifespan": "off", "log_config": None, "ws": "none", "timeout_graceful_shutdown": 1}
        server = uvicorn.Server(uvicorn.Config(guard.Guard(application), **settings))
        serving = asyncio.create_task(server.serve([listener]))
        sweeping = asyncio.create_task(idle.sweep(server, 0.7))
        loop, sockets = asyncio.get_running_loop(), []
        for _ in visits:
            sockets.append(one := socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**14)
            one.setblocking(False)
            await loop.sock_connect(one, ("127.0.0.1", port))
        pairs = zip(visits, sockets, strict=True)
        found = await asyncio.gather(*(visit(loop, one) for visit, one in pairs))
        held = len(server.server_state.connections)
        for one in sockets:
            one.close()
        sweeping.cancel()
        server.should_exit = True
        await serving
        return found, held

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, run()).result()


def saying(first: bytes, again: bytes = b""):
    """A visit that says something, and maybe more every tenth of a second: whether it lasts four seconds."""

    async def visit(loop, one):
        await loop.sock_sendall(one, first)
        for _ in range(40):
            await asyncio.sleep(0.1)
            try:
                await loop.sock_sendall(one, again)
                if not first.startswith(GET % b"large") and not one.recv(2**16):
                    return False
            except BlockingIOError:
                pass
            except OSError:
                return False
        return one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == b"\1"  # established

    return visit


def asking(path: bytes, pause: float):
    """A visit that takes an answer in pieces: how much it gets."""

    async def visit(loop, one):
        await loop.sock_sendall(one, GET % path + b"Connection: close\r\n\r\n")
        total = 0
        with suppress(OSError):
            while piece := await loop.sock_recv(one, 2**18):
                total += len(piece)
                await asyncio.sleep(pause)
        return total

    return visit


def test_who_asks_nothing_or_takes_nothing_is_let_go_and_who_is_slow_or_waits_gets_it_whole():
    half = GET % b"" + b"X: "
    post = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n"
    visits = [saying(b""), saying(half), saying(half, b"x"), saying(post, b"x")]
    visits += [asking(b"large", 0.02), asking(b"computed", 0)]
    found, held = served([*visits, saying(GET % b"large" + b"\r\n")])  # who does not read is told nothing
    assert (found[:4], held) == ([False] * 4, 0)
    assert found[4] > LARGE
    assert found[5] > 2**16


def test_it_begins_and_ends_with_the_server(monkeypatch):
    for heavy in ("settle", "foresee"):
        monkeypatch.setattr(startup, heavy, lambda: None)

    async def run():
        async with startup.lifespan(None):
            (sweeping,) = (each for each in asyncio.all_tasks() if each.get_coro().__name__ == "sweep")
        await asyncio.wait([sweeping], timeout=5)
        return sweeping.cancelled()

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(asyncio.run, run()).result()

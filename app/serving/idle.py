"""Connections that ask nothing, or take nothing of what they asked for, are closed: on Linux, which can tell.

The server waits without end for a first request, for the rest of one, and for who does not read. Such a
connection is seen by no application; the process that holds it finds its descriptor, and the system knows
what its peer takes.
"""

import asyncio
import os
import socket
import stat
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic

LOOK = 5  # s between two looks
SILENT, SLOW = 30, 300  # s without a byte taken: of who asks nothing, and of who is being answered
TAKEN = struct.Struct("120xQ")  # of TCP_INFO: bytes that the peer has confirmed
MOST_FILES = 8192  # that the process may open, and numbers to look at: room for a thousand phones too
Peer = tuple[str, int]
_answered: Counter[Peer] = Counter()


@contextmanager
def answered(scope: dict) -> Iterator[None]:
    """While an application answers, by the scope that it is given."""
    peer = tuple(scope.get("client") or ())
    _answered[peer] += 1
    try:
        yield
    finally:
        _answered[peer] -= 1
        if not _answered[peer]:
            del _answered[peer]


def allow_files() -> None:
    """As many open files as visitors and phones need, and no more, where the system has a limit."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def sweep(port: int) -> None:
    """Close what is idle at a port, from now on.

    A proxy closes its connections by itself: who is answered through one is none of their peers.
    """
    states: dict[Peer, tuple[tuple, float]] = {}
    while sys.platform == "linux":
        await asyncio.sleep(LOOK)
        now, numbers, before, states = monotonic(), {}, states, {}
        for number in range(3, MOST_FILES):
            with suppress(OSError), _connection(number, port) as connection:
                peer = connection.getpeername()[:2]
                taken = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TAKEN.size)
                state = *TAKEN.unpack(taken), peer in _answered
                known, since = before.get(peer, (None, now))
                numbers[peer], states[peer] = number, (state, since if state == known else now)
        if _answered.keys() <= numbers.keys():
            for peer, (state, since) in states.items():
                if now - since > (SLOW if state[1] else SILENT):
                    with suppress(OSError), _connection(numbers[peer], port) as connection:
                        connection.shutdown(socket.SHUT_RDWR)  # the server is told, and closes it


@contextmanager
def _connection(number: int, port: int) -> Iterator[socket.socket]:
    """The socket of a descriptor, which stays its owner's; OSError where it is none of the port's."""
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        raise OSError
    lent = socket.socket(fileno=number)
    try:
        if lent.getsockname()[1:2] != (port,):
            raise OSError
        yield lent
    finally:
        lent.detach()

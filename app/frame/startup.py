"""What happens once when the server starts: who may ask for it by which name, and one line on where it is."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module

import streamlit as st
from streamlit import config, net_util

from app import serving
from app.contents import PAGES
from app.frame.door import believe_what_can_be
from app.scenario.again import PARTS
from app.scenario.first_run import FIRST_RUNS
from app.serving.files import let_files_stay
from app.serving.sending import send_together
from app.serving.session import look_up_one_by_one
from app.serving.way import WAY
from engine.problem.cache import set_way
from engine.recordings.file import recordings

TURN = 0.001  # s that one thread computes before another may: a page waits several times for its turn
LOOPBACK = ["localhost", "127.0.0.1", "::1", "[::1]"]


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """Before the first visitor; the last lines are printed when the port is known."""
    prepare()
    settle()
    wake_once(asyncio.get_running_loop())
    look_up_one_by_one()
    believe_what_can_be()
    send_together()
    let_files_stay()
    set_way(WAY.give)
    FIRST_RUNS.on = PARTS.on = True
    address, port = st.get_option("server.address"), st.get_option("server.port")
    print(f"  The dashboard is at http://localhost:{port}")
    if not serving.at_loopback(address):
        others = "may run kernels" if serving.opened() else "can look and run nothing"
        print(f"  It is open to the network: others find it at this machine's own address and {others}.")
    yield


def settle() -> None:
    """Have what the pages import and the recordings there before the first visitor.

    They stay, so nobody looks for garbage in them any more: each time held all visitors up for 0.1 s.
    """
    for name in ("pandas", *(f"app.page.{page}" for page in PAGES)):
        import_module(name)
    recordings()
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(TURN)


def wake_once(loop: asyncio.AbstractEventLoop) -> None:
    """Let a loop be woken once for all that threads hand to it meanwhile, as uvloop does.

    A page's run hands it some 90 messages. Waking it for each takes the interpreter from the run each time,
    and half of the run's time goes in waiting for it. What is handed over is in the loop's queue before it is
    woken, so nothing is lost: a loop that has something in its queue does not sleep.
    """
    if not isinstance(loop, asyncio.SelectorEventLoop):
        return
    wake, woken, called = loop._write_to_self, loop._process_self_data, []

    def wake_unless_called() -> None:
        if not called:
            called.append(True)
            wake()

    def awake(data: bytes) -> None:
        called.clear()
        woken(data)

    loop._write_to_self, loop._process_self_data = wake_unless_called, awake


def prepare() -> None:
    """No look-up of the machine's address outside, which Streamlit makes to print it and to check origins.

    Where only this machine can reach the server, a page elsewhere cannot reach it by a name of its own.
    """
    net_util._external_ip = ""  # as if it had been asked for and there were none
    named = config.is_manually_set("server.allowedHosts")
    if serving.at_loopback(st.get_option("server.address")) and not named:
        config.set_option("server.allowedHosts", LOOPBACK)

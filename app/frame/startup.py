"""What happens once when the server starts: what the pages need, and one line on where it is."""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module

import streamlit as st

from app import serving
from app.contents import PAGES
from engine.recordings.file import recordings

TURN = 0.001  # s that one thread computes before another may: a page waits several times for its turn


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """Before the first visitor; the last lines are printed when the port is known."""
    settle()
    address, port = st.get_option("server.address"), st.get_option("server.port")
    print(f"  The dashboard is at http://localhost:{port}")
    if serving.on_network():
        where = "through its proxy" if serving.at_loopback(address) else "at this machine's own address"
        others = "may run kernels" if serving.opened() else "can look and run nothing"
        print(f"  It is open to the network: others find it {where} and {others}.")
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

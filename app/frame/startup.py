"""What happens once when the server starts: what the pages need, and one line on where it is."""

from __future__ import annotations

import gc
import sys
import tomllib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import streamlit as st

from app import serving
from app.contents import PAGES
from engine.recordings.file import recordings

CONFIG = Path(__file__).parents[1] / ".streamlit" / "config.toml"
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


def settings(section: Mapping[str, Any] | None = None, above: str = "") -> dict[str, Any]:
    """The configuration beside the dashboard, by its options' names: for who starts it in Python."""
    found = {}
    for name, value in (tomllib.loads(CONFIG.read_text("utf-8")) if section is None else section).items():
        found |= settings(value, f"{above}{name}.") if isinstance(value, dict) else {above + name: value}
    return found


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

"""What happens once when the server starts: what the pages need, and one line on where it is."""

import asyncio
import gc
import inspect
import socket
import sys
import tomllib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import streamlit as st

from app import serving
from app.contents import PAGES
from app.frame import document
from app.serving import idle
from engine.experiment import Experiment
from engine.model.cluster.fabric import Fabric
from engine.model.cluster.spread import METHODS
from engine.recordings.file import recording_of, recordings
from engine.recordings.rows import modelled_timings, nearest_shape, timings_of
from engine.studies.several_gpus import (
    CHOICES,
    ORDERS,
    cluster_recordings,
    held,
    over_gpus,
    runs_of,
    spread_of,
)
from engine.studies.survey import by_length, modelled_rows

CONFIG = Path(__file__).parents[1] / ".streamlit" / "config.toml"
TURN = 0.001  # s that one thread computes before another may: a page waits several times for its turn


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """Before the first visitor; the last lines are printed when the port is known."""
    send_at_once()
    settle()
    address, port = st.get_option("server.address"), st.get_option("server.port")
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    print(f"  The dashboard is at {scheme}://localhost:{port}{serving.base_path()}")
    if serving.on_network():
        where = "through its proxy" if serving.at_loopback(address) else "at this machine's own address"
        others = "may run kernels" if serving.opened() else "can look and run nothing"
        print(f"  It is open to the network: others find it {where} and {others}.")
    Thread(target=foresee, daemon=True).start()
    idle.allow_files()
    sweeping = asyncio.create_task(idle.sweep())
    yield
    sweeping.cancel()


def settings(section: Mapping[str, Any] | None = None, above: str = "") -> dict[str, Any]:
    """The configuration beside the dashboard, by its options' names: for who starts it in Python."""
    found = {}
    for name, value in (tomllib.loads(CONFIG.read_text("utf-8")) if section is None else section).items():
        found |= settings(value, f"{above}{name}.") if isinstance(value, dict) else {above + name: value}
    return found


def send_at_once() -> None:
    """Let no part of an answer wait until the browser has confirmed the one before it, which takes 40 ms.

    asyncio sees to this for sockets that name their protocol. Streamlit's does not; its connections have
    what it has.
    """
    for found in [each for each in gc.get_objects() if type(each) is socket.socket and each.fileno() >= 0]:
        if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            idle.let_go_of_slow(found)


def settle() -> None:
    """Have what the pages import and the recordings there before the first visitor.

    They stay, so nobody looks for garbage in them any more: each time held all visitors up for 0.1 s.
    """
    for name in ("pandas", *(f"app.page.{page}" for page in PAGES)):
        import_module(name)
    recordings()
    inspect.stack()  # Streamlit looks there in its first run, and a first look takes 0.1 s
    document.ready()
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(TURN)


def foresee() -> None:
    """Compute what takes longest of the usual scenario while nobody is there, so that no first visitor waits.

    Across GPUs holds its model against every recording.
    """
    usual, clusters = Experiment(), cluster_recordings(None)
    held(clusters)
    tokens, gpus = (CHOICES[name][1] for name in ("tokens", "gpus"))
    several = spread_of(usual, tokens, gpus, True, Fabric())
    for method in METHODS:
        over_gpus(several.by(method))
    runs_of(several, ORDERS)
    if recording := recording_of(usual.hardware):
        modelled_timings(timings_of(recording, *nearest_shape(recording, usual)), usual.hardware)
    modelled_rows(by_length(usual))

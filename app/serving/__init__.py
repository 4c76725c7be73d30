"""Who may come in and what for: the network may look, whoever sits at the machine runs kernels too."""

from __future__ import annotations

import ipaddress
import sys
from collections import Counter
from threading import Lock
from urllib.parse import urlsplit

import streamlit as st

from engine.worker.client import Visitor

COOKIE = "visitor"  # which the document brings, and no script can read
_windows, _lock = Counter(), Lock()  # of every visitor who has asked for a job
OPENED = "--visitors-run-kernels"  # after the two dashes: the one setting that opens kernels and uploads
REFUSED = (
    "This dashboard was opened to the network, so visitors cannot run kernels or upload recordings here. "
    f"Whoever starts it can let them, with `-- {OPENED}` at the end of the command."
)


def at_loopback(address: str | None) -> bool:
    """Whether an address, or a machine's name, leads to this machine alone."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address((address or "").strip("[]")).is_loopback
    except ValueError:
        return False


def on_network() -> bool:
    """Whether others than this machine can reach the server: at its address, or through a proxy by a name."""
    names = st.get_option("server.address"), *st.get_option("server.allowedHosts")
    return not all(map(at_loopback, names))


def opened() -> bool:
    """Whether everyone who reaches the server may run kernels and upload."""
    return not on_network() or OPENED in sys.argv


def here(address: str | None, host: str) -> bool:
    """Whether a request is made at the machine: from its own address, by a name that leads to it alone.

    By a proxy that runs on the machine every request has its own address, and the name of the site.
    """
    try:
        return at_loopback(address) and at_loopback(urlsplit(f"//{host}").hostname)
    except ValueError:
        return False


def may_run() -> bool:
    """Whether this visitor may run kernels and upload: who sits at the machine may, wherever it listens."""
    address = st.context.ip_address or "localhost"  # Streamlit has none for the machine's own
    return opened() or here(address, st.context.headers.get("Host", ""))


def _gone(name: str) -> None:
    with _lock:
        _windows[name] -= 1
        if not _windows[name]:
            del _windows[name]


@st.cache_resource(scope="session", on_release=_gone, show_spinner=False)
def _come(name: str) -> str:
    """Count a visitor's window, once while it stays connected."""
    with _lock:
        _windows[name] += 1
    return name


def visitor() -> Visitor:
    """Whose window this is, by the cookie that all windows of a browser have; it is there while it asks."""
    name = _come(st.context.cookies.get(COOKIE) or st.context.ip_address or "this machine")
    return Visitor(name, lambda: _windows[name] > 0)

"""Who may come in and what for: the network may look, whoever sits at the machine runs kernels too."""

import ipaddress
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from threading import Lock
from urllib.parse import urlsplit

import streamlit as st

from engine.worker.client import Visitor

COOKIE = "visitor"  # which the document brings, and no script can read
_windows, _lock = Counter(), Lock()  # of every visitor who has asked for a job
OPENED = "--visitors-run-kernels"  # after the two dashes: the one setting that opens kernels and uploads
EMBED = "--embed"  # after the two dashes: a site whose pages may show the dashboard in a frame
EMBED_VARIABLE = "ATTENTION_TILES_EMBED"  # the same from the environment, for hosts that give no command
# a scheme and a host, maybe all below one, and a port: nothing that would say more in a policy
SITE = re.compile(r"https?://(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*(:\d{1,5})?", re.IGNORECASE | re.ASCII)
REFUSED = (
    "This window came over the network or through a proxy, and visitors cannot run kernels or upload "
    "recordings here. Whoever starts the dashboard can let them, with "
    f"`-- {OPENED}` at the end of the command."
)
# what a proxy writes on a request that it passes on, whatever name it then asks by
PASSED_ON = ("forwarded", "via", "x-forwarded-", "x-real-ip", "true-client-ip", "cf-connecting-ip")


def at_loopback(address: str | None) -> bool:
    """Whether an address, or a machine's name, leads to this machine alone."""
    if address == "localhost":
        return True
    try:
        found = ipaddress.ip_address((address or "").strip("[]"))
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def on_network() -> bool:
    """Whether others than this machine can reach the server: at its address, or through a proxy by a name."""
    names = st.get_option("server.address"), *st.get_option("server.allowedHosts")
    return not all(map(at_loopback, names))


def embedders() -> tuple[str, ...]:
    """Sites whose pages may show the dashboard in a frame: as whoever started it named them."""
    words = [part for word in sys.argv for part in re.split(f"(?<=^{EMBED})=", word, maxsplit=1)]
    named = [site for flag, site in pairwise(words) if flag == EMBED]
    return tuple(site for site in [*named, *embedders_of_environment()] if SITE.fullmatch(site))


def embedders_of_environment() -> list[str]:
    """What the variable names, as it stands."""
    return os.environ.get(EMBED_VARIABLE, "").split()


def base_path() -> str:
    """What stands before every path of the server, as in /tools; empty where nothing does."""
    base = (st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}" if base else ""


def opened() -> bool:
    """Whether everyone who reaches the server may run kernels and upload."""
    return OPENED in sys.argv


def by_own_name(headers: Mapping[str, str]) -> bool:
    """Whether a request asks by a name that leads to this machine alone."""
    try:
        return at_loopback(urlsplit(f"//{headers.get('host', '')}").hostname)
    except ValueError:
        return False


def here(address: str | None, headers: Mapping[str, str]) -> bool:
    """Whether a request is made at the machine: from its own address, by its own name, by no proxy.

    By a proxy that runs on the machine every request has its own address, and the name of the site, or what
    the proxy says of who asked.
    """
    passed_on = any(name.lower().startswith(PASSED_ON) for name in headers)
    return at_loopback(address) and by_own_name(headers) and not passed_on


def at_hand() -> bool:
    """Whether this visitor sits at the machine, wherever it listens."""
    headers = {name.lower(): value for name, value in st.context.headers.items()}
    if not headers:  # no request: whoever runs the script has the machine
        return not on_network()
    return here(st.context.ip_address or "localhost", headers)  # Streamlit has none for the machine's own


def may_run() -> bool:
    """Whether this visitor may run kernels and upload: who sits at the machine may."""
    return opened() or at_hand()


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

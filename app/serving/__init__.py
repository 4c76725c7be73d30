"""Who may come in and what for: the network may look, whoever sits at the machine runs kernels too."""

from __future__ import annotations

import ipaddress
import sys
from urllib.parse import urlsplit

import streamlit as st
from streamlit.runtime import exists, get_instance
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.web.server.starlette.starlette_app_utils import decode_xsrf_token_string

from engine.worker.client import Visitor

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
        return ipaddress.ip_address(address or "").is_loopback
    except ValueError:
        return False


def opened() -> bool:
    """Whether everyone who reaches the server may run kernels and upload."""
    return at_loopback(st.get_option("server.address")) or OPENED in sys.argv


def may_run() -> bool:
    """Whether this visitor may run kernels and upload: who sits at the machine may, wherever it listens."""
    here = st.context.ip_address is None and at_loopback(urlsplit(st.context.url or "").hostname)
    return opened() or here


def visitor() -> Visitor | None:
    """Whose window this is, by the cookie that all windows of a browser have; None without a server."""
    if not exists():
        return None
    session, runtime = get_script_run_ctx().session_id, get_instance()
    # the cookie is written anew for each window, the token in it is the browser's
    token, _ = decode_xsrf_token_string(st.context.cookies.get("_streamlit_xsrf", ""))
    return Visitor(token or st.context.ip_address or session, lambda: runtime.is_active_session(session))

"""Who may come in: headers on every answer, kernels and uploads for whom they are meant, no look-ups."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from streamlit import config, net_util
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.runtime.state.session_state import SessionState
from streamlit.testing.v1 import AppTest

from app import serving
from app.frame import startup
from app.serving import guard
from app.serving.session import OneByOne, look_up_one_by_one
from tests.app.worker_page import SCRIPT, own_worker

__all__ = ["own_worker"]

NETWORK = "0.0.0.0"


@pytest.fixture
def listens(monkeypatch):
    """Let the server listen at an address."""
    usual = st.get_option

    def at(address: str | None) -> None:
        monkeypatch.setattr(st, "get_option", lambda name: {"server.address": address}.get(name, usual(name)))

    return at


def _run(coroutine: Coroutine) -> Any:
    """Its result, from a loop in a thread of its own: the browser's tests keep one in this thread."""

    async def awaited():
        return await coroutine

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, awaited()).result()


def answer(path: str, method: str = "GET", client: str = "192.168.1.7") -> tuple[int, dict[str, str], str]:
    """(status, headers, body) of a request that the guard lets an application answer, or answers itself."""
    sent = []

    async def application(scope, receive, send):
        there = [(b"content-type", b"text/html"), (b"X-Frame-Options", b"DENY")]
        await send({"type": "http.response.start", "status": 200, "headers": there})
        await send({"type": "http.response.body", "body": b"the page"})

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "path": path, "method": method, "client": (client, 4711)}
    _run(guard.Guard(application)(scope, None, send))
    headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"].decode()


def test_every_answer_says_what_a_browser_may_do_with_it():
    status, headers, body = answer("/tiles")
    assert (status, body) == (200, "the page")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"  # what the application says stands
    rules = dict(rule.strip().split(" ", 1) for rule in headers["content-security-policy"].split(";"))
    assert rules["frame-ancestors"] == rules["default-src"] == "'self'"
    assert "http" not in headers["content-security-policy"]  # no address outside, for pictures neither
    assert rules["img-src"] == "'self' data: blob:"


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "::1", "127.9.9.9"])
def test_at_this_machine_alone_everything_is_on(listens, address):
    listens(address)
    assert serving.opened()


@pytest.mark.parametrize("address", [NETWORK, "::", "192.168.1.7", "lecture.example.com", "", None])
def test_opened_to_the_network_it_is_off_unless_switched_on(listens, monkeypatch, address):
    listens(address)
    assert not serving.opened()
    monkeypatch.setattr(sys, "argv", ["app/main.py", serving.OPENED])
    assert serving.opened()


def test_a_visitor_of_the_network_cannot_upload_by_the_address_itself(listens):
    listens(NETWORK)
    status, headers, body = answer("/_stcore/upload_file/session/file", "PUT")
    assert (status, body) == (403, serving.REFUSED)
    assert headers["content-type"].startswith("text/plain")
    assert answer("/_stcore/health")[0] == 200


def test_uploads_are_counted_by_window_and_in_all(listens, monkeypatch):
    listens("localhost")
    held = {"full": {str(n): SimpleNamespace(data=b"x") for n in range(3)}, "one": {}}
    manager = SimpleNamespace(uploaded_file_mgr=SimpleNamespace(file_storage=held))
    monkeypatch.setattr(guard, "get_instance", lambda: manager)
    assert answer("/_stcore/upload_file/one/file", "PUT")[0] == 200
    assert answer("/_stcore/upload_file/full/file", "PUT")[::2] == (
        429,
        "This window has uploaded 3 files; remove one of them first.",
    )
    monkeypatch.setattr(guard, "MOST_BYTES", 2)
    assert answer("/_stcore/upload_file/one/file", "PUT")[0] == 429


def test_a_page_says_that_its_kernels_are_off(listens, monkeypatch, own_worker):
    listens(NETWORK)
    monkeypatch.setattr(serving, "at_loopback", lambda address: False)
    page = AppTest.from_string(SCRIPT.format(page="agreement"), default_timeout=600).run()
    assert not page.exception
    button = next(button for button in page.button if button.label == "Compare on this machine")
    assert button.disabled
    assert any(serving.REFUSED in caption.value for caption in page.caption)


def test_nothing_asks_outside_for_this_machines_address(monkeypatch):
    asked = []
    monkeypatch.setattr(net_util, "_external_ip", None)
    monkeypatch.setattr(net_util, "_make_blocking_http_get", lambda *args, **more: asked.append(args))
    usual = config.get_option("server.allowedHosts")
    try:
        startup.prepare()
        assert not net_util.get_external_ip()
        assert not asked
        assert config.get_option("server.allowedHosts") == startup.LOOPBACK
    finally:
        config.set_option("server.allowedHosts", usual)
    assert config.get_option("logger.hideWelcomeMessage")  # printing it asks before the application is there


def test_streamlit_run_finds_the_guarded_application():
    from pathlib import Path

    from streamlit.web.server.app_discovery import discover_asgi_app

    main = Path(__file__).resolve().parents[2] / "app" / "main.py"
    assert discover_asgi_app(main).import_string == "main:app"
    assert "middleware=MIDDLEWARE" in main.read_text("utf-8")


def test_a_loop_is_woken_once_for_much_and_loses_nothing():
    async def handed_over() -> tuple[int, int]:
        loop, ran, woken = asyncio.get_running_loop(), [], []
        startup.wake_once(loop)
        usual = loop._csock.send
        sock = SimpleNamespace(send=lambda data: woken.append(data) or usual(data))
        loop._csock, kept = sock, loop._csock

        def run() -> None:
            for number in range(2000):
                loop.call_soon_threadsafe(ran.append, number)

        try:
            for rounds in (1, 2, 3):
                thread = Thread(target=run)
                thread.start()
                thread.join()  # the loop is not there meanwhile
                while len(ran) < 2000 * rounds:
                    await asyncio.sleep(0)
                await asyncio.sleep(0.01)  # it has read that it was woken
        finally:
            loop._csock = kept
        assert ran == [*range(2000)] * 3
        return len(ran), len(woken)

    ran, woken = _run(handed_over())
    assert (ran, woken) == (6000, 3)


def test_a_widget_looks_up_its_own_value_and_no_other(open_app, monkeypatch):
    usual = open_app("traffic", seq="2048", window="300")
    gathered = []
    whole = SessionState.filtered_state.fget
    monkeypatch.setattr(
        SessionState, "filtered_state", property(lambda state: gathered.append(1) or whole(state))
    )
    monkeypatch.setattr(SafeSessionState, "filtered_state", SafeSessionState.filtered_state)  # to come back
    look_up_one_by_one()
    app = open_app("traffic", seq="2048", window="300")
    assert not app.exception
    assert not gathered
    for kind in ("number_input", "selectbox", "select_slider"):
        assert [each.value for each in app.get(kind)] == [each.value for each in usual.get(kind)]
    app.number_input(key="scenario before").set_value(None).run()
    assert app.session_state["experiment"].problem.mask.window is None
    seen = OneByOne(app.session_state._state)
    assert {"experiment", "scenario before"} < set(seen)
    assert len(seen) == len(set(seen))
    assert "no such key" not in seen

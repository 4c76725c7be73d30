"""Who may come in: headers on every answer, kernels and uploads for whom they are meant, no look-ups."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app import command_line, serving
from app.serving import guard
from engine.root import ROOT
from tests.app.worker_page import SCRIPT

NETWORK, HERE, LECTURE, PROXY = "0.0.0.0", "localhost:8501", "lecture.example.com", "127.0.0.1"


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


def answered(middleware: Callable, scope: dict) -> tuple[int, dict[str, str], bytes]:
    """What comes of a request: of an application, or of the middleware before it."""
    sent = []

    async def application(scope, receive, send):
        there = [(b"content-type", b"text/html"), (b"x-frame-options", b"DENY")]
        await send({"type": "http.response.start", "status": 200, "headers": there})
        await send({"type": "http.response.body", "body": b"the page"})

    async def send(message):
        sent.append(message)

    _run(middleware(application)(scope, None, send))
    headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"]


def answer(
    path: str, method: str = "GET", client: str = "192.168.1.7", host: str = "localhost", **more: str
) -> tuple[int, dict[str, str], str]:
    """(status, headers, body) of a request that the guard lets an application answer, or answers itself."""
    given = {"host": host, **more}
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()]
    scope = {"type": "http", "path": path, "method": method, "client": (client, 4711), "headers": headers}
    status, headers, body = answered(guard.Guard, scope)
    return status, headers, body.decode()


def rules(path: str = "/tiles") -> dict[str, str]:
    """The Content-Security-Policy of an answer, by directive."""
    policy = answer(path)[1]["content-security-policy"]
    return dict(rule.strip().split(" ", 1) for rule in policy.split(";"))


def test_every_answer_says_what_a_browser_may_do_with_it():
    status, headers, body = answer("/tiles")
    assert (status, body, headers["x-content-type-options"]) == (200, "the page", "nosniff")
    assert headers["x-frame-options"] == "DENY"  # what the application says stands
    found = rules()
    assert found["frame-ancestors"] == found["default-src"] == "'self'"
    assert found["img-src"] == "'self' data: blob:"
    assert "http" not in headers["content-security-policy"]  # no address outside, for pictures neither


def test_a_site_that_is_named_may_show_it_in_a_frame(monkeypatch, capsys):
    sites = ["https://lms.example.org", "http://*.host.example:8080"]
    words = [serving.EMBED, sites[0], serving.OPENED, f"{serving.EMBED}={sites[1]}", serving.EMBED, "*"]
    monkeypatch.setattr(sys, "argv", ["app/main.py", *words])
    assert rules()["frame-ancestors"] == f"'self' {' '.join(sites)}"
    assert rules()["default-src"] == "'self'"
    assert "X-Frame-Options" not in guard._headers()  # which can name no site
    monkeypatch.setattr(sys, "argv", ["app/main.py"])
    assert rules()["frame-ancestors"] == "'self'"
    monkeypatch.setenv(serving.EMBED_VARIABLE, "https://a.org *.b.org/x")  # of a host that gives no command
    assert serving.embedders() == ("https://a.org",)
    with pytest.raises(SystemExit):
        command_line.check()
    assert capsys.readouterr().err.startswith(f"{serving.EMBED_VARIABLE} is '*.b.org/x'; it must be a site")


@pytest.mark.parametrize(
    "site",
    ["", "*", "https://*", "https://a.org/path", "a.org", "https://a.org; script-src *", "http://a.org b.org",
     "javascript:alert(1)", "https://a.org\r\nx: y", "https://é.org", "'self'", "data:"],
)  # fmt: skip
def test_what_is_no_site_ends_the_start_in_one_sentence(monkeypatch, capsys, site):
    monkeypatch.setattr(sys, "argv", ["app/main.py", serving.EMBED, *([site] if site else [])])
    with pytest.raises(SystemExit) as ended:
        command_line.check()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"--embed is {site!r}; it must be a site such as https://lms.example.org, without")
    assert serving.embedders() == ()


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "::1", "127.9.9.9", "::ffff:127.0.0.1"])
def test_at_this_machine_alone_nobody_else_comes(listens, address):
    listens(address)
    assert (serving.on_network(), serving.may_run()) == (False, True)  # of a script that no browser asked for


@pytest.mark.parametrize(
    ("address", "headers", "here"),
    [
        (PROXY, {"host": HERE}, True),
        ("::ffff:127.0.0.1", {"host": "[::1]:8501"}, True),
        ("192.168.1.7", {"host": HERE}, False),  # says that it is here
        ("127.0.0.1", {"host": "evil.example.com"}, False),  # a name that was led to this machine
        ("127.0.0.1", {"host": "localhost.evil.example.com"}, False),
        ("127.0.0.1", {"host": "localhost@evil.example.com"}, False),
        ("127.0.0.1", {"host": "0.0.0.0:8501"}, False),
        ("127.0.0.1", {}, False),
        ("127.0.0.1", {"host": "["}, False),
        (None, {"host": HERE}, False),
        *(  # a proxy on the machine that asks by the machine's name
            (PROXY, {"host": HERE, name: PROXY}, False)
            for name in ("forwarded", "X-Forwarded-For", "x-forwarded-host", "X-Real-IP", "via")
        ),
    ],
)
def test_at_the_machine_is_who_asks_by_its_name_without_a_proxy(listens, monkeypatch, address, headers, here):
    listens("localhost")  # whatever the configuration says
    assert serving.here(address, headers) == here
    if address and headers:  # a window's
        monkeypatch.setattr(st, "context", SimpleNamespace(ip_address=address, headers=headers))
        assert serving.may_run() == here
        monkeypatch.setattr(sys, "argv", ["app/main.py", serving.OPENED])
        assert serving.may_run()


UPLOAD = "/_stcore/upload_file/session/file", "PUT"
OWNERS = [f"{base}/_stcore/{path}" for base in ("", "/some/tools") for path in (
    "metrics", "agent/openapi.json", "agent/mcp", "agent", "script-health-check"
)]  # fmt: skip
EVERYWHERE = "/tiles", "/room/live", "/_stcore/health", "/static/js/index.js"
NOT_HERE = 403, serving.REFUSED
LED = {"client": PROXY, "host": "evil.example.com"}  # by a name that was led to this machine
VIA = ({"x_forwarded_for": "192.168.1.7"}, {"via": "1.1 proxy"})  # a proxy that keeps the machine's name


@pytest.mark.parametrize(
    ("address", "asked", "more", "refused"),
    [
        *((NETWORK, (path,), {}, (404, guard.FOR_OWNER)) for path in OWNERS),
        *((NETWORK, (path,), {"client": PROXY}, None) for path in OWNERS),
        *((NETWORK, (f"/_stcore/{path}",), {}, None) for path in ("health", "host-config", "metricsx")),
        *(("localhost", (path,), LED, (421, guard.ELSEWHERE)) for path in EVERYWHERE),
        (NETWORK, ("/tiles",), {"host": "evil.example.com"}, None),
        (NETWORK, UPLOAD, {}, NOT_HERE),
        *(("localhost", UPLOAD, {"client": PROXY, "host": HERE, **via}, NOT_HERE) for via in VIA),
        ("localhost", UPLOAD, {"client": PROXY, "host": HERE}, None),
    ],
)
def test_what_is_the_owners_alone_or_came_by_another_name_is_refused(listens, address, asked, more, refused):
    listens(address)
    status, headers, body = answer(*asked, **more)
    assert (status, body) == (refused or (200, "the page"))
    assert not refused or headers["content-type"].startswith("text/plain")


def test_a_page_says_that_its_kernels_are_off(listens, monkeypatch, own_worker):
    listens(NETWORK)
    monkeypatch.setattr(serving, "at_loopback", lambda address: False)
    page = AppTest.from_string(SCRIPT.format(page="agreement"), default_timeout=600).run()
    button = next(button for button in page.button if button.label == "Compare on this machine")
    assert button.disabled
    assert any(serving.REFUSED in caption.value for caption in page.caption)


def joined(said: dict | None = None, **headers: str) -> list[str]:
    """What becomes of a window that opens its websocket, and maybe says something: what each side is told."""
    kinds = []

    async def receive():
        return {"type": "websocket.receive", **(said or {"bytes": b"a"})}

    async def application(scope, receive, send):
        kinds.append((await receive())["type"])

    async def send(message):
        kinds.append(message["type"])

    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    _run(guard.Guard(application)({"type": "websocket", "headers": given}, receive, send))
    return kinds


@pytest.mark.parametrize(
    ("address", "headers", "taken"),
    [
        ("localhost", {"host": HERE}, True),
        ("localhost", {"host": "127.0.0.1:8501", "origin": "http://127.0.0.1:8501"}, True),
        ("localhost", {"host": "[::1]:8501"}, True),
        ("localhost", {"host": HERE, "origin": f"http://{LECTURE}"}, False),  # a page elsewhere
        ("localhost", {"host": LECTURE, "origin": f"http://{LECTURE}"}, False),  # whose name leads here
        ("localhost", {}, False),
        ("localhost", {"host": "[", "origin": "http://["}, False),
        (NETWORK, {"host": LECTURE, "origin": f"https://{LECTURE}"}, True),
        (NETWORK, {"host": LECTURE, "origin": "https://elsewhere.example.com"}, False),
    ],
)
def test_only_windows_of_its_own_pages_join_and_nothing_is_looked_up(listens, address, headers, taken):
    listens(address)
    assert joined(**headers) == (["websocket.receive"] if taken else ["websocket.close"])


def test_who_sends_text_or_says_nothing_for_long_is_taken_as_gone(listens, monkeypatch):
    listens("localhost")
    assert joined({"text": "a"}, host=HERE) == ["websocket.disconnect"]
    told = []

    async def receive():
        await asyncio.sleep(0 if len(told) < says else 60)
        return {"type": "websocket.receive", "bytes": b"a"}

    async def application(scope, receive, send):
        for _ in range(says + 1):
            told.append((await receive())["type"])

    for says, name in ((0, "FIRST_MESSAGE"), (1, "NEXT_MESSAGE")):
        monkeypatch.setattr(guard, name, 0.05)
        told.clear()
        scope = {"type": "websocket", "headers": [(b"host", HERE.encode())]}
        _run(guard.Guard(application)(scope, receive, None))
        assert told == ["websocket.receive"] * says + ["websocket.disconnect"]
        monkeypatch.undo()
        listens("localhost")


def test_behind_a_proxy_by_a_name_visitors_look_and_run_nothing(monkeypatch):
    told = {"server.address": "localhost", "server.allowedHosts": [LECTURE]}
    monkeypatch.setattr(st, "get_option", told.get)
    assert joined(host=LECTURE, origin=f"https://{LECTURE}") == ["websocket.receive"]
    assert serving.on_network()
    assert not serving.opened()
    for client, host in (("192.168.1.7", LECTURE), (PROXY, LECTURE), (PROXY, "[")):
        assert answer(*UPLOAD, client, host)[::2] == (403, serving.REFUSED)


def test_a_visitor_is_a_browser_and_is_there_while_a_window_is(monkeypatch):
    script = "import streamlit as st; from app import serving; st.visitor = serving.visitor()"
    page = AppTest.from_string(script)
    for _ in range(2):
        page.run()
    assert st.visitor.watches()
    serving._gone(st.visitor.name)
    assert not st.visitor.watches()
    st.cache_resource.clear()
    page.run()  # its network is back
    assert st.visitor.watches()


def test_streamlit_run_finds_the_guarded_application():
    from streamlit.web.server.app_discovery import discover_asgi_app

    main = ROOT / "app" / "main.py"
    assert discover_asgi_app(main).import_string == "main:app"
    assert "middleware=MIDDLEWARE" in main.read_text("utf-8")

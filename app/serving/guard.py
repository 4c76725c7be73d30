"""What stands before every answer: who may ask by which name, and headers that keep a browser here."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response

from app import serving
from app.serving.static_files import FromMemory

UPLOADS = "/_stcore/upload_file/"
FIRST_MESSAGE, NEXT_MESSAGE = 60, 3600  # s that a window may say nothing; a browser's joins again by itself
OWNERS = ("/_stcore/metrics", "/_stcore/agent", "/_stcore/script-health-check")  # and what lies below
FOR_OWNER = "This address answers at the machine that runs the dashboard alone."
ELSEWHERE = (
    "This dashboard answers to this machine's own names alone, such as localhost. Behind a proxy it is "
    "started with --server.allowedHosts and the name of the site."
)
# Streamlit writes styles into its pages, and loads components from addresses that it makes itself.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' data: blob:; "
    "font-src 'self' data:; worker-src 'self' blob:; connect-src 'self' data: blob:; frame-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
}
App = Callable[[dict, Callable, Callable], Awaitable[None]]


class Guard:
    """Adds the headers that an answer lacks; turns away other sites' pages, and uploads where none may be."""

    def __init__(self, app: App):
        self._app = app

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        if scope["type"] == "websocket":
            if not _own(Headers(scope=scope)):
                return await send({"type": "websocket.close", "code": 1008})
            return await self._app(scope, _binary(receive), send)

        async def headed(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                there = MutableHeaders(scope=message)
                for name, value in _headers().items():
                    there.setdefault(name, value)
            await send(message)

        await (_refusal(scope) or self._app)(scope, receive, headed)


def _headers() -> dict[str, str]:
    """Those of every answer; sites that may show it in a frame are named, which only the policy can."""
    if not (sites := serving.embedders()):
        return HEADERS
    named = {name: value for name, value in HEADERS.items() if name != "X-Frame-Options"}
    return named | {"Content-Security-Policy": f"{POLICY} {' '.join(sites)}"}


def _own(headers: Headers) -> bool:
    """Whether a window of this server's own pages asks.

    Where only this machine can reach the server, a page elsewhere cannot reach it by a name of its own. Of an
    origin that is another, Streamlit would look this machine's address up outside.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    try:
        return _known(headers) and (origin is None or urlsplit(origin).netloc == host)
    except ValueError:
        return False


def _known(headers: Headers) -> bool:
    """Whether a request asks by a name of this server; of one that is open to the network all are."""
    return serving.on_network() or serving.by_own_name(headers)


def _binary(receive: Callable) -> Callable:
    """What comes by websocket; who sends text, as no page does, or nothing for long, is taken as gone."""
    patience = FIRST_MESSAGE

    async def received() -> dict[str, Any]:
        nonlocal patience
        try:
            async with asyncio.timeout(patience):
                message = await receive()
        except TimeoutError:
            return {"type": "websocket.disconnect", "code": 1001}
        if message["type"] == "websocket.receive":
            patience = NEXT_MESSAGE
        if message["type"] == "websocket.receive" and message.get("bytes") is None:
            return {"type": "websocket.disconnect", "code": 1003}
        return message

    return received


MIDDLEWARE = (Middleware(Guard), Middleware(FromMemory))


def _refusal(scope: dict) -> Response | None:
    """Why a request is not taken; None for most."""
    path, headers = scope.get("path", ""), Headers(scope=scope)
    if not _known(headers):
        return PlainTextResponse(ELSEWHERE, 421)
    address, *_ = scope.get("client") or ("",)
    here = serving.here(address, headers)
    if any(f"{each}/" in f"{path}/" for each in OWNERS) and not here:
        return PlainTextResponse(FOR_OWNER, 404)
    if scope.get("method") == "PUT" and UPLOADS in path and not (serving.opened() or here):
        return PlainTextResponse(serving.REFUSED, 403)
    return None

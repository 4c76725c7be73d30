"""What stands before every answer of the server: headers that keep a browser here, and a count of uploads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.middleware import Middleware
from streamlit.runtime import get_instance

from app import serving
from app.serving.sending import PROTOCOL

UPLOADS = "/_stcore/upload_file/"
MOST_FILES, MOST_BYTES = 3, 192 * 2**20  # uploaded files of one window, and bytes of all of them
# Streamlit writes styles into its pages, and loads components from addresses that it makes itself.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' data: blob:; "
    "font-src 'self' data:; worker-src 'self' blob:; connect-src 'self' data: blob:; frame-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"SAMEORIGIN",
    b"referrer-policy": b"same-origin",
}
App = Callable[[dict, Callable, Callable], Awaitable[None]]


class Guard:
    """Adds the headers that an answer has not, and turns away uploads that are not allowed or too many."""

    def __init__(self, app: App):
        self._app = app

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        if scope["type"] != "http":
            scope[PROTOCOL] = getattr(send, "__self__", None)
            return await self._app(scope, _binary(receive), send)

        async def headed(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message.get("headers", ())}
                more = [(name, value) for name, value in HEADERS.items() if name not in there]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        refusal = _refusal(scope)
        if refusal is None:
            return await self._app(scope, receive, headed)
        status, sentence = refusal
        plain = [(b"content-type", b"text/plain; charset=utf-8")]
        await headed({"type": "http.response.start", "status": status, "headers": plain})
        await headed({"type": "http.response.body", "body": sentence.encode()})


def _binary(receive: Callable) -> Callable:
    """What comes by websocket; who sends text, as no page does, is taken as gone."""

    async def received() -> dict[str, Any]:
        message = await receive()
        if message["type"] == "websocket.receive" and message.get("bytes") is None:
            return {"type": "websocket.disconnect", "code": 1003}
        return message

    return received


MIDDLEWARE = (Middleware(Guard),)


def _refusal(scope: dict) -> tuple[int, str] | None:
    """Why an upload is not taken, with its status; None for everything else."""
    path = scope.get("path", "")
    if scope.get("method") != "PUT" or UPLOADS not in path:
        return None
    if not (serving.opened() or serving.at_loopback((scope.get("client") or ("",))[0])):
        return 403, serving.REFUSED
    session = path.partition(UPLOADS)[2].partition("/")[0]
    held = get_instance().uploaded_file_mgr.file_storage
    if len(held.get(session, ())) >= MOST_FILES:
        return 429, f"This window has uploaded {MOST_FILES} files; remove one of them first."
    if sum(len(file.data) for files in list(held.values()) for file in list(files.values())) > MOST_BYTES:
        return 429, "The recordings that visitors have uploaded fill this server; try again later."
    return None

"""What a phone can ask of the room, and nothing else: its page, the events, its vote and the pictures."""

import asyncio
import gzip
import json
import secrets
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app import serving
from app.canvas.offline import POLICY
from app.room.room import Room, place_of
from app.room.votes import Vote
from app.sketch import HIGH, POINTS

HERE = Path(__file__).with_name("phone")
COOKIE, COOKIE_AGE = "phone", 12 * 3600  # s: longer than a lecture
LARGEST_VOTE, LARGEST_MOMENT = 600, 8000  # bytes of a vote, and of what a picture shows of itself
SECONDS = 5  # that either may take to arrive
BEAT = 15  # s between signs of life, by which a lost connection is noticed
AGAIN = 1000  # ms after which a browser asks for a lost stream again
SAFE = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
PICTURE = {
    **SAFE,
    "Cache-Control": "private, max-age=3600, immutable",  # its name says what is in it
    "Content-Security-Policy": f"{POLICY}; sandbox allow-scripts; base-uri 'none'; frame-ancestors 'self'",
    "Vary": "Accept-Encoding",
}
NO_ROOM = "There is no such room here. Check the six characters on the screen."
WRONG = (
    'A vote is {"question": 3, "choice": 0}, or {"question": 3, "curve": [0, 250]}: whole numbers, and of a '
    f"curve 2 to {POINTS}, each from 0 to {HIGH}."
)
FULL = "The room is full. Watch the screen, or try again in a minute."
SAYS = {400: WRONG, 404: NO_ROOM, 413: WRONG, 503: FULL}


@lru_cache(maxsize=1)
def phone_page() -> tuple[bytes, str]:
    """The document that a phone opens, and its Content-Security-Policy, by which a browser runs nothing else.

    The policy names the document's style and its script by their hashes.
    """
    text, style, script = (HERE.with_suffix(f".{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    document = text.replace("/* style */", style).replace("/* script */", script)
    hashes = (b64encode(sha256(part.encode()).digest()).decode() for part in (script, style))
    policy = (
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; "
        "frame-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return document.encode(), policy.format(*hashes)


def phone_app(room: Room) -> Starlette:
    """The application on the room's own socket."""

    def guarded(serve: Callable[[Request, Room], Awaitable[Response]]):
        async def endpoint(request: Request) -> Response:
            code = request.path_params["code"].upper().encode()
            if not compare_digest(code, room.code.encode()):
                raise HTTPException(404)
            return await serve(request, room)

        return endpoint

    routes = [
        Route("/{code}", guarded(_page)),
        Route("/{code}/events", guarded(_events)),
        Route("/{code}/vote", guarded(_vote), methods=["POST"]),
        Route("/{code}/picture/{key}", guarded(_picture)),
    ]
    cookie = {"session_cookie": COOKIE, "max_age": COOKIE_AGE, "same_site": "strict"}
    named = Middleware(SessionMiddleware, secret_key=room.secret, **cookie)
    app = Starlette(routes=routes, middleware=[named], exception_handlers={HTTPException: _refused})
    app.router.redirect_slashes = False
    return app


def presenter_route(room: Room) -> Route:
    """Where the presenter's own browser tells the moment that the phones are to show."""

    async def moment(request: Request) -> Response:
        if not serving.here(request.client and request.client.host, request.headers):
            raise HTTPException(404)
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise HTTPException(403)
        room.move(await _sent(request, LARGEST_MOMENT))
        return Response(None, 204, SAFE)

    return Route(f"{serving.base_path()}/room/moment", moment, methods=["POST"])


async def _refused(request: Request, error: HTTPException) -> Response:
    """Why something is not answered; a wrong method is told of as an address that there is not."""
    status = 404 if error.status_code == 405 else error.status_code
    return PlainTextResponse(SAYS.get(status, ""), status, SAFE)


async def _page(request: Request, room: Room) -> Response:
    """The phone's page."""
    document, policy = phone_page()
    _phone(request, room)
    return Response(document, media_type="text/html", headers={**SAFE, "Content-Security-Policy": policy})


async def _events(request: Request, room: Room) -> Response:
    """All that is shown, now and whenever it changes, with signs of life between."""
    phone = _phone(request, room) or secrets.token_urlsafe(16)  # it can watch, and not vote
    stream, own = room.enter(phone, _place(request))

    async def events() -> AsyncIterator[str]:
        yield f"retry: {AGAIN}\nevent: mine\ndata: {json.dumps(own)}\n\n"
        version = room.stage.version
        yield f"data: {room.stage.text}\n\n"
        while room.stays(phone, stream):
            changed = await room.stage.after(version, BEAT)
            version = room.stage.version
            yield f"data: {room.stage.text}\n\n" if changed else ": here\n\n"

    return Stream(events(), lambda: room.leave(phone))


class Stream(StreamingResponse):
    """Events that a browser hears, and what is to be done when it hears them no more."""

    def __init__(self, events: AsyncIterator[str], ended: Callable[[], None]):
        super().__init__(events, media_type="text/event-stream", headers=SAFE)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, also where the browser is gone before the first event."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


async def _vote(request: Request, room: Room) -> Response:
    """Count a vote, or say by the status why not."""
    room.vote(request.session.get(COOKIE, ""), *_chosen(await _sent(request, LARGEST_VOTE)))
    return Response(None, 204, SAFE)


async def _sent(request: Request, most: int) -> Any:
    """What comes with a request, as JSON; HTTPException where it is none, too large or too late."""
    body = b""
    try:
        async with asyncio.timeout(SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise HTTPException(413)
        return json.loads(body)
    except (TimeoutError, ClientDisconnect, ValueError, RecursionError):
        raise HTTPException(400) from None


def _chosen(vote: Any) -> tuple[int, Vote]:
    """The question's number and the choice or the curve, and nothing beside them; raises HTTPException."""
    match vote:
        case {"question": question, "choice": choice} if len(vote) == 2:
            numbers, chosen = [choice], choice
        case {"question": question, "curve": [_, _, *_] as curve} if len(vote) == 2 and len(curve) <= POINTS:
            numbers, chosen = curve, tuple(curve)
        case _:
            raise HTTPException(400)
    right = all(type(each) is int and 0 <= each <= HIGH for each in numbers)
    if not right or type(question) is not int or question < 1:
        raise HTTPException(400)
    return question, chosen


async def _picture(request: Request, room: Room) -> Response:
    """A picture that the presenter has shown, as a document that a browser keeps apart."""
    packed = room.picture(request.path_params["key"])
    if packed is None:
        raise HTTPException(404)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(packed, media_type="text/html", headers={**PICTURE, "Content-Encoding": "gzip"})
    return Response(gzip.decompress(packed), media_type="text/html", headers=PICTURE)


def _phone(request: Request, room: Room) -> str:
    """The browser's name; where it has none it gets one, in a signed cookie that no script can read."""
    if COOKIE not in request.session and (name := room.name(_place(request))):
        request.session[COOKIE] = name
    return request.session.get(COOKIE, "")


def _place(request: Request) -> str:
    return place_of(request.client.host) if request.client else ""

"""Files that a window is offered: made when its browser asks, at addresses that this window alone knows."""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import quote
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from app import scenario

FOLDER = "take_home"  # in the server's addresses
MOST = 64  # files of one window: those of its last pages
GONE = "This file is no longer offered: open Download on the page again."
Make = Callable[[], str]


class Window:
    """What one window may fetch; it goes with its session."""

    def __init__(self):
        self.name = secrets.token_urlsafe(16)
        self.files: OrderedDict[str, tuple[Make, str]] = OrderedDict()

    def offer(self, file: str, make: Make, kind: str) -> str:
        """The address of a file, from the page's own."""
        self.files[file] = make, kind
        self.files.move_to_end(file)
        while len(self.files) > MOST:
            self.files.popitem(last=False)
        return f"./{FOLDER}/{self.name}/{quote(file)}"


_windows: WeakValueDictionary[str, Window] = WeakValueDictionary()


def window() -> Window:
    """This session's."""
    kept = scenario.kept("take home", {})
    if not kept:
        kept["window"] = made = Window()
        _windows[made.name] = made
    return kept["window"]


def given(request: Request) -> Response:
    """The file at an address, made now; Starlette calls this in a thread of its own."""
    name, file = request.path_params["window"], request.path_params["file"]
    there = _windows.get(name)
    if there is None or (offered := there.files.get(file)) is None:
        return PlainTextResponse(GONE, 404)
    make, kind = offered
    headers = {
        "Cache-Control": "no-store",
        "Content-Disposition": f"attachment; filename*=utf-8''{quote(file)}",
    }
    return Response(make(), headers=headers, media_type=kind)

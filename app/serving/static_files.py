"""Streamlit's own scripts, styles and faces from memory, packed once for everyone.

Streamlit reads each file anew for every browser and sends it as it is: a page's 100 scripts, 8 MB, take the
server longer than the page, and a room with one access point waits for them.
"""

import gzip
from collections.abc import Callable
from functools import lru_cache
from mimetypes import guess_type
from pathlib import Path

import streamlit as st
from starlette.datastructures import Headers
from starlette.responses import Response

FOLDER = Path(st.__file__).parent / "static"
SCRIPTS = FOLDER / "static" / "js"
BELOW = "/static/"  # in their addresses; what lies there has names that change with what it holds
PACKED = (".js", ".css")  # faces are packed already
CHARTS_SCRIPT = "PlotlyChart"  # its name begins so
# Chromium compiles such a script whole and beside the page, not bit by bit while the page waits.
EAGERLY = b"//# allFunctionsCalledOnLoad\n"
KEPT = "public, max-age=31536000, immutable"


class FromMemory:
    """Answers what asks for a file that there is and takes it packed; all else is the application's."""

    def __init__(self, app: Callable):
        self._app = app

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        await (_answer(scope) or self._app)(scope, receive, send)


def _answer(scope: dict) -> Response | None:
    path = scope.get("path", "")
    if scope["type"] != "http" or scope["method"] != "GET" or BELOW not in path:
        return None
    if "gzip" not in Headers(scope=scope).get("accept-encoding", ""):
        return None
    file = f"static/{path.partition(BELOW)[2]}"
    if file not in _names():
        return None
    headers = {"Cache-Control": KEPT, "Vary": "Accept-Encoding"}
    if file.endswith(PACKED):
        headers["Content-Encoding"] = "gzip"
    return Response(packed(file), headers=headers, media_type=guess_type(file)[0])


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(
        file.relative_to(FOLDER).as_posix() for file in FOLDER.glob("static/**/*") if file.is_file()
    )


@lru_cache(maxsize=512)
def packed(file: str) -> bytes:
    """A file as it is sent; scripts and styles as gzip packs them."""
    data = (FOLDER / file).read_bytes()
    if f"/{CHARTS_SCRIPT}." in file:
        data = EAGERLY + data
    return gzip.compress(data, 6, mtime=0) if file.endswith(PACKED) else data

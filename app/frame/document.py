"""The document that a browser opens: Streamlit's own, with the style of the pages in it from the start.

Streamlit sends a style with a run, when the first elements stand already: they would be moved by it.
"""

import re
import secrets
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from app import serving
from app.canvas import scripts
from app.contents import HOME, OWN, PAGES
from app.frame import style
from app.scenario.link import LECTERN, MOST_CHARACTERS, MOST_VALUES, TOO_LONG
from app.serving import static_files

# pages that show charts as they open: theirs is the largest of Streamlit's scripts
CHARTS = ("model", "decoding", "across", "beyond", "traffic", "speed", "rates", "agreement")
# Streamlit's scripts for what every page has: it would load each when the first of a kind is to be drawn
SCRIPTS = ("BidiComponent", "Html", "Button", "Slider", "Selectbox", "NumberInput", "Checkbox")
EARLY = Path(__file__).parent / "early.js"
NAMED = re.compile(r"static/js/([\w.$-]+\.js)")
IMPORT = re.compile(r"""(?:from|import)\s*["']\./([\w.$-]+\.js)["']""")


def routes() -> list[Route]:
    """The addresses of all pages and their scripts; Start's own name leads to the bare address."""
    names, base = (*PAGES, *OWN), serving.base_path()
    # a browser looks for all else beside an address: one without its last stroke would lead it astray
    folder = [Route(base, partial(_led, f"{base.rpartition('/')[2]}/"))] if base else []
    pages = [Route(f"{base}/{name}", _opened) for name in ("", *names) if name != HOME]
    # nothing lies below a page: what would be there stays blank, as its scripts are looked for there too
    below = [Route(f"{base}/{name}/{{rest:path}}", partial(_led, name)) for name in names]
    home = Route(f"{base}/{HOME}", partial(_led, "./"))
    return [*folder, home, Route(f"{base}/{scripts.FOLDER}/{{file}}", _script), *pages, *below]


def _opened(request: Request) -> Response:
    """A page's document; a browser without a cookie gets one, by which its windows are one visitor's."""
    modes = parse_qs(request.url.query, keep_blank_values=True)
    if len(request.url.query) > MOST_CHARACTERS or sum(map(len, modes.values())) > MOST_VALUES:
        return RedirectResponse(f"{request.url.path.rpartition('/')[2] or './'}?{TOO_LONG}=true")
    aside = not request.url.path.endswith("/") and not {"present", LECTERN} & modes.keys()
    presented = modes.get("present") == ["true"] and LECTERN not in modes
    charts = request.url.path.rpartition("/")[2] in CHARTS
    response = HTMLResponse(document(aside, presented, charts), headers={"Cache-Control": "no-cache"})
    if serving.COOKIE not in request.cookies:
        name = secrets.token_urlsafe(16)
        response.set_cookie(serving.COOKIE, name, httponly=True, samesite="strict")
    return response


def _led(address: str, request: Request) -> RedirectResponse:
    """To an address beside this one, or beside what this lies below."""
    rest, query = request.path_params.get("rest"), f"?{request.url.query}" * bool(request.url.query)
    up = "" if rest is None else "../" * (rest.count("/") + 1)
    return RedirectResponse(f"{up}{address}{query}", headers={"Cache-Control": "no-cache"})


def _script(request: Request) -> Response:
    """Packed once for everyone; its name changes with its text, so a browser need never ask again."""
    packed = scripts.packed(request.path_params["file"])
    if packed is None:
        return PlainTextResponse("There is no such script.", 404)
    kept = {"Cache-Control": "public, max-age=31536000, immutable", "Content-Encoding": "gzip"}
    media = "application/json" if request.url.path.endswith(".json") else "text/javascript"
    return Response(packed, headers=kept, media_type=media)


@lru_cache(maxsize=6)
def document(aside: bool, presented: bool, charts: bool) -> str:
    """The document's text, of a page with a sidebar or without, or of one that is shown to a room."""
    text = (static_files.FOLDER / "index.html").read_text("utf-8")
    kinds = (static_files.CHARTS_SCRIPT, *SCRIPTS) if charts else SCRIPTS
    files = _imported([file for kind in kinds for file in _named(kind)], set(NAMED.findall(text)))
    early = [f'<link rel="modulepreload" crossorigin href="./static/js/{name}">' for name in files]
    # what takes longest to compile goes before all others: it is compiled while they are loaded
    first = early.pop(0) if charts else ""
    head = f"<script>{EARLY.read_text('utf-8')}</script>{''.join(early)}{style.early(aside, presented)}"
    return text.replace("</head>", f"{head}</head>", 1).replace("<head>", f"<head>{first}", 1)


def ready() -> None:
    """Have the documents there, and packed all that they ask for, before the first visitor."""
    for charts in (False, True):
        for name in NAMED.findall(document(True, False, charts)):
            static_files.packed(f"static/js/{name}")


def _named(kind: str) -> list[str]:
    """The script of a kind, whose name ends with a hash; none where this Streamlit has none."""
    return [script.name for script in static_files.SCRIPTS.glob(f"{kind}.*.js")]


def _imported(waiting: list[str], known: set[str]) -> Iterator[str]:
    """Scripts and all that they import, beyond those that are known: a browser would ask for them in turn."""
    for name in waiting:
        if name not in known:
            known.add(name)
            yield name
            yield from _imported(IMPORT.findall((static_files.SCRIPTS / name).read_text("utf-8")), known)

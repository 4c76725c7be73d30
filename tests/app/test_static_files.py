"""Streamlit's own scripts: packed once and given from memory, and asked for by the document, all of them."""

import gzip
import re

import pytest

from app.frame.document import document
from app.serving.static_files import FOLDER, FromMemory
from tests.app.test_serving import answered

SCRIPTS = sorted((FOLDER / "static" / "js").glob("*.js"))


def answer(path: str, packed: str = "gzip, br", method: str = "GET") -> tuple[dict[str, str], bytes]:
    """Headers and body; the application's own where it is asked."""
    headers = [(b"accept-encoding", packed.encode())]
    return answered(FromMemory, {"type": "http", "path": path, "method": method, "headers": headers})[1:]


@pytest.mark.parametrize("below", ["", "/a/path"])
def test_scripts_come_packed_and_may_be_kept(below):
    script = SCRIPTS[0]
    headers, body = answer(f"{below}/static/js/{script.name}")
    assert gzip.decompress(body) == script.read_bytes()
    assert headers["content-encoding"] == "gzip"
    assert headers["content-type"].startswith("text/javascript")
    assert "immutable" in headers["cache-control"]
    assert headers["vary"] == "Accept-Encoding"


def test_a_browser_compiles_the_script_of_charts_first_and_beside_the_page():
    (script,) = (each for each in SCRIPTS if each.name.startswith("PlotlyChart."))
    told, text = gzip.decompress(answer(f"/static/js/{script.name}")[1]).split(b"\n", 1)
    assert (told, text) == (b"//# allFunctionsCalledOnLoad", script.read_bytes())
    asked = re.findall(r"static/js/([\w.$-]+\.js)", document(True, False, True))
    assert asked[0] == script.name


def test_faces_are_packed_already():
    face = next((FOLDER / "static" / "media").glob("*.woff2"))
    headers, body = answer(f"/static/media/{face.name}")
    assert (body, "content-encoding" in headers) == (face.read_bytes(), False)


@pytest.mark.parametrize(
    "asked",
    [
        ("/static/js/none.js",),
        ("/static/../index.html",),
        ("/static/js/../../index.html",),
        ("/",),
        (f"/static/js/{SCRIPTS[0].name}", "identity"),
        (f"/static/js/{SCRIPTS[0].name}", "gzip", "HEAD"),
    ],
)
def test_all_else_is_streamlits_to_answer(asked):
    assert answer(*asked)[1] == b"the page"


@pytest.mark.parametrize("charts", [False, True])
def test_the_document_asks_at_once_for_all_that_its_scripts_import(charts):
    """Else a browser would ask for each when it has read the one that imports it."""
    asked = re.findall(r"static/js/([\w.$-]+\.js)", document(True, False, charts))
    assert len(asked) == len(set(asked))
    assert any(name.startswith("PlotlyChart.") for name in asked) == charts
    imported = set()
    for name in asked:
        text = (FOLDER / "static" / "js" / name).read_text("utf-8")
        imported |= set(re.findall(r"""\b(?:from|import)\s*["']\./([^"']+\.js)["']""", text))
    assert len(imported) > 50
    assert imported <= set(asked)

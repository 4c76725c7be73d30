"""Streamlit's own scripts, given from memory, asked for by the document; and its names of what it draws."""

import gzip
import re

import pytest

from app.frame.document import document
from app.serving.static_files import FOLDER, FromMemory
from engine.root import ROOT
from tests.app.test_serving import answered

SCRIPTS = sorted((FOLDER / "static" / "js").glob("*.js"))


def answer(path: str, packed: str = "gzip, br", method: str = "GET") -> tuple[dict[str, str], bytes]:
    """Headers and body; the application's own where it is asked."""
    headers = [(b"accept-encoding", packed.encode())]
    return answered(FromMemory, {"type": "http", "path": path, "method": method, "headers": headers})[1:]


def test_scripts_come_packed_and_may_be_kept_and_faces_are_packed_already():
    script, face = SCRIPTS[0], next((FOLDER / "static" / "media").glob("*.woff2"))
    for below in ("", "/a/path"):
        headers, body = answer(f"{below}/static/js/{script.name}")
        assert gzip.decompress(body) == script.read_bytes()
        assert headers["content-type"].startswith("text/javascript")
        assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
        assert "immutable" in headers["cache-control"]
    headers, body = answer(f"/static/media/{face.name}")
    assert (body, "content-encoding" in headers) == (face.read_bytes(), False)


def test_a_browser_compiles_the_script_of_charts_first_and_beside_the_page():
    (script,) = (each for each in SCRIPTS if each.name.startswith("PlotlyChart."))
    told, text = gzip.decompress(answer(f"/static/js/{script.name}")[1]).split(b"\n", 1)
    assert (told, text) == (b"//# allFunctionsCalledOnLoad", script.read_bytes())
    asked = re.findall(r"static/js/([\w.$-]+\.js)", document(True, False, True))
    assert asked[0] == script.name


def test_all_else_is_streamlits_to_answer():
    script = f"/static/js/{SCRIPTS[0].name}"
    for path in ("/static/js/none.js", "/static/../index.html", "/static/js/../../index.html", "/"):
        assert answer(path)[1] == b"the page"
    assert answer(script, "identity")[1] == answer(script, "gzip", "HEAD")[1] == b"the page"


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


APP = ROOT / "app"
HOLDERS = (APP / "frame" / "streamlit.css", APP / "canvas" / "streamlit.js")
NAME = re.compile(
    r"data-testid=\"?([\w-]+)|(?<=[.\s(])\.(st[A-Z]\w+)|is\(\.(st[A-Z]\w+)|\"(data-test-[\w-]+)"
)


def names() -> set[str]:
    """Every name that a file of ours takes from Streamlit's page."""
    found = (NAME.findall(path.read_text("utf-8")) for path in HOLDERS)
    return {name for groups in found for each in groups for name in each if name}


def gone(wanted: set[str], shipped: str) -> list[str]:
    """Those that Streamlit's scripts have no longer; one that ends in a kind is put together there."""
    there = set(re.findall(r"(?:st[A-Z]|data-test)[\w-]+(?:\$\{)?", shipped))
    begun = tuple(name[:-2] for name in there if name.endswith("${"))
    return sorted(name for name in wanted - there if not name.startswith(begun))


def test_every_name_is_one_that_streamlit_gives():
    shipped = "".join(path.read_text("utf-8") for path in SCRIPTS)
    assert len(names()) > 25
    assert gone(names(), shipped) == []
    assert gone({"stMain", "stNoSuchPart"}, shipped) == ["stNoSuchPart"]


def test_no_other_file_knows_a_name():
    for path in (each for kind in ("css", "js", "html", "py") for each in APP.rglob(f"*.{kind}")):
        if path not in HOLDERS:
            assert "data-testid" not in path.read_text("utf-8"), path.name


def test_styles_stand_in_css_files():
    for name in ("frame", "presenter", "page", "tour", "sidebar"):
        for path in (APP / name).rglob("*.py"):
            assert not re.search(r"<style[^>]*>\s*\n", path.read_text("utf-8")), path.name

"""What a fresh server takes care of before its first visitor comes."""

import re
import tomllib
from pathlib import Path

from starlette.requests import Request

from app.contents import HOME, PAGES
from app.frame import style
from app.frame.document import DRAWER, SCRIPTS, routes

ROOT = Path(__file__).resolve().parents[2]


def test_it_listens_on_this_machine_alone_and_takes_no_large_files():
    server = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text("utf-8"))["server"]
    assert (server["address"], server["maxUploadSize"]) == ("localhost", 16)


def test_pandas_is_whole_before_any_page_can_ask_for_it():
    """Plotly takes it from sys.modules, where another visitor's thread may have it half loaded."""
    imports = re.findall(
        r"^(?:import|from) (\w+)", (ROOT / "app" / "dashboard.py").read_text("utf-8"), re.MULTILINE
    )
    assert imports.index("pandas") < min(imports.index("streamlit"), imports.index("app"))


def test_the_readme_and_the_project_name_one_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (needed,) = re.findall(r"Python (\d\.\d+) or newer", (ROOT / "README.md").read_text("utf-8"))
    assert project["project"]["requires-python"] == f">={needed}"
    assert project["tool"]["ruff"]["target-version"] == "py" + needed.replace(".", "")


def answer(path: str, query: str = "", **more):
    """What the server answers to a browser that asks for a page."""
    (route,) = [route for route in routes() if route.path == path]
    asked = {"type": "http", "path": path, "query_string": query.encode(), "headers": [], "server": ("a", 1)}
    asked |= more
    return route.endpoint(Request(asked))


def test_a_page_has_its_style_before_the_browser_draws_it():
    for name in PAGES:
        head = answer(f"/{'' if name == HOME else name}").body.decode().split("</head>")[0]
        assert style.STYLE in head, name
        assert DRAWER in head, name  # a phone's is closed before Streamlit opens it
        assert (style.ASIDE in head) == (name != HOME), name
        assert all(f"/{script}." in head for script in SCRIPTS), name
    usual, room = (answer("/tiles", query).body.decode() for query in ("", "present=true"))
    assert style.ASIDE not in room  # it sees no sidebar
    large = style.PRESENTER_STYLE.split("<style>")[1]
    assert f'<style id="presented">{large}' in room
    assert large not in usual + answer("/tiles", "present=true&presenter=true").body.decode()
    assert 'getElementById("presented")?.remove()' in (ROOT / "app" / "frame" / "frame.js").read_text("utf-8")


def test_the_name_of_start_leads_to_the_bare_address():
    moved = answer(f"/{HOME}", "present=true")
    assert (moved.status_code, moved.headers["location"]) == (307, "./?present=true")


def test_what_lies_below_a_page_leads_to_the_page_with_its_scenario():
    for rest, location in (
        ("more", "../tiles?seq=512"),
        ("a/b", "../../tiles?seq=512"),
        ("", "../tiles?seq=512"),
    ):
        moved = answer("/tiles/{rest:path}", "seq=512", path_params={"rest": rest})
        assert (moved.status_code, moved.headers["location"]) == (307, location)

"""What a fresh server takes care of before its first visitor comes."""

import gzip
import os
import re
import subprocess
import sys
import time
import tomllib
from http.client import HTTPConnection
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from packaging.requirements import Requirement
from starlette import requests

from app.canvas import scripts
from app.canvas.bundle import bundle
from app.contents import HOME, PAGES
from app.frame import startup, style
from app.frame.document import EARLY, SCRIPTS, routes
from app.player import HERE, PLAYER
from app.scenario import link
from engine.model.cluster.kernel import _call
from engine.root import ROOT
from engine.studies.several_gpus import _held, cluster_recordings
from engine.studies.survey import _by_length
from tests.dashboard import served

OTHERS = """
[server]
address = "0.0.0.0"
allowedHosts = ["evil.example.com"]
baseUrlPath = "elsewhere"
enableCORS = false
enableStaticServing = true
enableXsrfProtection = false
[browser]
gatherUsageStats = true
[logger]
hideWelcomeMessage = false
"""


def test_from_whatever_folder_it_starts_it_keeps_to_its_own_configuration_and_sends_at_once(tmp_path):
    log, folder = tmp_path / "log.txt", tmp_path / "another project"
    (folder / ".streamlit").mkdir(parents=True)
    (folder / ".streamlit" / "config.toml").write_text(OTHERS)
    folder.chmod(0o555)
    with served(ROOT / "app" / "main.py", log, cwd=folder, address="") as dashboard:
        with urlopen(f"{dashboard.address}/_stcore/health") as answer:
            assert "_streamlit_xsrf" in answer.headers["set-cookie"]
        asked = Request(f"{dashboard.address}/", headers={"Host": "evil.example.com"})
        with pytest.raises(HTTPError, match="421"):
            urlopen(asked)
        # an answer that waits until a browser confirms its first part takes 40 ms
        one, took = HTTPConnection("127.0.0.1", dashboard.port), []
        for _ in range(20):
            begun = time.perf_counter()
            one.request("GET", "/_stcore/health")
            one.getresponse().read()
            took.append(time.perf_counter() - begun)
        one.close()
    assert min(took[2:]) < 0.035, took  # at first a system confirms at once
    # no welcome, for which Streamlit asks outside, and nothing of a network
    assert log.read_text() == f"  The dashboard is at http://localhost:{dashboard.port}\n"
    options = startup.settings()
    assert (options["server.address"], options["server.maxUploadSize"]) == ("localhost", 16)
    assert options["browser.gatherUsageStats"] is False
    assert options["logger.hideWelcomeMessage"]  # printing it asks
    assert options["theme.dark.sidebar.backgroundColor"].startswith("#")


def test_pandas_is_whole_before_any_page_can_ask_for_it():
    """Plotly takes it from sys.modules, where another visitor's thread may have it half loaded."""
    text = (ROOT / "app" / "dashboard.py").read_text("utf-8")
    imports = re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)
    assert imports.index("pandas") < min(imports.index("streamlit"), imports.index("app"))


def test_the_readme_and_the_project_name_one_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (needed,) = re.findall(r"Python (\d\.\d+) to ", (ROOT / "README.md").read_text("utf-8"))
    assert project["project"]["requires-python"] == f">={needed}"
    assert project["tool"]["ruff"]["target-version"] == "py" + needed.replace(".", "")


def answer(path: str, query: str = "", **more):
    """What the server answers to a browser that asks for a page."""
    (route,) = [route for route in routes() if route.path == path]
    asked = {"type": "http", "path": path, "query_string": query.encode(), "headers": [], "server": ("a", 1)}
    asked |= more
    return route.endpoint(requests.Request(asked))


def test_a_link_of_too_many_values_is_said_to_be_left_out(open_app):
    most = "&".join(f"a{number}=1" for number in range(link.MOST_VALUES))
    assert answer("/tiles", most).status_code == 200
    led = answer("/tiles", f"{most}&a=1")
    assert (led.status_code, led.headers["location"]) == (307, f"tiles?{link.TOO_LONG}=true")
    assert answer("/", "a=" + "1" * link.MOST_CHARACTERS).headers["location"] == f"./?{link.TOO_LONG}=true"
    app = open_app("tiles", **{link.TOO_LONG: "true"})
    assert [text.value for text in app.text] == [link.LEFT_OUT]
    assert link.TOO_LONG not in app.query_params


def test_all_windows_of_a_browser_are_one_visitors():
    first = answer("/tiles").headers["set-cookie"]
    name = first.split(";")[0].removeprefix("visitor=")
    assert {"HttpOnly", "SameSite=strict"} <= set(first.split("; "))
    assert len(name) > 20
    assert name not in answer("/tiles").headers["set-cookie"]
    again = answer("/tiles", headers=[(b"cookie", f"visitor={name}".encode())])
    assert "set-cookie" not in again.headers


def test_a_page_has_its_style_before_the_browser_draws_it():
    for name in PAGES:
        head = answer(f"/{'' if name == HOME else name}").body.decode().split("</head>")[0]
        assert style.SECTIONS["everywhere"] in head, name
        assert f"<script>{EARLY.read_text('utf-8')}</script>" in head, name  # before Streamlit's own
        assert head.index("<script>") < head.index('<script type="module"'), name
        assert (style.SECTIONS["aside"] in head) == (name != HOME), name
        assert all(f"/{script}." in head for script in SCRIPTS), name
    usual, room = (answer("/tiles", query).body.decode() for query in ("", "present=true"))
    assert style.SECTIONS["aside"] not in room  # it sees no sidebar
    large = style.SECTIONS["presented"]
    assert f'<style id="presented">{large}' in room
    assert large not in usual + answer("/tiles", "present=true&presenter=true").body.decode()
    assert 'getElementById("presented")?.remove()' in (ROOT / "app" / "frame" / "frame.js").read_text("utf-8")


def test_start_s_name_leads_to_the_bare_address_and_what_lies_below_a_page_to_the_page():
    moved = answer(f"/{HOME}", "present=true")
    assert (moved.status_code, moved.headers["location"]) == (307, "./?present=true")
    for rest, location in (("more", "../tiles"), ("a/b", "../../tiles"), ("", "../tiles")):
        moved = answer("/tiles/{rest:path}", "seq=512", path_params={"rest": rest})
        assert (moved.status_code, moved.headers["location"]) == (307, f"{location}?seq=512")


def test_a_script_is_loaded_once_by_a_name_that_holds_its_hash_and_comes_along_with_a_file(open_app):
    module = scripts.loader("some", "export default 1;")
    (file,) = [word for word in module.split('"') if word.startswith("./scripts/")]
    name = file.removeprefix("./scripts/")
    assert module.count("\n") == 2  # Streamlit takes a single line for the name of a file
    assert gzip.decompress(scripts.packed(name)) == b"export default 1;"
    assert scripts.loader("some", "export default 2;") != module
    assert scripts.packed("../app/main.py") is None
    given = answer("/scripts/{file}", path_params={"file": name})
    assert (given.status_code, given.headers["content-encoding"]) == (200, "gzip")
    assert "immutable" in given.headers["cache-control"]
    assert given.headers["content-type"].startswith("text/javascript")
    assert answer("/scripts/{file}", path_params={"file": "none.js"}).status_code == 404
    drawn = [node.proto for node in open_app("tiles").get("bidi_component")]
    (player,) = [each for each in drawn if each.component_name == "attention_player"]
    assert len(player.js_content) < 300  # a message brings no script
    whole = bundle(HERE / "player.js")
    assert whole in PLAYER.offline(b"", "Player")
    name = player.js_content.split('"')[1].removeprefix("./scripts/")
    assert gzip.decompress(scripts.packed(name)).decode() == whole


def test_products_of_small_matrices_are_not_shared_between_threads_that_spin():
    """They wait by spinning for longer than a product takes; `app.main` imports in this order."""
    code = (
        "import streamlit, app, numpy, os; square = numpy.ones((600, 600)); square @ square; "
        "print(len(os.listdir('/proc/self/task')))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    asked = {"cwd": ROOT, "env": environment, "capture_output": True, "text": True, "check": True}
    alone = int(subprocess.run([sys.executable, "-c", code], **asked).stdout)
    shared = int(subprocess.run([sys.executable, "-c", code.replace("app, ", "")], **asked).stdout)
    if shared == 1:
        pytest.skip("NumPy has one thread here anyway")
    assert alone < shared


def test_a_first_visitor_waits_for_none_of_it(open_app):
    startup.foresee()
    name = f"{_held.__module__}.{_held.__qualname__}"

    def worked_out() -> list[object]:
        held = [id(vars(each)[name][()]) for each in cluster_recordings(None)]
        return held + [each.cache_info().misses for each in (_call, _by_length)]

    before = worked_out()
    open_app("across")
    open_app("speed")
    assert worked_out() == before


def test_the_lock_has_what_is_asked_for_in_its_bounds_and_a_hash_of_each():
    locked = re.findall(
        r"^([\w-]+)==(\S+) (?:; .*)?\\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
        (ROOT / "assets" / "requirements.lock").read_text("utf-8"),
        re.MULTILINE,
    )
    versions = {name: version for name, version, _ in locked}
    asked = [Requirement(line) for line in requirements("requirements.txt")]
    assert len(asked) > 5
    assert [one.name for one in asked if not one.specifier.contains(versions.get(one.name, "0"))] == []
    lines = (ROOT / "assets" / "requirements.lock").read_text("utf-8").splitlines()
    assert len(locked) == sum(not line.startswith((" ", "#")) for line in lines)


def requirements(file: str) -> list[str]:
    """What a file asks for, and the files that it names."""
    found = []
    for line in (ROOT / file).read_text("utf-8").splitlines():
        if line.startswith("-r "):
            found += requirements(line[3:])
        elif line and not line.startswith("#"):
            found.append(line)
    return found

"""A page with a picture is one module and a line in the list of pages: everyone else finds it there."""

import sys
from html import escape
from types import MappingProxyType, ModuleType

import pytest

from app import contents, scenario
from app.canvas.moving import Moving
from app.gallery.picture import USUAL, Drawn, Picture
from app.gallery.site import site
from engine.experiment import Experiment, described
from tests.app.room.test_room_on_screen import drawn

SCRIPT = "export default function show({ data }) { document.title = data.keys; }"
ABOUT = "As many keys as the scenario has."


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A page Toy, whose picture says how many keys there are."""
    for kind, text in (("html", "<b>a toy</b>"), ("css", "b { color: red }"), ("js", SCRIPT)):
        (tmp_path / f"toy.{kind}").write_text(text)
    moving = Moving("toy", tmp_path / "toy.html", "Keys of a toy")

    def picture(experiment) -> Drawn:
        return Drawn("<p>a toy</p>", moving, {"keys": experiment.problem.seq_kv})

    module = ModuleType("app.page.toy")
    module.PICTURE = Picture(picture, ABOUT)
    module.show = lambda: module.PICTURE.show(scenario.current(), key="toy")
    monkeypatch.setitem(sys.modules, "app.page.toy", module)
    groups = {**contents.GROUPS, "Watch": {**contents.GROUPS["Watch"], "toy": "Toy"}}
    monkeypatch.setattr(contents, "GROUPS", MappingProxyType(groups))
    return module.PICTURE


def test_its_page_shows_it_and_offers_it_as_a_file(toy, open_app, download):
    app = open_app("toy", seq="512")
    shown = {each.proto.component_name: each.proto for each in app.main.get("bidi_component")}
    assert '"keys":512' in shown["toy"].json.replace(" ", "")
    assert "Keys of a toy, HTML" in download(app)


def test_phones_get_it_for_the_scenario_that_is_shown(toy):
    document = drawn({"page": "toy", "values": {"seq": "512"}})
    assert "<p>a toy</p>" in document
    assert '{"keys": 512, ' in document


def test_the_static_site_has_its_file_and_lists_it(toy, monkeypatch):
    monkeypatch.setattr(contents, "GROUPS", MappingProxyType({"Learn": {}, "Watch": {"toy": "Toy"}}))
    files = site()
    assert f"<a href='toy.html'>Toy</a><span>{ABOUT}</span>" in files["index.html"]
    assert f'{{"keys": {USUAL.problem.seq_kv}, ' in files["toy.html"]
    mine = Experiment.of(seq=768)
    files = site(mine)
    assert described(mine) in files["toy.html"]
    assert '{"keys": 768, ' in files["toy.html"]
    assert escape("<iframe src='toy.html' title='Toy'") in files["embed.html"]

"""What Python and the browser both need is written down once, and reaches the browser in the header."""

import re

import pytest

from app.figures.shared_tables import palettes, steps_tables
from app.player import backward, payload
from engine.experiment import Experiment
from engine.root import ROOT
from tests.app.player.test_player_payload import unpack

APP = ROOT / "app"
SCRIPTS = sorted(APP.rglob("*.js"))
HEX = re.compile(r"#[0-9a-f]{6}\b", re.IGNORECASE)
ALGORITHM = re.compile(r"standard\b|flash-?(?:attention-)?\d|split_kv", re.IGNORECASE)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(APP)))
def test_no_script_holds_a_palette_or_an_algorithms_name(script):
    source = script.read_text("utf-8")
    colours = set(HEX.findall(source.lower())) - {"#ffffff"}  # white: the page's ground where none is told
    assert not colours
    if script.parent.name in ("player", "gpu", "inside", "across", "canvas"):
        code = re.sub(r"^\s*(?://|/?\*).*$", "", source, flags=re.MULTILINE)
        assert not ALGORITHM.findall(code)


def test_the_header_carries_the_tables_and_what_each_run_is_called():
    for kind, names in ((payload, ["standard", "FlashAttention-2"]), (backward, ["the backward pass"])):
        header, _ = unpack(kind.build(Experiment.of()))
        assert [run["title"] for run in header["runs"].values()] == names
        assert header["palettes"] == palettes()
        assert header["operations"] == steps_tables()["operations"]

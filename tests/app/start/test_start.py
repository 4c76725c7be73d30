"""The Start page: its totals are those of the file, and its two buttons lead on."""

import pytest

from app import start
from engine import Experiment
from tests.app.test_hbm import sampled


def test_both_totals_are_those_of_the_file():
    said = start.conclusion(start.race())
    rows = [sampled(name) for name in ("standard", "flash2")]
    stored, fused = (32 * (sum(row["read"]) + sum(row["written"]) + row["left"]) for row in rows)
    seconds = [row["times"]["p50"] for row in rows]
    assert f"{stored / 1e9:.3g} GB through HBM in {seconds[0] * 1e6:.3g} µs" in said
    assert f"{fused / 1e6:.3g} MB through HBM in {seconds[1] * 1e6:.3g} µs" in said
    assert f"{stored / fused:.3g} times fewer bytes and {seconds[0] / seconds[1]:.3g} times less time" in said


def test_without_such_a_pair_there_is_no_race(monkeypatch):
    alone = start.race()[1:]
    monkeypatch.setattr(start, "sampled_calls", lambda _: alone)
    assert start.race() == []


@pytest.mark.parametrize(("label", "experiment"), [("Start the lecture", None), ("Explore", Experiment())])
def test_one_click_leads_on(open_app, monkeypatch, label, experiment):
    opened = []
    monkeypatch.setattr("app.scenario.turn_to", opened.append)
    app = open_app("start")
    (button,) = [button for button in app.button if button.label == label]
    button.click().run()
    assert opened == ["tour" if experiment is None else "tiles"]
    if experiment:
        assert app.session_state["own experiment"] == experiment

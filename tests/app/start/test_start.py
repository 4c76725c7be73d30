"""The Start page: its totals are those of the file, and its two buttons lead on."""

import json
from pathlib import Path

import pytest

from app import start
from engine import Experiment
from engine.studies.same_work import same_work

FILE = Path(__file__).resolve().parents[3] / "assets" / "recordings" / "h200.json"


def recorded(provider: str) -> list[dict]:
    """The kernels of a call as they stand in the file, read without this project's reader."""
    lines = (line.strip().rstrip(",]") for line in FILE.read_text().splitlines() if '"dram_read"' in line)
    for row in (json.loads(line[line.index("{") :]) for line in lines):
        problem = row["problem"]
        shape = *(problem[name] for name in ("heads", "seq_q", "head_dim")), problem["mask"]["causal"]
        call = row["provider"], row["direction"], shape, (row["block_q"], row["block_kv"])
        if call == (provider, "forward", (16, 4096, 128, False), (128, 64)):
            return row["kernels"]
    raise AssertionError(provider)


def test_both_totals_are_those_of_the_file():
    said = start.conclusion(start.shown())
    bytes_of = {
        name: sum(kernel["dram_read"] + kernel["dram_written"] for kernel in recorded(name))
        for name in ("standard", "flash2")
    }
    seconds = {name: sum(kernel["seconds"] for kernel in recorded(name)) for name in bytes_of}
    assert f"{bytes_of['standard'] / 1e9:.3g} GB" in said
    assert f"{bytes_of['flash2'] / 1e6:.3g} MB" in said
    assert all(f"{each * 1e6:.3g} µs" in said for each in seconds.values())
    assert f"{bytes_of['standard'] / bytes_of['flash2']:.3g} times fewer bytes" in said
    assert f"{seconds['standard'] / seconds['flash2']:.3g} times less time" in said


def test_the_picture_gets_every_kernel_of_both_calls():
    lanes = start.payload(start.shown())["lanes"]
    for lane, provider in zip(lanes, ("standard", "flash2"), strict=True):
        assert [each["read"] for each in lane["kernels"]] == [k["dram_read"] for k in recorded(provider)]
        assert [each["seconds"] for each in lane["kernels"]] == [k["seconds"] for k in recorded(provider)]


def test_the_chip_is_told_by_what_an_sm_has():
    assert start.payload(start.shown())["chip"] == [
        "Chip: 132 SMs",
        "233 kB each",
    ]  # 228 KiB; a block may use 227


def test_a_recording_without_such_a_pair_shows_none():
    recording = start.shown().recording
    assert same_work(type(recording)(recording.device)) is None


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

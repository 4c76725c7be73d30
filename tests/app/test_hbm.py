"""What crosses HBM, while it happens: its areas are the bytes of the file, on Start and for any scenario."""

import json

import numpy as np
import pytest

from app import contents, hbm, start
from app.hbm.payload import build
from engine import Experiment
from engine.root import ROOT
from engine.studies.sampled_calls import sampled_calls
from tests.app.player.test_player_payload import unpack

FILE = ROOT / "assets" / "recordings" / "h200.json"


def sampled(provider: str) -> dict:
    """A call as it stands in the file, read without this project's reader."""
    lines = (line for line in FILE.read_text().splitlines() if '"exponentials"' in line)
    for row in (json.loads(line[line.index("{") :].rstrip(",]")) for line in lines):
        shape = tuple(row["problem"][name] for name in ("seq_kv", "head_dim", "mask"))
        way = row["provider"], row.get("cold", True), row.get("direction", "forward")
        if (way, shape) == ((provider, True, "forward"), (4096, 128, {"documents": 1})):
            return row
    raise AssertionError(provider)


def test_areas_are_the_bytes_of_the_file():
    header, arrays = unpack(build(sampled_calls(start.WORK)))
    names = ("standard", "flash2", "flash3")
    for number, (lane, name) in enumerate(zip(header["lanes"], names, strict=True)):
        row = sampled(name)
        assert arrays[f"lane{number}.read"].tolist() == [32 * sectors for sectors in row["read"]]
        written = arrays[f"lane{number}.written"].astype(np.int64)
        assert written[: len(row["written"])].tolist() == [32 * sectors for sectors in row["written"]]
        # what lay in L2 is drawn after the end
        assert written.sum() == 32 * (sum(row["written"]) + row["left"])
        assert written.max() <= lane["most"]
        assert lane["end"] == pytest.approx(1e6 * row["interval"] * len(row["read"]))
        assert lane["seconds"] == row["times"]["p50"]
        assert arrays[f"lane{number}.tensor"].tolist() == row["tensor"]
        peak = 16 * 132 * 1.83e9 * row["interval"] / 32  # warps of an H200's unit of exponentials
        shares = 1000 * np.array(row["exponentials"]) / peak
        assert arrays[f"lane{number}.exponentials"] == pytest.approx(shares, abs=0.5)
    assert [words for *_, words in header["lanes"][0]["kernels"]] == ["Q K → S", "S → P", "P V → O"]
    assert header["lanes"][0]["origin"].startswith("recorded on NVIDIA H200, ")
    assert not header["lanes"][1]["origin"]  # said once


def test_the_model_stands_beside_what_was_sampled():
    header, arrays = unpack(build(sampled_calls(start.WORK)))
    for number, lane in enumerate(header["lanes"]):
        modelled = sum(arrays[f"lane{number}.model_{way}"].sum() for way in ("read", "written"))
        moved = sum(arrays[f"lane{number}.{way}"].astype(np.int64).sum() for way in ("read", "written"))
        assert modelled == pytest.approx(moved, rel=0.02)
        assert lane["modelled"][0].endswith(" MB (0%)" if number else " GB (0%)")


def test_blocks_of_the_same_call_are_aligned_with_its_work():
    calls = sampled_calls(start.WORK)
    _, arrays = unpack(build(calls))
    assert "blocks1.sm" not in arrays  # FlashAttention-2 was traced in other blocks
    begin, length = arrays["blocks2.start"], arrays["blocks2.length"]
    assert begin.min() == pytest.approx(1e6 * calls[2].row.interval * calls[2].row.kernels[0][0], abs=0.01)
    assert (begin + length).max() <= 1e6 * calls[2].row.seconds
    assert set(arrays["blocks2.sm"]) == set(range(132))


def test_phones_and_files_have_it_above_the_charts_of_its_page():
    drawn = contents.picture("traffic").of(start.WORK)
    assert (drawn.moving, drawn.html) == (hbm.HBM, "<div class='on-light'></div><div class='on-dark'></div>")
    for theme in ("on-light", "on-dark"):
        assert "over the sequence length" in drawn.below.split(f"<div class='{theme}'>")[1]


@pytest.mark.parametrize(
    ("values", "providers"),
    [
        ({"algorithm": "split_kv", "seq": 1, "seq_kv": 65536, "head_dim": 128}, ["split_kv"]),
        ({"algorithm": "flash3", "seq": 8192, "head_dim": 128, "causal": True}, ["flash3"]),
        ({"algorithm": "flash1", "seq": 4096, "head_dim": 64}, ["flash1"]),
    ],
)
def test_a_scenario_without_samples_shows_the_nearest_call_and_says_so(values, providers):
    experiment = Experiment.of(**values)
    calls = sampled_calls(experiment)
    assert set(providers) <= {call.row.provider for call in calls}
    assert len({call.row.problem for call in calls}) == 1
    near = "nearest to the scenario" in hbm.words(calls, experiment)
    assert near == (calls[0].row.problem != experiment.problem)


def test_both_totals_are_those_of_the_file():
    said = start.conclusion(start.race())
    rows = [sampled(name) for name in ("standard", "flash2")]
    stored, fused = (32 * (sum(row["read"]) + sum(row["written"]) + row["left"]) for row in rows)
    seconds = [row["times"]["p50"] for row in rows]
    assert f"{stored / 1e9:.3g} GB through HBM in {seconds[0] * 1e6:.3g} µs" in said
    assert f"{fused / 1e6:.3g} MB through HBM in {seconds[1] * 1e6:.3g} µs" in said
    assert f"{stored / fused:.3g} times fewer bytes and {seconds[0] / seconds[1]:.3g} times less time" in said


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

"""The Masks page: its counts are the engine's, its pictures the tile grid, and documents are in the link."""

import base64
import re
from dataclasses import replace

import numpy as np
import pytest

from app.figures import masks as figures
from app.figures.colours import palette
from app.figures.units import bytes_text, seconds_text
from engine import Experiment, simulate
from engine.algorithms import BACKWARD, FORWARD
from engine.measuring.sections import together
from engine.problem.bounds import key_bounds
from engine.recordings.recording import Device, Recording
from engine.recordings.timing import Times
from engine.studies.masks import density, under_masks
from tests.app.worker_page import html, opened, unfolded

COLOURS = palette(True)


def pictures(page) -> list[str]:
    """The SVG of every image of the page, in order."""
    return [base64.b64decode(data).decode() for data in re.findall(r"svg\+xml;base64,([^']+)'", html(page))]


def test_the_table_has_each_number_below_its_name():
    """16 x 16 tiles of 64 x 64, causal: 136 of them, for 16 heads of d 64."""
    shown = html(unfolded(opened("masks", seq=1024, documents=16, window=300), "masks"))
    row = r"<td class='words'>([^<]*)</td>(.*?)</tr>"
    rows = {name: re.findall(r"<td>(.*?)</td>", cells) for name, cells in re.findall(row, shown)}
    columns = re.findall(r"<th scope='col'[^>]*>([^<]*)", shown)
    one = simulate(Experiment.of(seq=1024, causal=True))
    flops, read = 16 * 136 * 4 * 64**3, 16 * (2 * 1024 * 64 + 136 * 2 * 64 * 64) * 2 + 16 * 1024 * 4
    assert dict(zip(columns[5:], rows["Causal: keys up to its own"][4:], strict=True)) == {
        "share visited": f"{136 / 256:.1%}",
        "bytes, counted": bytes_text(read),
        "FLOPs, counted": f"{flops / 1e9:.2f} GFLOP",
        "time, modelled": seconds_text(one.modelled.seconds),
    }
    masks = ({}, {"causal": True}, {"window": 300}, {"documents": 16}, {"documents": 16, "causal": True})
    for values, cells in zip((*masks, {"documents": 16, "window": 300}), rows.values(), strict=True):
        tiles = simulate(Experiment.of(seq=1024, **values)).traffic.per_head
        counts = (tiles.tiles_visited, tiles.tiles_full, tiles.tiles_partial, tiles.tiles_skipped)
        assert cells[:4] == [f"{count:,}" for count in counts]
        assert f"<p>{tiles.tiles_visited:,} tiles<br>" in shown
    assert columns[1:5] == ["visited", "full", "partial", "skipped"]
    assert shown.count("<br>the scenario&#x27;s mask") == 1


def test_documents_set_here_are_the_scenarios():
    page = opened("masks", seq=1024)
    page.main.select_slider[0].set_value(4).run()
    assert page.session_state["experiment"].problem.mask.documents == 4
    assert html(page).count("4 of 256 keys") == 2


def test_a_picture_fills_exactly_the_visited_tiles():
    experiment = Experiment.of(seq=256, block_q=64, block_kv=32, causal=True)
    bounds = key_bounds(experiment.problem, experiment.tiling)
    panel = figures.Panel("a", "b", density(bounds, 8))
    drawn = figures.multiples([panel], experiment.problem, COLOURS)
    svg = base64.b64decode(re.search("base64,([^']+)'", drawn)[1]).decode()
    wide, high, filled = 48, 96, np.zeros((4, 8))  # tiles of 64 queries and 32 keys: twice as high as wide
    for x, y, width, height, opacity in re.findall(
        r"<rect x='(\d+)' y='(\d+)' width='(\d+)' height='(\d+)' fill-opacity='([\d.]+)'/>",
        svg.split("<g fill=")[2],  # the tiles, upon the ground of what is visited
    ):
        assert int(height) == high
        filled[int(y) // high, int(x) // wide : (int(x) + int(width)) // wide] = float(opacity)
    tiles = np.arange(8)
    visited = (tiles >= bounds.first[:, None]) & (tiles < bounds.stop[:, None])
    full = (tiles >= bounds.full_first[:, None]) & (tiles < bounds.full_stop[:, None])
    np.testing.assert_array_equal(filled, np.where(full, 0.9, np.where(visited, 0.42, 0)))


def test_a_picture_has_the_shape_of_queries_over_keys_whatever_the_blocks():
    for values, ratio in (({}, 1), ({"block_q": 16, "block_kv": 256}, 1), ({"seq_kv": 2048}, 2)):
        shown = html(opened("masks", seq=1024, **values))
        assert set(re.findall(r"<img alt='[^']+' style='aspect-ratio:([\d.]+)'", shown)) == {str(ratio)}


@pytest.mark.parametrize("seq", [1, 64, 4096, 2**20])
def test_any_length_is_drawn_with_few_pixels(seq):
    page = opened("masks", seq=seq)
    drawn = pictures(page)
    assert len(drawn) >= len(under_masks(Experiment.of(seq=seq)))
    assert sum(map(len, drawn)) < 400_000
    assert ("Each pixel stands for" in page.caption[1].value) == (seq == 2**20)


def test_recorded_masks_are_told_beside_the_plain_rate(monkeypatch):
    ways = zip((FORWARD, BACKWARD), together("variants", "direction"), strict=True)
    plan = {way: [row for row in rows if row.provider == "flash2"] for way, rows in ways}
    rates = {FORWARD: [500.0, 400.0, 300.0, 300.0, 200.0, *[300.0] * 6], BACKWARD: [200.0] * 11}
    rows = [
        replace(row, times=Times(*[row.flops / rate / 1e12] * 3, 5), commit="1234567890")
        for way, found in plan.items()
        for row, rate in zip(found, rates[way], strict=True)
    ]
    device = Device("NVIDIA H200", "1", {}, {}, 150 * 10**9, "abc", "2026-11-21T09:00:00")
    recording = Recording(device, variants=tuple(rows))
    monkeypatch.setattr("app.page.masks.chosen_recording", lambda: recording)
    page = unfolded(opened("masks"), "mask times")
    shown = html(page)
    assert ">Documents, causal, 5 of 1 to 8,192 keys</td><td>18.2%<" in shown
    cells = "<td>50.0%</td><td>3.67 ms</td><td>300</td><td>75%</td>"
    assert f">Causal with sinks, keys up to its own</td>{cells}" in shown
    assert "Recorded on NVIDIA H200, 2026-11-21: times of" in page.caption[-1].value
    monkeypatch.setattr("app.page.masks.chosen_recording", lambda: None)
    assert "No recording shown here" in page.run().main.markdown[0].value

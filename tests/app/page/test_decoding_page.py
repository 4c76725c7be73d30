"""The Decoding page: its numbers are the model's, the executed parts and the recording's."""

import json
from dataclasses import replace

import numpy as np
import pytest

from app.figures.colours import palette
from app.figures.units import bytes_text, scaled, seconds_text
from app.page.parts.decoded import recorded
from engine import Experiment, simulate
from engine.recordings.file import recordings
from engine.studies.decoding import decoding_of, kernel_splits, parts_of, rate, recorded_near, spread
from tests.app.worker_page import html, opened, unfolded, words

COLOURS = palette(True)
LONG = {"heads": 32, "kv_heads": 8, "seq": 1, "seq_kv": 65536, "head_dim": 128, "causal": "true"}


@pytest.mark.parametrize("splits", [1, 8, 64])
def test_the_headline_is_the_models(splits):
    page = opened("decoding", **LONG, splits=splits)
    simulation = simulate(decoding_of(page.session_state["experiment"]))
    head, busy = page.header[0].value, spread(simulation).busy
    assert (f"only {busy} of the 132 SMs get any work" if busy < 132 else "all 132 SMs get work") in head
    assert f"at {scaled(rate(simulation), 'B/s')} (modelled) of the memory's peak of 4.8 TB/s" in head
    assert html(page).count("<i style='background:color-mix") == busy
    assert seconds_text(simulation.modelled.seconds) in words(page)


def test_the_splits_are_the_scenarios_and_the_kernels_choice_is_offered():
    page = opened("decoding", **LONG)
    own = kernel_splits(decoding_of(page.session_state["experiment"]))
    cache, slider, *_ = page.main.select_slider
    assert cache.value == 65536
    assert f"the kernel chooses {own} here" in slider.label
    assert str(own) in slider.options
    slider.set_value(own)
    cache.set_value(32768)
    experiment = page.run().session_state["experiment"]
    assert (experiment.tiling.splits, experiment.problem.seq_q, experiment.problem.seq_kv) == (own, 1, 32768)


def test_every_part_can_be_merged_and_its_numbers_are_the_executed_ones():
    page = unfolded(opened("decoding", **LONG, splits=8), "decoding merge")
    parts = parts_of(decoding_of(page.session_state["experiment"]))
    for step in range(9):
        page.main.slider[0].set_value(step).run()
        shown = html(page)
        assert f"{step} merged" in shown
        for value in parts.merged[step][:6]:
            text = "−∞" if np.isneginf(value) else f"{value:.4g}".replace("-", "−")
            assert f"<td>{text}</td>" in shown
        for at in range(8):
            assert f"<td>{parts.lse[at]:.4g}</td>" in shown
    assert f"{parts.error:.1e}" in words(page)
    assert "scaled down from the scenario's 65,536" in words(page)


def test_the_recording_is_drawn_with_its_peers_and_every_time():
    page = unfolded(opened("decoding", **LONG), "decoding times")
    recording = recordings()[0]
    decoding = decoding_of(page.session_state["experiment"])
    assert f"{recording.origin[1:]}: 65,536 keys" in words(page)
    drawn = {line["name"]: line for line in json.loads(page.get("plotly_chart")[1].proto.spec)["data"]}
    told = {text for line in drawn.values() for text in line["customdata"]}
    for row in recorded_near(recording, decoding):
        if row.times is not None and row.provider != "copy" and not row.page_size:
            assert seconds_text(row.times.p50) in told
    assert {"split keys", "the same, modelled", "PyTorch cuDNN", "PyTorch flash"} <= drawn.keys()


def test_pages_show_what_is_unused_and_whose_each_is():
    """Six sequences of up to 2,048 keys in pages of 16, worked out here; then of 256 in the same memory."""
    page = unfolded(opened("decoding", **LONG), "decoding pages")
    lengths = [round((i * (5**0.5 - 1) / 2) % 1 * 2048) for i in range(1, 7)]
    for size in (16, 256):
        pages = [-(-length // size) for length in lengths]
        left = [size * count - length for count, length in zip(pages, lengths, strict=True)]
        said, shown = words(page), html(page)
        share, kept = sum(left) / size / sum(pages), 1 - sum(lengths) / 6 / 2048
        assert f"**Pages of {size} keys leave {share:.1%} of the memory" in said
        assert f"a whole cache per sequence leaves {kept:.1%} unused" in said
        assert f"room for {(6 * 2048 // size - sum(pages)) * 6 // sum(pages)} sequences more" in said
        assert "50.3 MB are taken, of which 25.3 MB hold no key" in shown  # whole caches, 4,096 B a key
        taken, empty = bytes_text(4096 * size * sum(pages)), bytes_text(4096 * sum(left))
        assert f"{taken} are taken, of which {empty} hold no key" in shown
        assert all(f"<td>{length:,}</td>" in shown for length in lengths)
        assert shown.count("<i style='--tone") == 6 + sum(pages)  # whole caches, and pages
        page.main.select_slider(key="own pool_page").set_value(256).run()


@pytest.mark.parametrize("provider", ["copy", "sdpa_cudnn", "split_kv"])
def test_a_recording_that_sweeps_no_splits_is_drawn(provider):
    recording = recordings()[0]
    decoding = decoding_of(Experiment.of(**LONG))
    rows = [row for row in recorded_near(recording, decoding) if row.times and not row.splits]
    few = [row for row in rows if row.provider == provider]
    assert len(few) == 1
    recorded(replace(recording, decoding=tuple(few)), decoding, COLOURS)


def test_more_splits_than_key_blocks_leave_some_without_keys():
    page = unfolded(opened("decoding", seq=128, splits=16, block_kv=32), "decoding merge")
    page.main.slider[0].set_value(16).run()
    assert "<td>none</td>" in html(page)

"""Recordings on the pages: with GPU and date, apart from the model, and absent where there is none."""

from __future__ import annotations

import pytest

from app.figures.colours import palette
from app.figures.recorded import counters, heat_grid
from app.figures.units import bytes_text
from app.views import recorded
from engine.counted import counted
from engine.experiment import Mask, Problem
from engine.measuring.contest import usual
from engine.recording import Counters, Device, KernelCounters, Recording, Times, Timing, Tried
from tests.app.worker_page import again, html, opened, own_worker

COLOURS = palette(False)
DEVICE = Device("NVIDIA H200", "580.95", {"torch": "2.11.0"}, {}, 150 * 10**9, "abc", "2026-11-21T09:00:00")
PROBLEM = Problem(1, 16, 16, 1024, 1024, 64, "float16", Mask())

__all__ = ["own_worker"]


def timing(provider: str, seq: int, seconds: float | None, direction: str = "forward") -> Timing:
    if seconds is None:
        return Timing(provider, provider, direction, usual(seq, 64, False), skipped="out of memory")
    times = Times(0.9 * seconds, seconds, 1.2 * seconds, 9)
    return Timing(provider, provider, direction, usual(seq, 64, False), times, times, 100.0, 1e-4, 4e-4)


def counters_of(provider: str, read: float) -> Counters:
    kernel = KernelCounters("a_kernel", "1", 1e-3, 7e6, 1e6, read, 1e6)
    return Counters(provider, "forward", PROBLEM, 64, 64, kernels=(kernel,))


RECORDING = Recording(
    DEVICE,
    timings=(
        timing("eager", 128, 1e-3),
        timing("eager", 256, 2e-3),
        timing("eager", 512, None),
        timing("flash2", 128, 2e-3),
        timing("flash2", 256, 1e-3),
        timing("flash2", 512, 1e-3),
        timing("flash2", 128, 3e-3, "backward"),
    ),
    sweep=(
        Tried("flash2", PROBLEM, 64, 64, 4, 2, Times(1e-3, 1e-3, 1e-3, 9), 300.0),
        Tried("flash2", PROBLEM, 64, 128, 4, 2, skipped="out of shared memory: 288 KB of 227 KB"),
    ),
    counters=(counters_of("flash2", 3.775e7), counters_of("flash1", 6e7), counters_of("sdpa_flash", 1e7)),
)


@pytest.fixture
def shelf(monkeypatch, own_worker):
    """One recording on the shelf."""
    monkeypatch.setattr("app.shelf.recordings", lambda: (RECORDING,))


@pytest.fixture
def empty_shelf(monkeypatch, own_worker):
    """No recording."""
    monkeypatch.setattr("app.shelf.recordings", lambda: ())


def words(page) -> str:
    return " ".join(block.value for block in [*page.markdown, *page.caption, *page.subheader])


def test_the_speed_page_names_gpu_date_shape_and_versions(shelf):
    page = opened("speed")
    said = words(page)
    assert "**Recorded on NVIDIA H200, 2026-11-21**: forward, d = 64, no mask, float16" in said
    assert "16k tokens in all, hidden size 2,048" in said
    assert "Driver 580.95, torch 2.11.0" in said
    for metric in ("tflops", "tokens_per_second", "speedup"):
        page.segmented_control(key="speed_metric").set_value(metric)
        again(page)
    page.segmented_control(key="recorded_direction").set_value("backward")
    assert ": backward, d = 64" in words(again(page))


def test_who_overtakes_and_who_runs_out_is_said(shelf):
    said = words(opened("speed"))
    assert "Triton flash 2 is faster than unfused PyTorch from N = 256." in said
    assert "PyTorch unfused runs out of memory at N = 512." in said


def test_a_failed_block_size_says_why(shelf):
    page = opened("speed")
    assert "title='out of shared memory: 288 KB of 227 KB'>memory</td>" in html(page)
    assert "the fastest is 64 × 64 at 300 TFLOP/s" in words(page)
    opened("speed", algorithm="flash1")  # of which no block sizes were recorded


def test_nothing_recorded_is_shown_as_nothing(empty_shelf):
    assert "ecorded" not in words(opened("speed"))
    assert "counters" not in words(opened("agreement"))


def test_the_agreement_page_holds_counters_against_the_model(shelf):
    page = opened("agreement")
    assert "2 scenarios recorded on NVIDIA H200, 2026-11-21, each simulated again now." in words(page)
    assert "the L1 cache serves" in words(page)
    (flash2, _) = counted(RECORDING)
    assert f"<td>{bytes_text(flash2.modelled_read)}</td><td>37.8 MB</td>" in html(page)


def test_a_point_is_counted_over_modelled():
    rows = counted(RECORDING)
    _, flash2, flash1 = counters(rows, "read", "modelled_read", RECORDING.origin, COLOURS).data
    assert (flash2.x[0], flash2.y[0]) == (rows[0].modelled_read, 3.775e7)
    assert "flash1, N 1,024" in flash1.customdata[0][0]


def test_the_fastest_blocks_are_the_strongest():
    slow = Tried("flash2", PROBLEM, 32, 64, 4, 2, Times(5e-3, 5e-3, 5e-3, 9), 60.0)
    heat = Recording(DEVICE, sweep=(*RECORDING.sweep, slow)).heat_map("flash2", 64)
    grid = heat_grid(heat, (32, 64), COLOURS)
    assert f"{COLOURS.q} 55%" in grid
    assert grid.count("inset") == 1


def test_a_sweep_in_which_all_failed_is_shown(shelf, monkeypatch):
    failed = Recording(DEVICE, sweep=RECORDING.sweep[1:])
    monkeypatch.setattr("app.shelf.recordings", lambda: (failed,))
    assert "None of them ran." in words(opened("speed"))
    assert recorded.compared(failed) == []

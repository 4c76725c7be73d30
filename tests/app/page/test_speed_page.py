"""The Speed page: nothing runs before the button; what ran here and what is modelled are told apart."""

import time

from app.figures.units import digits
from app.page import speed
from engine import simulate
from engine.experiment import Experiment
from engine.recordings.file import recordings
from engine.studies.model_errors import published
from engine.worker.client import Worker
from tests.app.worker_page import html, new_visitor, opened, press, unfolded, until_done, words

JOBS = "tests.engine.worker_jobs"
PATIENCE = 600  # s
TINY = {"seq": 64, "heads": 1, "head_dim": 16, "block_q": 32, "block_kv": 32}
MEASURE = "Measure all lengths on this machine"


def test_nothing_runs_before_the_button(own_worker):
    page = opened("speed", **TINY)
    assert own_worker._process is None
    assert "Nothing has been measured here" in words(page)
    assert "*modelled* for the H200" in words(page)


def test_the_hero_and_busy_shares_are_recorded_where_the_scenario_was_and_modelled_elsewhere(own_worker):
    """14.75 and 2.896 are ratios of recorded counters, 16.87 is a closed form: engine/test_comparison."""
    page = opened("speed")
    both = (simulate(Experiment.of(algorithm=each)).modelled for each in ("standard", "flash2"))
    unfused, seconds = (each.seconds for each in both)
    less = f"{digits(unfused / seconds)} times less"
    shown = {metric.label: (metric.value, metric.delta) for metric in page.metric}
    assert shown == {
        "Bytes across HBM, recorded": ("14.7× fewer", "16.9 times fewer, modelled"),
        "Time, recorded": ("2.9× less", f"{less}, modelled"),
    }
    assert f"moves 16.9 times fewer bytes across HBM. It takes {less} time" in page.header[0].value
    # all 8.45 MB cross HBM once; each of 16 x 16 tiles of a head asks L2 for K and V, each row for Q
    experiment = Experiment()
    rows = (each for each in recordings()[0].counters if each.problem == experiment.problem)
    (row,) = (each for each in rows if (each.provider, each.block_q, each.block_kv) == ("flash2", 64, 64))
    tensor, took = 16 * 1024 * 64 * 2, row.total("seconds")
    moved = {"HBM": 4 * tensor + 16 * 1024 * 4, "L2 to SMs": 34 * tensor + 16 * 1024 * 4}
    counted = {"HBM": ("dram_read", "dram_written"), "L2 to SMs": ("tile_read", "tile_written")}
    for unit, peak in (("HBM", 4.8e12), ("L2 to SMs", 13.5e12)):
        recorded = sum(map(row.total, counted[unit])) / took / peak
        shares = f"<td>{moved[unit] / seconds / peak:.0%}</td><td>{recorded:.0%}</td>"
        assert f"<td class='words'>{unit}</td>{shares}" in html(page)
    elsewhere = opened("speed", heads=5)
    assert [metric.label.split(", ")[1] for metric in elsewhere.metric] == ["modelled", "modelled"]


def test_measured_numbers_have_their_units():
    row = {"provider": "flash2", "label": "", "keys": 4096, "skipped": None, "repeats": 7, "note": ""}
    row |= {"p20": 1e-3, "p50": 2e-3, "p80": 4e-3, "tflops": 123.0}
    told = [*speed.cells(row | {"error": 1e-4, "allowed": 4e-4}).values()][1:7]
    assert told == ["4,096", "2 ms", "1 ms", "4 ms", "7", "123 TFLOP/s"]


def test_pressing_measures_says_where_and_is_seen_by_another_visitor(session_worker, monkeypatch):
    monkeypatch.setattr(speed, "SWEEP", f"{JOBS}:short_sweep")
    page = until_done(press(opened("speed", **TINY), MEASURE))
    assert "*measured here* on" in words(page)
    rows = [row.split("</tr>")[0] for row in html(page).split("<tr>")]
    flash = next(row for row in rows if "Triton Flash 2" in row)
    assert "<td>64</td>" in flash
    if "CPU" in words(page):
        assert "interpreted: for correctness, not speed" in flash
        assert "These are two machines" in words(page)
    for metric in ("tflops", "speedup"):
        page.segmented_control[0].set_value(metric).run()
    new_visitor(monkeypatch)
    other = opened("speed", **TINY)
    assert "*measured here* on" in words(other)
    assert any(button.label == f"{MEASURE} again" for button in other.button)


def test_what_was_measured_before_a_job_was_cancelled_is_kept(own_worker, monkeypatch):
    monkeypatch.setattr(speed, "SWEEP", f"{JOBS}:sweep_without_end")
    page, end = press(opened("speed", **TINY), MEASURE), time.monotonic() + PATIENCE
    while "skipped: out of memory" not in html(page.run()):
        assert time.monotonic() < end
        time.sleep(0.05)
    page = press(page, "Cancel")
    assert "skipped: out of memory" in html(page)
    assert any("kept" in caption.value for caption in page.caption)
    assert [button.label for button in page.button] == [MEASURE]
    assert own_worker.current is None


def test_a_full_queue_is_one_sentence(monkeypatch):
    monkeypatch.setattr("app.page.parts.job.shared_worker", lambda: Worker(most_waiting=0))
    page = press(opened("speed", **TINY), MEASURE)
    assert page.warning[0].value == "The queue is full: 0 jobs wait; try again in a minute."


def test_published_rates_have_their_sources():
    page = unfolded(opened("speed", hardware="h100"), "published")
    assert f"{len(published())} published rates of 9 GPUs" in words(page)
    assert html(page).count("https://github.com/") >= 30

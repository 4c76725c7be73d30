"""On the GPU: what is sent to the browser is the timeline, recorded calls stand beside their model."""

import json
from dataclasses import replace

import numpy as np
import pytest

from app.figures.units import seconds_text
from app.gpu.payload import build
from app.page import gpu as view
from app.scenario.offers import TRACE
from engine import simulate
from engine.experiment import Experiment
from engine.measuring.sections import traced_kernel
from engine.model.launch import HEAVY_FIRST, NATURAL
from engine.model.simulated_timeline import simulate_timeline
from engine.problem.problem import Mask, Problem
from engine.recordings.file import recordings
from engine.recordings.recording import Recording, TracedCall
from engine.recordings.timing import Times
from tests.app.player.test_player_payload import unpack
from tests.app.worker_page import words

TICK = 32


def traced(provider: str, seq: int, order: str, causal: bool) -> TracedCall:
    """A call before it is traced."""
    problem = Problem(1, 16, 16, seq, seq, 128, "float16", Mask(causal))
    return TracedCall(provider, order, problem, 128, 64)


def recorded_call(order: str):
    """A traced call as a GPU would record it that runs exactly as the model says."""
    one = traced("flash2", 1024, order, causal=True)
    experiment = Experiment(problem=one.problem).changed(block_q=128, block_kv=64)
    timeline = simulate_timeline(experiment, order)
    ticks = np.stack([timeline.start, timeline.end], 1) / (TICK * 1e-9)
    blocks = np.column_stack([timeline.sm, np.floor(ticks).astype(np.int64) * TICK])
    times = Times(*[simulate(experiment).modelled.seconds] * 3, 20)
    kernel = traced_kernel("attention", blocks, TICK)
    return replace(one, sms=132, tick=TICK * 1e-9, times=times, kernels=(kernel,))


@pytest.fixture
def recorded(monkeypatch) -> Recording:
    """A shelf with one recording, of one call in both orders."""
    rows = (recorded_call(HEAVY_FIRST), recorded_call(NATURAL))
    recording = Recording(recordings()[0].device, timelines=rows)
    monkeypatch.setattr("app.sidebar.recording.recordings", lambda: (recording,))
    return recording


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2", "flash3", "split_kv", "backward"])
def test_the_browser_gets_every_block_of_the_timeline(algorithm):
    timeline = simulate_timeline(Experiment.of(algorithm=algorithm, seq=512, heads=4, splits=2))
    _, arrays = unpack(build([timeline]))
    np.testing.assert_array_equal(arrays["lane0.sm"], timeline.sm)
    np.testing.assert_array_equal(arrays["lane0.query"], timeline.query_block)
    for name in ("start", "end"):  # microseconds
        np.testing.assert_allclose(arrays[f"lane0.{name}"], 1e6 * getattr(timeline, name), rtol=1e-6)
    np.testing.assert_array_equal(arrays["lane0.kernel"], timeline.kernel)


def test_what_is_said_of_a_run_is_that_of_its_blocks():
    """One wave of 132 equal blocks and one block more: it runs alone for the second half."""
    experiment = Experiment.of(heads=133, seq=128, seq_kv=65536, head_dim=128, block_q=128, hardware="h200")
    timeline = simulate_timeline(experiment)
    (lane,) = unpack(build([timeline]))[0]["lanes"]
    ends = np.sort(timeline.end)
    assert (lane["source"], lane["name"]) == ("modelled", "natural order")
    assert lane["tail"] == pytest.approx(1e6 * (ends[-1] - ends[0]))
    assert lane["tail"] == pytest.approx(1e6 * timeline.seconds / 2, rel=0.01)
    assert lane["busy"] == pytest.approx(133 / (2 * 132), rel=0.01)
    assert lane["imbalance"] == pytest.approx(2 * 132 / 133 - 1, rel=0.01)


def test_the_page_shows_recorded_beside_modelled_and_how_far_they_differ(open_app, recorded):
    page = open_app("gpu", causal="true", head_dim="128")
    taken = seconds_text(recorded.timelines[0].times.p50)  # it runs as modelled
    assert f"takes {taken} without its timestamps" in words(page)
    assert f", and {taken} as modelled" in words(page)
    assert recorded.origin in words(page)
    assert "FlashAttention-2: N 1,024" in words(page)


def test_the_runs_on_screen_can_be_taken_home_as_traces(open_app, recorded):
    """A recorded call and its model: each is a Chrome trace whose slices are its blocks."""
    page = open_app("gpu", causal="true", head_dim="128")
    offered = page.session_state["run"]["files to take home"]
    traces = {title: json.loads(make()) for (title, kind), make in offered.items() if kind == TRACE}
    told = [title.split(", ")[2:4] for title in traces]
    assert told == [["heavy blocks first", each] for each in ("recorded on NVIDIA H200", "modelled")]
    for trace in traces.values():
        slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        assert len(slices) == len(recorded.timelines[0].kernels[0].start)
        assert all(event["dur"] > 0 and event["ts"] >= 0 for event in slices)


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ({"seq": 4096, "head_dim": 128}, view.BESIDE),
        ({}, view.BESIDE),  # of 4,096 tokens, two doublings away
        ({"hardware": "a100"}, view.MODELLED),
        ({"seq": 2**20, "head_dim": 128}, view.MODELLED),
        ({"algorithm": "split_kv", "seq": 1, "seq_kv": 65536, "block_q": 16, "splits": 16}, view.MODELLED),
        ({"seq": 1024, "head_dim": 256}, view.MODELLED),
    ],
)
def test_it_opens_on_the_scenario_where_no_recorded_call_is_near(open_app, values, first):
    page = open_app("gpu", **{name: str(value) for name, value in values.items()})
    (source,) = [each for each in page.segmented_control if each.label == "Timeline"]
    assert source.value == first
    said, beside = (" ".join(text.value for text in each.markdown) for each in (page.main, page.sidebar))
    assert ("the nearest to your scenario" in said) == (values == {})
    assert ("The page shows FlashAttention-2, N 4,096" in beside) == (first == view.BESIDE)

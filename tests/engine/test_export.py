"""Exported timelines: a Chrome trace has what Perfetto asks of it, and every block with its bytes.

Perfetto's own reader, the trace processor, is no part of its Python package, which fetches it when it runs;
so traces are read as the Trace Event Format documents them: ts and dur are microseconds, displayTimeUnit is
ms or ns, complete events (X) and counters (C) name their process, and counters' values are numbers.
"""

import json
from itertools import pairwise

import numpy as np
import pytest

from engine import Experiment, simulate
from engine.model.cluster.fabric import Fabric
from engine.model.cluster.lanes import lanes
from engine.model.cluster.spread import RING, Spread
from engine.model.simulated_timeline import simulate_timeline
from engine.problem.problem import Problem
from engine.recordings.file import recordings
from engine.recordings.timelines import timelines
from engine.studies.timeline_files import block_requests, chrome_trace, cluster_trace

SMALL = Experiment.of(algorithm="standard", heads=2, seq=100, causal=True, hardware="h200")
SPREAD = Spread(Problem(heads=2, kv_heads=2, seq_q=4096, seq_kv=4096), 2, RING, False, Fabric(), "h200")
EVENTS = {  # what the Trace Event Format asks of each kind of event
    "M": {"name": str, "pid": int, "args": dict},
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": float, "dur": float, "args": dict},
    "C": {"name": str, "pid": int, "ts": float, "args": dict},
}


@pytest.fixture(scope="module")
def traces():
    """A simulated timeline of each kind and the shortest of one recording, each with its Chrome trace."""
    simulated = [
        simulate_timeline(Experiment.of(algorithm=algorithm, seq=300, heads=3, kv_heads=3, hardware="h200"))
        for algorithm in ("standard", "flash1", "flash2", "flash3", "backward")
    ]
    every = [*simulated, *sorted(timelines(recordings()[0]), key=len)[:6]]
    return [(timeline, strictly(chrome_trace(timeline))) for timeline in every]


def strictly(text: str) -> dict:
    """JSON as the standard has it: Perfetto takes no NaN and no Infinity."""

    def refuse(constant: str):
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


def check_events(trace: dict) -> None:
    """Every event has the fields of its kind, in their types, at a time that can be."""
    assert trace["displayTimeUnit"] in ("ms", "ns")
    for event in trace["traceEvents"]:
        for field, kind in EVENTS[event["ph"]].items():
            assert isinstance(event[field], kind), event
        assert event["ph"] == "M" or event["ts"] >= 0
        assert event["ph"] != "X" or event["dur"] >= 0
        assert event["ph"] != "C" or all(isinstance(value, int) for value in event["args"].values())


def test_a_chrome_trace_is_as_the_format_has_it_its_slices_the_blocks_none_over_another(traces):
    for timeline, trace in traces:
        check_events(trace)
        events, told = trace["traceEvents"], trace["otherData"]
        slices, counts = ([event for event in events if event["ph"] == kind] for kind in "XC")
        names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        assert told["origin"] == timeline.origin
        assert len(slices) == len(timeline)
        for event, sm in zip(slices, timeline.sm, strict=True):
            assert names[event["tid"]].split(",")[0] == f"SM {sm}"
        order = sorted(slices, key=lambda event: (event["tid"], event["ts"]))
        for before, after in pairwise(order):
            assert before["tid"] != after["tid"] or before["ts"] + before["dur"] <= after["ts"] + 1e-6
        times = np.array([[event["ts"], event["ts"] + event["dur"]] for event in slices])
        np.testing.assert_allclose(times, np.stack([timeline.start, timeline.end], 1) * 1e6, atol=1e-6)
        assert times.max() == pytest.approx(1e6 * told["seconds"])
        own = [event["ts"] for event in counts if not event["name"].startswith("HBM")]  # of another run
        assert max(own) == pytest.approx(times.max())


def test_a_trace_of_several_gpus_is_one_too_and_as_long_as_its_run():
    run = lanes(SPREAD)
    trace = strictly(cluster_trace(run))
    check_events(trace)
    ends = [event["ts"] + event["dur"] for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(ends) == len(run.marks)
    assert max(ends) == pytest.approx(run.seconds * 1e6)
    assert {event["pid"] for event in trace["traceEvents"]} == {1, 2}  # a process for each GPU
    assert trace["otherData"]["origin"] == "modelled"


def test_a_slice_says_which_tile_it_is_and_what_it_asks_for():
    timeline = simulate_timeline(Experiment.of(heads=1, seq=256, causal=True, hardware="h200"))
    events = json.loads(chrome_trace(timeline))["traceEvents"]
    heaviest = next(event for event in events if event["ph"] == "X")
    assert heaviest["name"] == "head 0, query block 3"
    tile = 64 * 64 * 2
    assert heaviest["args"] == {
        "kernel": "attention", "head": 0, "query block": 3, "wave": 0, "tiles visited": 4,
        "bytes requested": 2 * tile + 4 * 2 * tile + 64 * 4,
    }  # fmt: skip


def test_counters_end_with_nothing_running_and_all_bytes_asked_for():
    timeline = simulate_timeline(SMALL)
    events = [event for event in json.loads(chrome_trace(timeline))["traceEvents"] if event["ph"] == "C"]
    last = {event["name"]: event["args"] for event in events}
    assert last["blocks running"] == {"blocks": 0}
    requested = simulate(SMALL).traffic.requested.total
    assert block_requests(timeline)[1].sum() == requested
    assert last["bytes requested by ended blocks"] == {"bytes": requested}
    reads = [event for event in events if event["name"] == "HBM, read"]
    moved = sum(event["args"]["MB/s"] for event in reads) * (reads[1]["ts"] - reads[0]["ts"])
    assert moved == pytest.approx(simulate(SMALL).traffic.dram.total_read, rel=0.01)

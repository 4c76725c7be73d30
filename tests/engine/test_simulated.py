"""Timelines: blocks placed as a twin places them, each once, as long as a GPU took; and their files."""

import json
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Experiment, simulate
from engine.algorithms import ALGORITHMS
from engine.model.block_seconds import work_of
from engine.model.cluster.fabric import Fabric
from engine.model.cluster.lanes import lanes
from engine.model.cluster.spread import RING, Spread
from engine.model.launch import HEAVY_FIRST, NATURAL, ORDERS, launch
from engine.model.placement import PLACED_ONE_BY_ONE, makespan_alike, place
from engine.model.simulated_timeline import MOST_BLOCKS, simulate_timeline
from engine.model.timeline import MODELLED, Timeline, TimelineError
from engine.problem.problem import Problem
from engine.recordings.file import recordings
from engine.recordings.timelines import timelines
from engine.schedule.nest import ROWS
from engine.studies.timeline_files import block_requests, chrome_trace, cluster_trace
from tests.engine.strategies import experiments

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=40)
ALONE_FASTER = st.lists(st.floats(1.0, 3.0), max_size=3)
ANY = st.builds(
    lambda one, splits: one.changed(splits=splits), experiments(tuple(ALGORITHMS)), st.sampled_from([1, 2, 5])
)
SHORT = 30e-6  # seconds of a call; in shorter ones it tells that blocks start cold, which is not modelled
EVENTS = {  # what the Trace Event Format asks of each kind of event
    "M": {"name": str, "pid": int, "args": dict},
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": float, "dur": float, "args": dict},
    "C": {"name": str, "pid": int, "ts": float, "args": dict},
}


def speeds_of(faster: list[float]) -> np.ndarray:
    """[places + 1] that fall to 1 where all places are taken."""
    return np.array([1.0, *sorted(faster, reverse=True), 1.0])


def event_by_event(lengths: list[int], sms: int, speeds: np.ndarray) -> tuple[list[int], list, list]:
    """(sm, start, end) of every block, from what runs at every moment."""
    places = len(speeds) - 1

    waiting, now = list(enumerate(lengths)), 0.0
    running: dict[int, list] = {}  # slot: [block, seconds to go where all places are taken]
    sm, start, end = ([0.0] * len(lengths) for _ in range(3))
    while waiting or running:
        for slot in range(sms * places):
            if slot not in running and waiting:
                block, length = waiting.pop(0)
                running[slot] = [block, float(length)]
                sm[block], start[block] = slot % sms, now
        counts = np.bincount([slot % sms for slot in running], minlength=sms)
        rate = {slot: speeds[counts[slot % sms]] for slot in running}
        step = min(left / rate[slot] for slot, (_, left) in running.items())
        now += step
        for slot, held in list(running.items()):
            held[1] -= step * rate[slot]
            if held[1] < 1e-9:
                end[held[0]] = now
                del running[slot]
    return sm, start, end


@given(LENGTHS, st.integers(1, 4), ALONE_FASTER)
def test_every_block_runs_where_and_when_the_twin_says(lengths, sms, faster):
    speeds = speeds_of(faster)
    ours = place(np.array(lengths, float), sms, speeds)
    for each, twin in zip(ours, event_by_event(lengths, sms, speeds), strict=True):
        np.testing.assert_allclose(each, twin, atol=1e-6)


@given(st.integers(1, 60), st.integers(1, 4), ALONE_FASTER)
def test_equal_blocks_need_no_placing(count, sms, faster):
    speeds = speeds_of(faster)
    end = place(np.full(count, 3.0), sms, speeds)[2].max()
    assert makespan_alike(count, 3.0, sms, speeds) == pytest.approx(end)


def timeline(**changed) -> Timeline:
    """Three SMs with two places: SM 0 runs three blocks, SM 1 one, SM 2 none."""
    columns = {
        "kernel": [0] * 4, "sm": [0, 1, 0, 0], "start": [0.0, 0.0, 1.0, 4.0], "end": [4.0, 2.0, 3.0, 6.0],
        "head": [0, 0, 1, 1], "query_block": [0, 1, 0, 1], "key_block": [-1] * 4,
    }  # fmt: skip
    given = {"order": NATURAL, "kernels": ("attention",), "sms": 3, "resident": (2,), **columns, **changed}
    return Timeline(Experiment(), MODELLED, **given)


def test_what_is_read_off_it_by_hand():
    one = timeline()
    assert one.wave.tolist() == [0, 0, 0, 1]  # how often a place was filled before
    assert one.place.tolist() == [0, 0, 1, 0]  # the lowest that is free
    assert one.busy.tolist() == [6, 2, 0]  # seconds in which an SM has at least one block
    assert one.busy_share == pytest.approx(8 / 18)
    assert one.imbalance == pytest.approx(6 / (8 / 3) - 1)  # of the busiest SM over the average
    assert one.tail == 6  # from when the first SM has nothing left
    assert timeline(sm=[0, 1, 0, 2]).tail == pytest.approx(6 - 2)
    assert [each.tolist() for each in one.running] == [[0, 1, 2, 3, 4, 6], [2, 3, 2, 1, 1, 0]]
    two = timeline(kernels=("scores", "output"), resident=(2, 1), kernel=[0, 0, 0, 1])
    assert two.wave.tolist() == [0, 0, 0, 0]  # each kernel's from zero
    assert one == timeline() != timeline(sm=[0, 1, 0, 2])
    assert one != replace(one, origin="recorded on a GPU")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"resident": (1,)}, "at most 1 blocks of attention on an SM at once, not 2"),
        ({"sm": [0, 1, 0, 3]}, "SMs must be from 0 to 2"),
        ({"sm": [0, 1, 0, -1]}, "SMs must be from 0 to 2"),
        ({"sms": 10**9}, "1 to 1,024 SMs"),
        ({"start": [1.0, 1.0, 1.0, 4.0]}, "first block must start at 0"),
        ({"end": [4.0, 2.0, 0.5, 6.0]}, "none end before it starts"),
        ({"end": [4.0, 2.0, 3.0, np.inf]}, "finite"),
        ({"head": [0, 0, 1]}, "equally long"),
        ({"order": "backwards"}, "order must be one of heavy first, natural"),
        ({"kernel": [0, 0, 0, 1]}, "kernels must be from 0 to 0"),
    ],
)
def test_what_is_no_timeline_is_refused_in_a_sentence(changed, said):
    with pytest.raises(TimelineError, match=said):
        timeline(**changed)


@cache
def recorded():
    """Every recorded timeline, with the simulated one of the same call."""
    found = [one for recording in recordings() for one in timelines(recording)]
    return [(one, simulate_timeline(one.experiment, one.order)) for one in found]


@given(ANY, st.sampled_from(ORDERS))
def test_every_tile_is_visited_once_in_a_place_of_its_own_and_as_long_as_is_modelled(experiment, order):
    timeline, simulation = simulate_timeline(experiment, order), simulate(experiment)
    moved, (tiles, amounts) = simulation.traffic, block_requests(timeline)
    assert amounts.sum() == moved.requested.total
    for kernel in range(len(timeline.kernels)):
        assert tiles[timeline.kernel == kernel].sum() in (moved.tiles_visited, 0)  # 0: whole rows, no tiles
    named = np.stack((timeline.kernel, timeline.head, timeline.query_block, timeline.key_block), axis=1)
    rows = np.array([kernel.phase.launched == ROWS for kernel in launch(experiment).kernels])
    tiled = named[~rows[timeline.kernel]]
    assert len(np.unique(tiled, axis=0)) == len(tiled)  # blocks of single rows share a query block
    by_place = np.lexsort((timeline.start, timeline.place, timeline.sm))
    same = np.diff(timeline.sm[by_place] * 1000 + timeline.place[by_place]) == 0
    gaps = timeline.start[by_place][1:] - timeline.end[by_place][:-1]
    assert (gaps[same] >= -1e-12).all()
    assert (timeline.place < np.array(timeline.resident)[timeline.kernel]).all()
    reached, usual = experiment.gpu.reached, simulate_timeline(experiment)
    seconds = usual.seconds + reached.launch + reached.between_events
    assert simulation.modelled.seconds == pytest.approx(seconds, rel=1e-6)


@pytest.mark.parametrize("algorithm", ["flash2", "flash3"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "given",
    [{"seq": 16384, "heads": 64}, {"seq": 4096, "heads": 200}, {"seq": 8192, "heads": 97, "window": 1000}],
)
def test_grouping_the_first_of_many_blocks_costs_about_a_per_cent_at_most(algorithm, order, given):
    experiment = Experiment.of(algorithm=algorithm, causal=True, head_dim=128, block_q=128, **given)
    simulation = simulate(experiment)
    (kernel,) = simulation.launch.kernels
    work = work_of(simulation.launch, kernel, simulation.traffic)
    assert kernel.blocks > PLACED_ONE_BY_ONE
    block = kernel.launched(order, 0, kernel.blocks)[1]
    assert work.lengths.of(block).sum() == pytest.approx(work.even * work.slots)
    exact = work.placed(order)[2].max()
    assert work.makespan(order) == pytest.approx(exact, rel=0.015)


def test_the_heaviest_blocks_first_leave_a_shorter_tail():
    experiment = Experiment.of(heads=16, seq=16384, head_dim=128, block_q=128, causal=True, hardware="h200")
    first, natural = (simulate_timeline(experiment, order) for order in (HEAVY_FIRST, NATURAL))
    assert first.tail < natural.tail / 5
    assert first.seconds < natural.seconds
    assert simulate_timeline(experiment) == first


def test_a_timeline_that_is_too_long_says_so():
    with pytest.raises(TimelineError, match=f"at most {MOST_BLOCKS:,} blocks"):
        simulate_timeline(Experiment.of(algorithm="standard", seq=2**20))
    with pytest.raises(TimelineError, match="order is 'sideways'"):
        simulate_timeline(Experiment(), "sideways")


@pytest.mark.parametrize(
    ("algorithm", "median", "worst"),
    [
        ("flash1", 0.28, 0.4),  # short heads: L1 serves a tenth to a fifth of what its tiles ask for, counted
        ("flash2", 0.05, 0.3),
        ("flash3", 0.1, 0.4),
        ("standard", 0.11, 0.3),
    ],
)
def test_a_simulated_timeline_is_as_long_as_the_recorded_one(algorithm, median, worst):
    pairs = [(real, ours) for real, ours in recorded() if real.experiment.algorithm == algorithm]
    off = np.abs([ours.seconds / real.seconds - 1 for real, ours in pairs])
    assert len(off) >= 3
    assert np.median(off) < median
    assert off.max() < worst


def test_a_simulated_timeline_leaves_sms_as_idle_as_the_recorded_one():
    pairs = list(recorded())
    off = np.abs([ours.busy_share - real.busy_share for real, ours in pairs])
    short = np.array([real.seconds for real, _ in pairs]) < SHORT
    assert np.median(off) < 0.02
    assert off[~short].max() < 0.1
    assert off[short].max() < 0.2


def test_recorded_blocks_take_as_long_as_the_tiles_that_they_are_said_to_visit():
    """Which block is which is worked out from the launch order; the GPU's own clock agrees."""
    causal = [real for real, _ in recorded() if real.experiment.problem.mask.causal]
    # of tiles of a few visits those that start in empty caches take longest
    unequal = [real for real in causal if len(np.unique(block_requests(real)[0])) > 4]
    kinds = {(real.experiment.algorithm, real.order) for real in unequal}
    assert kinds >= {("flash2", HEAVY_FIRST), ("flash2", NATURAL), ("flash3", HEAVY_FIRST)}
    for real in unequal:
        assert np.corrcoef(block_requests(real)[0], real.end - real.start)[0, 1] > 0.95


def test_recorded_blocks_start_in_the_order_of_their_launch():
    for real, _ in recorded():
        for kernel in range(len(real.kernels)):
            if real.experiment.problem.mask.packed:  # numbers between documents are none of a tile
                continue
            start, ahead = real.start[real.kernel == kernel], 2 * real.sms * real.resident[kernel]
            assert (start[ahead:] >= start[:-ahead]).all()  # flash3 draws tiles ahead of time
        assert real.order == launch(real.experiment).order or real.order == NATURAL


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
    problem = Problem(heads=2, kv_heads=2, seq_q=4096, seq_kv=4096)
    run = lanes(Spread(problem, 2, RING, False, Fabric(), "h200"))
    trace = strictly(cluster_trace(run))
    check_events(trace)
    ends = [event["ts"] + event["dur"] for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(ends) == len(run.marks)
    assert max(ends) == pytest.approx(run.seconds * 1e6)
    assert {event["pid"] for event in trace["traceEvents"]} == {1, 2}  # a process for each GPU
    assert trace["otherData"]["origin"] == "modelled"


def test_slices_say_which_tiles_they_are_and_counters_end_with_nothing_running_and_all_bytes_asked_for():
    experiment = Experiment.of(algorithm="standard", heads=2, seq=100, causal=True, hardware="h200")
    timeline, traffic = simulate_timeline(experiment), simulate(experiment).traffic
    events = [event for event in json.loads(chrome_trace(timeline))["traceEvents"] if event["ph"] == "C"]
    last = {event["name"]: event["args"] for event in events}
    assert last["blocks running"] == {"blocks": 0}
    assert block_requests(timeline)[1].sum() == traffic.requested.total
    assert last["bytes requested by ended blocks"] == {"bytes": traffic.requested.total}
    reads = [event for event in events if event["name"] == "HBM, read"]
    moved = sum(event["args"]["MB/s"] for event in reads) * (reads[1]["ts"] - reads[0]["ts"])
    assert moved == pytest.approx(traffic.dram.total_read, rel=0.01)
    one = simulate_timeline(Experiment.of(heads=1, seq=256, causal=True, hardware="h200"))
    heaviest = next(event for event in json.loads(chrome_trace(one))["traceEvents"] if event["ph"] == "X")
    assert heaviest["name"] == "head 0, query block 3"
    tile = 64 * 64 * 2
    assert heaviest["args"] == {
        "kernel": "attention", "head": 0, "query block": 3, "wave": 0, "tiles visited": 4,
        "bytes requested": 2 * tile + 4 * 2 * tile + 64 * 4,
    }  # fmt: skip

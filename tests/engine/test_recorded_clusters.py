"""What 2 and 4 H200s were recorded to do: times beside the model, and lanes as in the file."""

import json
from dataclasses import replace

import pytest

from engine.algorithms import FORWARD
from engine.model.cluster.lanes import COMPUTING, MERGING, PACKING, TRANSFER
from engine.model.cluster.spread import RING, RING_SEND, Spread
from engine.problem.problem import Mask, Problem
from engine.recordings.cluster import ONE, GpuMarks
from engine.recordings.file import CLUSTERS, recordings
from engine.studies.across import RECORDED, runs_of
from engine.studies.recorded_clusters import (
    cluster_recordings,
    held,
    median_error,
    recorded_lanes,
    with_lanes,
)

TOKENS = 32_768
PROBLEM = Problem(1, 16, 16, TOKENS, TOKENS, 128, "float16", Mask(causal=True))
SPREAD = Spread(PROBLEM, 2, RING, True)
EVERY = cluster_recordings(None)


def test_the_model_is_near_what_four_gpus_took():
    """Median error of the rows that set its constants 8%, of those left out 12%; where it is off is known.

    The kernel has become 2 to 3% faster since these were recorded, and what it takes on one GPU is of today.
    """
    (found,) = (held((one,)) for one in EVERY if any(row.gpus == 4 for row in one.cluster))
    assert len(found) == 20
    assert median_error(found, fitted=True) < 0.078
    assert median_error(found, fitted=False) < 0.12
    far = {
        (one.row.provider, one.row.problem.seq_q, one.row.direction)
        for one in found
        if abs(one.error) > 0.151
    }
    # the host took 15 ms to launch the first, which is not modelled
    assert far == {("all_gather", 32768, "both"), ("all_to_all", 32768, "both")}


def test_the_model_is_near_what_two_gpus_took_none_of_which_set_a_constant():
    (found,) = (held((one,)) for one in EVERY if any(row.gpus == 2 for row in one.cluster))
    assert len(found) == 160
    assert not any(one.fitted for one in found)
    assert median_error(found, fitted=False) < 0.125
    assert max(abs(one.error) for one in found) < 0.22
    short = [one for one in found if (one.row.provider, one.row.direction) == (RING, FORWARD)]
    short = [abs(one.error) for one in short if one.row.times.median < 0.05]
    assert max(short) < 0.087  # it is long calls that the model is too kind to


def test_two_gpus_share_the_work_of_one_and_beat_pytorch_in_every_cell():
    (recording,) = (one for one in EVERY if any(row.gpus == 2 for row in one.cluster))
    cells = {}
    for row in recording.cluster:
        if row.times:
            cells.setdefault((row.problem, row.direction), {})[row.provider] = row.times.median
    assert len(cells) == 32
    for (problem, _), times in cells.items():
        theirs = [seconds for name, seconds in times.items() if name.startswith("context_parallel")]
        assert times[RING] < 0.62 * times[ONE]
        assert bool(theirs) == problem.mask.causal
        assert all(times[RING] < 0.92 * seconds for seconds in theirs)


def raw() -> dict:
    """The file's own row of the ring over 32,768 tokens, read without the product's loader."""
    rows = json.loads((CLUSTERS / "h200x2.json").read_text())["cluster_timelines"]
    return next(row for row in rows if (row["provider"], row["problem"]["seq_q"]) == (RING, TOKENS))


def test_recorded_lanes_are_the_files_events_in_their_rounds():
    ring, sent = recorded_lanes(SPREAD, EVERY)
    assert (ring.spread.method, sent.spread.method) == (RING, RING_SEND)
    assert ring.origin == recordings(CLUSTERS)[0].origin
    for gpu, marks in enumerate(raw()["marks"]):
        events = list(zip(marks["kind"], marks["start"], marks["length"], strict=True))
        own = [mark for mark in ring.marks if mark.gpu == gpu]
        calls = sorted((mark for mark in own if mark.kind == COMPUTING), key=lambda mark: mark.round)
        computing = [(start, start + length) for kind, start, length in events if kind == 0]
        assert [(mark.start, mark.end) for mark in calls] == [
            pytest.approx((start * 1e-9, end * 1e-9)) for start, end in computing
        ]
        assert [mark.owner for mark in calls] == [gpu, 1 - gpu]
        copies = [mark for mark in own if mark.kind == TRANSFER]
        assert len(copies) == 2  # K and V; the third copy of the file tells the host of the end
        assert all((mark.round, mark.owner) == (1, 1 - gpu) for mark in copies)
        assert all(mark.end < calls[1].start for mark in copies)
        assert [mark.kind for mark in own].count(PACKING) == 2
        (merge,) = (mark for mark in own if mark.kind == MERGING)
        assert merge.start > calls[1].start
    assert ring.seconds == pytest.approx(3_492_351e-9)


def test_recorded_rounds_compute_every_visible_chunk_once():
    ring, _ = recorded_lanes(SPREAD, EVERY)
    tiles = sorted(tile for mark in ring.marks for tile in mark.tiles)
    assert tiles == sorted((queries, keys) for queries in range(4) for keys in range(queries + 1))


def test_lanes_stand_beside_the_model_only_where_they_were_recorded():
    runs = runs_of(SPREAD, RECORDED, recordings=EVERY)
    assert [run.origin.split()[0] for run in runs] == ["modelled", "recorded", "recorded"]
    assert runs[1].one_gpu == pytest.approx(6.29e-3, rel=0.01)
    assert runs[0].seconds == pytest.approx(runs[1].seconds, rel=0.1)
    longer = replace(PROBLEM, seq_q=65_536, seq_kv=65_536)
    assert recorded_lanes(replace(SPREAD, problem=longer), EVERY) == ()
    assert recorded_lanes(replace(SPREAD, gpus=4), EVERY) == ()


def test_a_call_whose_rounds_cannot_be_told_is_not_drawn():
    (recording,) = (one for one in EVERY if one.cluster_timelines)
    (whole,) = (one for one in with_lanes(EVERY) if (one.provider, one.problem) == (RING, PROBLEM))
    idle = replace(whole, marks=(GpuMarks((1,), (0,), (9,)), *whole.marks[1:]))
    drawn = replace(recording, cluster_timelines=(whole,))
    assert recorded_lanes(SPREAD, (drawn,))
    assert recorded_lanes(SPREAD, (replace(drawn, cluster_timelines=(idle,)),)) == ()
    assert recorded_lanes(SPREAD, (replace(drawn, cluster=()),)) == ()  # no one GPU to be held against

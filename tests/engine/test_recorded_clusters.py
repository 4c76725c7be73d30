"""What 2 and 4 H200s were recorded to do: times beside the model, and lanes as in the file."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from engine.algorithms import FORWARD
from engine.model.cluster.seconds import COMPUTING, KINDS, MERGING, PACKING, TRANSFER
from engine.model.cluster.spread import ALL_TO_ALL, RING, RING_SEND, Spread
from engine.problem.problem import Mask, Problem
from engine.recordings.cluster import ONE, GpuMarks
from engine.recordings.file import CLUSTERS
from engine.recordings.recording import Recording
from engine.studies.several_gpus import (
    RECORDED,
    Held,
    cluster_recordings,
    errors,
    held,
    recorded_lanes,
    runs_of,
)

TOKENS = 32_768
PROBLEM = Problem(1, 16, 16, TOKENS, TOKENS, 128, "float16", Mask(causal=True))
SPREAD = Spread(PROBLEM, 2, RING, True)
EVERY = cluster_recordings(None)


def of(gpus: int) -> list[Recording]:
    """The recordings of so many GPUs, the newest first."""
    return [one for one in EVERY if any(row.gpus == gpus for row in one.cluster)]


@pytest.mark.parametrize(("gpus", "rows", "half", "most"), [(4, 108, 0.06, 0.14), (2, 126, 0.05, 0.12)])
def test_the_model_is_as_near_to_several_gpus_as_is_told(gpus, rows, half, most):
    found = tuple(one for one in held(EVERY) if one.row.gpus == gpus)
    assert len(found) == rows
    assert (errors(found)[0] < half, errors(found)[1] < most) == (True, True)


def test_the_model_is_near_what_four_gpus_took():
    """Where it is off is known: the shortest calls, whose host takes as long as they."""
    found = held(tuple(of(4)))
    off = {method: np.median([abs(one.error) for one in forward(found, method)]) for method in (ONE, RING)}
    assert off[ONE] < 0.052
    assert off[RING] < 0.058
    assert max(abs(one.error) for one in found if one.row.times.median > 0.01) < 0.14
    far = [one for one in found if abs(one.error) > 0.16]
    assert {one.row.problem.seq_q for one in far} == {16_384}
    assert all(one.row.times.median < 0.004 for one in far)


def test_exchanged_heads_are_modelled_as_two_gpus_took():
    """Recorded by PyTorch's all-to-all over NCCL, whose kernels stand between packing and computing."""
    found = [one for one in held(EVERY) if one.row.provider == ALL_TO_ALL]
    assert {one.row.gpus for one in found} == {2}
    assert np.median([abs(one.error) for one in found]) < 0.03
    assert max(abs(one.error) for one in found) < 0.12
    assert all(one.one_gpu for one in found)  # also where another day's recording has it
    (lane,) = (
        one for one in of(2)[0].cluster_timelines if (one.provider, one.problem) == (ALL_TO_ALL, PROBLEM)
    )
    kinds = [KINDS[kind] for kind in lane.marks[0].kind]
    assert kinds[:9] == [PACKING, TRANSFER, PACKING] * 3
    assert kinds[9:13] == [COMPUTING, PACKING, TRANSFER, PACKING]  # then the same of lse


def forward(found: tuple[Held, ...], method: str) -> list[Held]:
    """A method's forward passes."""
    return [one for one in found if (one.row.provider, one.row.direction) == (method, FORWARD)]


def test_two_gpus_share_the_work_of_one_and_beat_pytorch_in_every_cell():
    cells = {}
    for row in (row for one in reversed(of(2)) for row in one.cluster if row.times):
        cells.setdefault((row.problem, row.direction), {})[row.provider] = row.times.median
    assert len(cells) == 32
    for (problem, _), times in cells.items():
        theirs = [seconds for name, seconds in times.items() if name.startswith("context_parallel")]
        assert times[RING] < 0.62 * times[ONE]
        assert bool(theirs) == problem.mask.causal
        assert all(times[RING] < 0.92 * seconds for seconds in theirs)


def raw(file: str) -> dict:
    """The file's own row of the ring over 32,768 tokens, read without the product's loader."""
    rows = json.loads((CLUSTERS / file).read_text())["cluster_timelines"]
    return next(row for row in rows if (row["provider"], row["problem"]["seq_q"]) == (RING, TOKENS))


@pytest.mark.parametrize(
    ("gpus", "file", "nanoseconds"), [(2, "h200x2-2026-11-27.json", 3_142_031), (4, "h200x4.json", 1_915_641)]
)
def test_recorded_lanes_are_the_files_events_in_their_rounds(gpus, file, nanoseconds):
    ring, sent = recorded_lanes(replace(SPREAD, gpus=gpus), EVERY)
    assert (ring.spread.method, sent.spread.method) == (RING, RING_SEND)
    assert ring.origin == of(gpus)[0].origin
    for gpu, marks in enumerate(raw(file)["marks"]):
        events = list(zip(marks["kind"], marks["start"], marks["length"], strict=True))
        own = [mark for mark in ring.marks if mark.gpu == gpu]
        calls = sorted((mark for mark in own if mark.kind == COMPUTING), key=lambda mark: mark.round)
        computing = [(start, start + length) for kind, start, length in events if kind == 0]
        assert [(mark.start, mark.end) for mark in calls] == [
            pytest.approx((start * 1e-9, end * 1e-9)) for start, end in computing
        ]
        assert [mark.owner for mark in calls] == [(gpu - number) % gpus for number in range(gpus)]
        copies = [mark for mark in own if mark.kind == TRANSFER]
        assert Counter(mark.round for mark in copies) == dict.fromkeys(range(1, gpus), 2)  # K and V
        assert all(mark.owner == (gpu - mark.round) % gpus for mark in copies)
        assert all(mark.end < calls[mark.round].start for mark in copies)
        assert [mark.kind for mark in own].count(PACKING) == 2
        assert all(mark.start > calls[-1].start for mark in own if mark.kind == MERGING)
    assert ring.seconds == pytest.approx(nanoseconds * 1e-9)


def test_recorded_rounds_compute_every_visible_chunk_once():
    ring, _ = recorded_lanes(SPREAD, EVERY)
    tiles = sorted(tile for mark in ring.marks for tile in mark.tiles)
    assert tiles == sorted((queries, keys) for queries in range(4) for keys in range(queries + 1))


def test_lanes_stand_beside_the_model_only_where_they_were_recorded():
    runs = runs_of(SPREAD, RECORDED, recordings=EVERY)
    assert [run.origin.split()[0] for run in runs] == ["modelled", "recorded", "recorded"]
    assert runs[1].one_gpu == pytest.approx(6.01e-3, rel=0.01)
    assert runs[0].seconds == pytest.approx(runs[1].seconds, rel=0.1)
    longer = replace(PROBLEM, seq_q=65_536, seq_kv=65_536)
    assert recorded_lanes(replace(SPREAD, problem=longer), EVERY) == ()
    assert recorded_lanes(replace(SPREAD, gpus=3), EVERY) == ()


def test_a_call_whose_rounds_cannot_be_told_is_not_drawn():
    recording = of(2)[0]
    alike = [
        (one.provider, one.problem, one.gpus) == (RING, PROBLEM, 2) for one in recording.cluster_timelines
    ]
    whole = recording.cluster_timelines[alike.index(True)]
    idle = replace(whole, marks=(GpuMarks((1,), (0,), (9,)), *whole.marks[1:]))
    drawn = replace(recording, cluster_timelines=(whole,))
    assert recorded_lanes(SPREAD, (drawn,))
    assert recorded_lanes(SPREAD, (replace(drawn, cluster_timelines=(idle,)),)) == ()

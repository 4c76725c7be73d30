"""Recorded blocks: packed into rows and back, kept by a file, found again, trusted no more than the rest."""

from dataclasses import replace

import numpy as np
import pytest

from engine import Experiment
from engine.measuring.sections import plan, together, traced_kernel
from engine.model.launch import HEAVY_FIRST, NATURAL
from engine.model.simulated_timeline import simulate_timeline
from engine.model.timeline import TimelineError
from engine.recordings.file import FileError, dumps, loads, recordings
from engine.recordings.recording import Recording, TracedCall, identity, unmeasured
from engine.recordings.timelines import hardware_of, recorded_timeline, timeline_of, timelines
from engine.recordings.timing import Times
from tests.engine.test_recording import DEVICE, spoiled

EXPERIMENT = Experiment.of(heads=9, seq=2048, head_dim=128, block_q=128, causal=True, hardware="h200")
TICK = 32  # nanoseconds


def row(experiment: Experiment = EXPERIMENT, order: str = HEAVY_FIRST) -> TracedCall:
    """What a trace of the simulated timeline would be recorded as."""
    timeline = simulate_timeline(experiment, order)
    start, end = (np.round(times / (TICK * 1e-9)) * TICK for times in (timeline.start, timeline.end))
    blocks = np.stack((timeline.sm, start, end), axis=1).astype(np.int64)
    kernels = tuple(
        traced_kernel(name, blocks[timeline.kernel == index], TICK)
        for index, name in enumerate(timeline.kernels)
    )
    tiling = experiment.tiling
    return TracedCall(
        experiment.algorithm, order, experiment.problem, tiling.block_q, tiling.block_kv,
        132, TICK * 1e-9, Times(1e-5, 2e-5, 3e-5, 5), kernels,
    )  # fmt: skip


@pytest.fixture(scope="module")
def recording():
    return Recording(
        DEVICE, timelines=(row(), row(order=NATURAL), row(EXPERIMENT.changed(algorithm="standard"), NATURAL))
    )


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2", "flash3"])
def test_a_row_holds_a_whole_timeline(algorithm):
    experiment = EXPERIMENT.changed(algorithm=algorithm)
    ours = simulate_timeline(experiment, NATURAL)
    back = timeline_of(row(experiment, NATURAL), "recorded on a GPU", "h200")
    for name in ("kernel", "sm", "head", "query_block", "key_block"):
        np.testing.assert_array_equal(getattr(back, name), getattr(ours, name))
    for name in ("start", "end"):
        np.testing.assert_allclose(getattr(back, name), getattr(ours, name), atol=TICK * 1e-9)
    assert back.kernels == ours.kernels
    assert back.origin == "recorded on a GPU"


def test_a_file_keeps_timelines(recording):
    assert loads(dumps(recording).encode()) == recording
    assert [one.order for one in timelines(recording)] == [HEAVY_FIRST, NATURAL, NATURAL]


def test_the_recorded_call_is_found_or_the_nearest_is_named(recording):
    found = recorded_timeline([recording], EXPERIMENT)
    assert (found.order, found.origin) == (HEAVY_FIRST, "recorded on NVIDIA H200, 2026-11-21")
    assert recorded_timeline([recording], EXPERIMENT, NATURAL).order == NATURAL
    with pytest.raises(
        TimelineError, match="not among the 3 recorded timelines; the nearest is flash2, N 2,048"
    ):
        recorded_timeline([recording], EXPERIMENT.changed(seq=4096))
    with pytest.raises(TimelineError, match="no timeline is recorded on a T4"):
        recorded_timeline([recording], EXPERIMENT.changed(hardware="t4"))


def test_a_gpu_without_a_preset_stands_for_itself(recording):
    unknown = replace(recording, device=replace(DEVICE, gpu="Quadro P400"))
    assert hardware_of(unknown) == Experiment().hardware
    assert timelines(unknown)[0].sms == 132


@pytest.fixture(scope="module")
def written(recording) -> str:
    return dumps(recording)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda r: r["kernels"][0]["sm"].append(0), "attention must have 144 blocks, each with SM"),
        (lambda r: r["kernels"][0]["sm"].__setitem__(0, 132), "SMs must be from 0 to 131"),
        (lambda r: r["kernels"][0]["sm"].__setitem__(0, 1.5), "must be whole numbers up to"),
        (lambda r: r["kernels"][0]["sm"].__setitem__(0, 10**30), "must be whole numbers up to"),
        (lambda r: r["kernels"][0].update(sm="all"), "must be a list"),
        (lambda r: r["kernels"][0]["length"].__setitem__(0, -5), "none end before it starts"),
        (lambda r: r["kernels"][0]["length"].__setitem__(0, 10**13), "at most 1,000,000,000,000 ticks"),
        (lambda r: r["kernels"][0]["start"].__setitem__(0, 7), "first block must start at 0"),
        (lambda r: r["kernels"][0].update(name="scores"), "the kernels of flash2 must be attention"),
        (lambda r: r.update(kernels=[]), "must have either kernels or the reason"),
        (lambda r: r.pop("times"), "must have the times of the call without the trace"),
        (lambda r: r.update(provider="magic"), "must be of standard, flash1, flash2, flash3"),
        (lambda r: r.update(order="sideways"), "in the order heavy first or natural"),
        (lambda r: r.update(sms=10**9), "must have 1 to 1,024 SMs"),
        (lambda r: r.update(tick=0), "a tick of at most"),
        (lambda r: r.update(block_q=100), "block_q is 100; it must be a power of two"),
        (lambda r: r["problem"].update(seq_q=2**20, heads=1024, kv_heads=1024), "at most 200,000 blocks"),
    ],
)  # fmt: skip
def test_a_damaged_timeline_is_refused_with_the_place(written, change, sentence):
    with pytest.raises(FileError) as caught:
        loads(spoiled(written, lambda content: change(content["timelines"][0])), "f")
    assert sentence in str(caught.value)
    assert "timelines of the recording 1" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_plan_is_what_is_recorded_and_small():
    """Each call once, in the order of the first recording."""
    rows = recordings()[0].counters
    assert plan("counters") == [unmeasured(one) for one in rows]
    assert len({identity(one) for one in plan("counters")}) == len(rows) >= 20
    groups = together("fp8", "problem", "inputs")  # in turns: each of one problem and its numbers
    assert [len({(row.problem, row.inputs) for row in rows}) for rows in groups] == [1] * len(groups)
    assert sum(map(len, groups)) == len(plan("fp8")) > len(groups) > 1
    rows = [one for recording in recordings() for one in recording.timelines]
    assert {one.order for one in rows} == {HEAVY_FIRST, NATURAL}
    assert all(one.kernels for one in rows)
    assert len(dumps(Recording(DEVICE, timelines=tuple(rows)))) < 1.5e6

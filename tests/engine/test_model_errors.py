"""How far the model is off by kind of recorded call: against the recordings' files, row by row."""

import json
from dataclasses import replace
from functools import cache

import pytest

from engine import simulate
from engine.experiment import Experiment
from engine.recordings.counters import recorded_counters
from engine.recordings.file import JUDGES, SHELF, load, recording_of
from engine.recordings.recording import Recording, identity
from engine.studies import model_errors as kinds
from engine.studies.model_errors import KINDS, Held, error, errors, held_calls

# by GPU, in the order of KINDS: calls, and what half and 95% of them are off by, in per cent, as found and
# rounded up
BOUNDS = {
    "h200": (
        (227, 3.31, 12.9), (147, 3.79, 13), (27, 3.41, 12.3), (60, 3.9, 10.4),
        (72, 2.88, 12.1), (142, 3.44, 11.1), (51, 10.6, 74), (232, 2.74, 10.7),
        (232, 0.206, 6.44), (232, 0.01, 1.43), (116, 0.01, 0.0478), (23, 0.215, 32.3),
        (23, 6.26, 41.8), (22, 0.01, 97.5), (57, 1.02, 3.91), (54, 2.65, 6.82),
        (54, 1.08, 5.36),
    ),
    "h100": (
        (222, 3.34, 11.6), (147, 3.31, 11.8), (27, 3.98, 9.76), (60, 3.26, 8.83),
        (72, 2.93, 12.8), (139, 2.78, 11.9), (59, 7.72, 96.2), (145, 2.21, 13.6),
        (145, 0.257, 7.37), (145, 0.01, 0.527), (116, 0.01, 0.0431), (23, 0.264, 25.4),
        (23, 7.7, 41.9), (22, 0.01, 85.7), (36, 1.06, 5.07), (54, 3.74, 8.34),
        (54, 0.829, 3.01),
    ),
}  # fmt: skip
# each set was looked at after what it judges had been written
DRAWN = [path.stem for path in JUDGES.glob("*.json")]


@cache
def every_call(hardware: str) -> tuple[Held, ...]:
    """Every call that was recorded on a GPU, beside its model."""
    return held_calls(recording_of(hardware))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hardware", BOUNDS)
def test_the_model_is_as_near_to_each_kind_of_call_as_is_told(hardware, kind):
    found = error([one.off for one in every_call(hardware) if one.kind == kind])
    count, half, most = BOUNDS[hardware][[*KINDS].index(kind)]
    assert found.count == count
    assert found.median < half / 100
    assert found.most < most / 100


# the same of all times of an algorithm, forward, on both GPUs
BY_ALGORITHM = {"standard": (3.9, 14), "flash1": (4.4, 15), "flash2": (3.6, 13), "flash3": (3.1, 12.7)}


@pytest.mark.parametrize("algorithm", BY_ALGORITHM)
def test_the_times_of_no_algorithm_are_far_off(algorithm):
    forward = (kinds.TIMED, kinds.SWEPT, kinds.MASKED, kinds.COUNTED, kinds.DRAWN_TIMES)
    times = [
        one.off
        for hardware in BOUNDS
        for one in every_call(hardware)
        if one.experiment.algorithm == algorithm and one.kind in forward
    ]
    found, (half, most) = error(times), BY_ALGORITHM[algorithm]
    assert len(times) > 200
    assert found.median < half / 100
    assert found.most < most / 100


def test_each_kind_that_was_recorded_has_one_error_in_their_order():
    assert [*errors(recording_of("h200"))] == [*KINDS]


def test_an_error_is_told_in_the_median_and_for_95_per_cent():
    found = error([0.0] * 18 + [0.1, 0.3, 0.5])
    assert (found.count, found.median, found.most) == (21, 0.0, pytest.approx(0.3))


def test_times_of_flash2_are_those_of_the_file():
    """Every forward row, simulated in the kernel's own blocks."""
    off = []
    for row in json.loads((SHELF / "h200.json").read_text())["timings"]:
        if (row["provider"], row["direction"]) == ("flash2", "forward") and "times" in row:
            problem = {**row["problem"], "seq": row["problem"]["seq_q"]}
            mask = problem.pop("mask")
            assert (mask.pop("ahead", 0), problem.pop("seq_q")) == (0, problem["seq"])
            one = Experiment.of(algorithm="flash2", hardware="h200", **mask, **problem).in_own_tiling()
            off.append(abs(simulate(one).modelled.seconds / row["times"]["p50"] - 1))
    held = [
        one.off
        for one in every_call("h200")
        if (one.kind, one.experiment.algorithm) == (kinds.TIMED, "flash2")
    ]
    assert sorted(held) == pytest.approx(sorted(off))
    assert len(off) == 60


@pytest.mark.parametrize("name", DRAWN)
def test_calls_drawn_by_lot_are_judged_and_nothing_else_recorded(name):
    calls, recording = load(JUDGES / f"{name}.json").counters, recording_of(name[:4])
    assert not {identity(row) for row in calls} & {identity(row) for row in recording.counters}
    held = {one.recorded for one in every_call(name[:4]) if one.kind == kinds.DRAWN_DRAM}
    assert {row.total("dram_read") for row in calls} <= held


def test_what_dram_delivers_beyond_the_compulsory_bytes_is_judged_by_itself():
    """Q, K and V once are 2 B a number in 16 bits; what a call reads beyond that is what L2 has lost."""
    held = [
        one for one in every_call("h200") if (one.kind, one.experiment.algorithm) == (kinds.DRAM, "flash2")
    ]
    beyond = []
    for row in json.loads((SHELF / "h200.json").read_text())["counters"]:
        if (row["provider"], row["direction"]) == ("flash2", "forward") and "kernels" in row:
            p = row["problem"]
            numbers = p["batch"] * p["head_dim"] * (p["heads"] * p["seq_q"] + 2 * p["kv_heads"] * p["seq_kv"])
            read = sum(kernel["dram_read"] for kernel in row["kernels"])
            beyond += [read - 2 * numbers] if read > 1.02 * 2 * numbers else []
    assert sorted(one.recorded for one in held) == pytest.approx(sorted(beyond))
    assert len(held) >= 5


def test_requests_are_judged_where_all_that_warps_ask_for_was_counted(monkeypatch):
    """Of two calls one: a set recorded before is judged by its bytes from L2 alone."""
    fourth = load(JUDGES / "h200-fourth.json")
    first, second = recorded_counters(fourth)[:2]
    kernel = replace(first.row.kernels[0], loaded=0.0, copied=first.modelled_requested / 1.01, by_tma=0.0)
    judges = replace(fourth, counters=(replace(first.row, kernels=(kernel,)), second.row))
    monkeypatch.setattr("engine.studies.model_errors.recordings", lambda folder: (judges,))
    monkeypatch.setattr("engine.studies.model_errors.layers_on", lambda hardware: None)
    found = errors(Recording(fourth.device))
    assert (found[kinds.DRAWN_L2].count, found[kinds.DRAWN_REQUESTS].count) == (2, 1)
    assert found[kinds.DRAWN_REQUESTS].median == pytest.approx(0.01)


def test_a_gpu_without_a_preset_is_judged_by_nothing():
    recording = recording_of("h200")
    assert errors(replace(recording, device=replace(recording.device, gpu="a GPU nobody knows"))) == {}


def test_the_same_calls_of_another_gpu_are_simulated_on_it():
    recording = recording_of("h200")
    device = replace(recording.device, gpu=recording_of("h100").device.gpu)
    held = held_calls(Recording(device, timings=recording.timings[:60]))
    assert {one.experiment.hardware for one in held} == {"h100"}

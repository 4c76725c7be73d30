"""One scenario on this machine's GPU: offered where there seems to be one, said in a sentence where not."""

from dataclasses import replace

import pytest

from engine.algorithms import FORWARD
from engine.experiment import Experiment
from engine.measuring import live
from engine.measuring.machine import Machine
from engine.recordings.counters import recorded_counters
from engine.recordings.file import recording_of
from engine.recordings.rows import experiment_of
from engine.recordings.timing import Times
from engine.worker.jobs import JobError
from tests.engine.strategies import returned

TIMES = Times(1e-4, 1.1e-4, 1.2e-4, 10)
SAMPLED = {"times": TIMES, "read": (1, 2), "written": (0, 0), "sms": (9, 9), "interval": 1e-6}


def ran(*experiments, **orders):
    return returned(live.live(live.payload_of(experiments, **orders)))


@pytest.fixture
def gpu(monkeypatch):
    """A function that puts a GPU here whose sampled rows it changes so; and the rows that were asked for."""
    import torch

    asked = []

    def put(**changes):
        monkeypatch.setattr(live, "machine", lambda: Machine("NVIDIA H200", True, {}, "cold", True))
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
        monkeypatch.setattr(live, "traced_row", lambda row: row)
        monkeypatch.setattr(
            live, "sampled_row", lambda row, **_: asked.append(row) or replace(row, **changes)
        )
        return asked

    return put


def test_it_is_offered_where_a_driver_and_the_packages_are(monkeypatch, tmp_path):
    monkeypatch.setattr(live, "DRIVERS", (tmp_path / "nvidiactl",))
    assert not live.offered()
    (tmp_path / "nvidiactl").touch()
    assert live.offered()
    monkeypatch.setattr(live, "find_spec", lambda name: None)
    assert not live.offered()


def test_without_a_gpu_one_sentence_says_so():
    with pytest.raises(JobError, match="no GPU here"):
        ran(Experiment())


def test_pages_of_any_gpu_share_one_measurement():
    first, second = (live.payload_of([Experiment.of(hardware=name)]) for name in ("h100", "a100"))
    assert first == second


def test_a_scenario_is_measured_in_its_own_blocks_or_in_the_kernels(gpu):
    asked = gpu(**SAMPLED)
    found = ran(
        Experiment.of(algorithm="flash2", block_q=64, block_kv=32),
        Experiment.of(algorithm="flash3", head_dim=128),
        Experiment.of(algorithm="split_kv", seq=1, seq_kv=4096, splits=4),
        Experiment.of(algorithm="backward"),
        orders=("natural",),
    )
    assert [(row.block_q, row.block_kv) for row in asked[:2]] == [(64, 32), (None, None)]
    assert asked[2].splits == 4
    assert (asked[3].provider, asked[3].direction) == ("flash2", "backward")
    assert (found.device, found.rows[0].read_bytes, found.shared) == ("NVIDIA H200", 96, False)
    assert [(row.order, row.block_q) for row in found.traced] == [("natural", 64)]


def test_a_call_without_room_says_so_beside_those_that_ran(gpu, monkeypatch):
    """Also where memory ends before it is made."""
    import torch

    def none_left(row, **_):
        raise torch.OutOfMemoryError

    gpu()
    found = iter([{"skipped": "CUDA out of memory"}, SAMPLED])
    monkeypatch.setattr(live, "sampled_row", lambda row, **_: replace(row, **next(found)))
    first, second = ran(Experiment.of(algorithm="standard"), Experiment()).rows
    assert (first.skipped, second.times) == ("CUDA out of memory", TIMES)
    monkeypatch.setattr(live, "sampled_row", none_left)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10**9, 8 * 10**10))
    with pytest.raises(JobError, match="the GPU has 80 GB, 1"):
        ran(Experiment())


def test_times_that_spread_tell_of_another_process(gpu):
    gpu(**SAMPLED | {"times": replace(TIMES, p80=2e-4)})
    assert ran(Experiment()).shared


def test_the_recorded_call_is_the_very_same():
    recording = recording_of("h200")
    rows = [row for row in recording.samples if row.cold and row.direction == FORWARD]
    for row in (row for row in rows if row.provider in ("flash3", "split_kv")):
        one = experiment_of(row.problem, row.provider, None, None, "h200").changed(splits=row.splits or 1)
        assert live.recorded_like(recording, one)[0] == row.read_bytes
        assert live.recorded_like(recording, one.changed(batch=3)) is None
    assert live.recorded_like(recording, one.changed(algorithm="backward")) is None
    counted = recorded_counters(recording)
    found = [live.recorded_like(recording, one.experiment) for one in counted]
    profiled = [(one, like) for one, like in zip(counted, found, strict=True) if like and not like[3]]
    assert all(like[:2] == (one.dram_read, one.dram_written) for one, like in profiled)
    assert len(profiled) > len(counted) / 2

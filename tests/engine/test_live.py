"""One scenario on this machine's GPU: offered where there seems to be one, said in a sentence where not."""

from dataclasses import replace

import pytest

from engine.experiment import Experiment
from engine.measuring import live
from engine.measuring.machine import Machine
from engine.recordings.timing import Times
from engine.worker.jobs import JobError

TIMES = Times(1e-4, 1.1e-4, 1.2e-4, 10)


def ran(payload):
    """What the job returns, its updates passed over."""
    job = live.live(payload)
    try:
        while True:
            next(job)
    except StopIteration as end:
        return end.value


@pytest.fixture
def gpu(monkeypatch):
    """A function that puts a GPU here whose sampled rows it changes so; and the rows that were asked for."""
    asked = []

    def put(**changes):
        monkeypatch.setattr(live, "machine", lambda: Machine("NVIDIA H200", True, {}, "cold", True))
        monkeypatch.setattr(
            live, "sampled_row", lambda row: asked.append(row) or replace(row, times=TIMES, **changes)
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
        ran(live.payload_of(Experiment()))


def test_pages_of_any_gpu_share_one_measurement():
    assert live.payload_of(Experiment.of(hardware="h100")) == live.payload_of(Experiment.of(hardware="a100"))


def test_the_scenario_is_measured_in_its_own_blocks_or_in_the_kernels(gpu):
    asked = gpu(read=(1, 2), written=(0, 0), sms=(9, 9), interval=1e-6)
    found = ran(live.payload_of(Experiment.of(algorithm="flash2", block_q=64, block_kv=32)))
    ran(live.payload_of(Experiment.of(algorithm="flash3", head_dim=128)))
    ran(live.payload_of(Experiment.of(algorithm="split_kv", seq=1, seq_kv=4096, splits=4)))
    assert [(row.block_q, row.block_kv) for row in asked[:2]] == [(64, 32), (None, None)]
    assert asked[2].splits == 4
    assert (found.device, found.row.read_bytes, found.shared) == ("NVIDIA H200", 96, False)


def test_what_cannot_be_sampled_is_timed_all_the_same(gpu):
    gpu(skipped="the driver lets only administrators read this chip's counters")
    found = ran(live.payload_of(Experiment()))
    assert found.row.times == TIMES
    assert "administrators" in found.row.skipped


def test_what_cannot_be_timed_is_the_job_s_sentence(gpu, monkeypatch):
    gpu()
    monkeypatch.setattr(live, "sampled_row", lambda row: replace(row, skipped="out of memory"))
    with pytest.raises(JobError, match="out of memory"):
        ran(live.payload_of(Experiment()))


def test_times_that_spread_tell_of_another_process(gpu):
    gpu()
    found = ran(live.payload_of(Experiment()))
    assert replace(found, row=replace(found.row, times=replace(TIMES, p80=2e-4))).shared

"""The chip's own samples: cut to the call, joined from passes, or refused; one scenario on this GPU."""

import types
from dataclasses import replace

import numpy as np
import pytest

from engine.algorithms import BACKWARD, FORWARD
from engine.experiment import Experiment
from engine.measuring import live, record, sampling
from engine.measuring.machine import Machine
from engine.measuring.recorder import Recorder
from engine.recordings.counters import recorded_counters
from engine.recordings.file import SHELF, load, recording_of, recordings
from engine.recordings.recording import identity
from engine.recordings.rows import experiment_of
from engine.recordings.samples import nearest_samples
from engine.recordings.timing import Times
from engine.worker.jobs import JobError
from tests.engine.strategies import returned
from tests.engine.test_counters import call
from tests.engine.test_recording import DEVICE, SAMPLED

BUSY = {"read": 4096, "written": 2048, "sms": 100.0, "tensor": 50.0, "exponentials": 7, "l2": 8192}
SWEEP = {"read": 65536, "written": 320, "sms": 100.0}
RAN = Times(1e-4, 1.1e-4, 1.2e-4, 10)
GIVEN = {"times": RAN, "read": (1, 2), "written": (0, 0), "sms": (9, 9), "interval": 1e-6}


class Chip:
    """A chip whose samples are idle but for a call of 4 intervals and the sweep after it.

    together: how many metrics it counts in one pass. unwilling: what it raises instead. others: what another
    process does before the call.
    """

    class TriggerMode:
        GPU_TIME_INTERVAL, GPU_SYSCLK_INTERVAL = 1, 2

    class CuptiError(Exception):
        pass

    def __init__(self, together=6, unwilling=None, timer=True, others=(), sent=0):
        self.others, self.sent = list(others), sent
        self.together, self.unwilling, self.timer, self.passes = together, unwilling, timer, []
        self.cupti = types.SimpleNamespace(cupti=types.SimpleNamespace(cuptiError=self.CuptiError))

    def Collector(self, device_index):  # noqa: N802 (as CUPTI has it)
        return self

    def enable(self):
        if self.unwilling:
            raise self.unwilling

    def configure(self, metrics, sampling_interval, trigger_mode, **_):
        if len(metrics) > self.together or (trigger_mode == 1 and not self.timer):
            raise ValueError("not supported")
        self.passes.append((tuple(metrics), sampling_interval))

    def start(self):
        pass

    disable = stop = start

    def decode(self, max_samples):
        names = {metric: name for name, (metric, _) in sampling.METRICS.items()}
        states = [None, *self.others, *[None] * 30, *[BUSY] * 4, *[None] * 60, *[SWEEP] * 3, *[None] * 30]
        for at, state in enumerate(states):
            now = {**state, "sent": self.sent} if state else {}
            values = [now.get(names.get(metric, "sent"), 0.0) for metric in self.passes[-1][0]]
            yield types.SimpleNamespace(start_timestamp=1000 * at, metric_values=values)


@pytest.fixture
def chip(monkeypatch):
    """A function that puts such a chip in the place of the real one."""
    import torch

    nothing = types.SimpleNamespace(zero_=lambda: None, sum=lambda: None)
    monkeypatch.setattr(torch, "empty", lambda *_, **__: nothing)
    properties = types.SimpleNamespace(multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)

    def put(**kinds):
        made = Chip(**kinds)
        monkeypatch.setattr(sampling, "library", lambda: made)
        return made

    return put


@pytest.mark.parametrize("together", [6, 5, 4, 3])
def test_a_call_is_told_from_what_is_around_it_in_as_few_passes_as_the_chip_allows(chip, together):
    made = chip(together=together)
    (found,) = sampling.sampled(lambda: None, 4e-6)
    assert found.columns["read"].tolist() == [0, 128, 128, 128, 128, 0]
    assert found.columns["written"].sum() == 4 * 64
    assert found.left == 3 * 10  # the sweep after the call
    assert found.columns["sms"].max() == 1000
    assert {"read", "written", "sms"} <= set(found.columns)
    assert ("l2" in found.columns) == (together > 3)
    assert all(len(metrics) <= together for metrics, _ in made.passes)
    assert (len(made.passes) == 1) == (together == 6)


@pytest.mark.parametrize("others", [[BUSY] * 40, [None] * 6 + [BUSY] * 3])
def test_bytes_of_another_process_are_not_taken_for_the_call_s(chip, others):
    chip(others=others)
    with pytest.raises(JobError, match="another process is at work on this GPU"):
        sampling.sampled(lambda: None, 4e-6)


def test_long_calls_are_sampled_less_often_and_a_chip_without_a_timer_by_its_clock(chip):
    made = chip(timer=False)
    sampling.sampled(lambda: None, 8e-3)
    assert made.passes[-1][1] == round(8000 * sampling.SYSTEM_CLOCK)
    warm = sampling.sampled(lambda: None, 4e-6, cold=False, repeats=3)
    assert [one.left for one in warm] == [0, 0, 0]  # nothing is counted twice


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PermissionError("rights"), "only administrators"),
        (MemoryError("overflow"), "could be kept"),
        (Chip.CuptiError("ERROR_HARDWARE_BUSY (26)"), "another process"),
        (Chip.CuptiError("ERROR_UNKNOWN (999)"), "does not sample this chip: ERROR_UNKNOWN"),
    ],
)
def test_what_the_chip_refuses_is_a_sentence(chip, error, sentence):
    chip(unwilling=error)
    with pytest.raises(JobError, match=sentence):
        sampling.sampled(lambda: None, 4e-6)


def test_without_the_package_or_without_work_one_sentence_says_so(monkeypatch):
    def missing(_):
        raise sampling.PackageNotFoundError("nvidia-cuda-cupti")

    monkeypatch.setattr(sampling, "distribution", missing)
    with pytest.raises(JobError, match="pip install --no-deps -r"):
        sampling.sampled(lambda: None, 4e-6)
    idle = [types.SimpleNamespace(start_timestamp=1000 * at, metric_values=[0.0] * 3) for at in range(9)]
    with pytest.raises(JobError, match="do not hold the call"):
        sampling._of_the_call(idle, sampling.NEEDED, 1000, 132)


@pytest.mark.parametrize(
    ("asked", "seq", "same"),
    [
        ({"algorithm": "flash3", "seq": 4096, "head_dim": 128}, 4096, True),
        ({"algorithm": "flash3", "seq": 512, "head_dim": 64}, 1024, False),
        ({"algorithm": "flash2", "seq": 8192, "head_dim": 128, "window": 1024}, 8192, False),
        ({"algorithm": "split_kv", "seq": 1, "seq_kv": 8192}, 32768, False),
    ],
)
def test_pages_have_the_nearest_call_that_was_sampled(asked, seq, same):
    for gpu in ("h100", "h200"):
        row, very = nearest_samples(recording_of(gpu).samples, Experiment.of(**asked))
        assert (row.provider, row.problem.seq_kv, very) == (asked["algorithm"], seq, same)
    assert nearest_samples((), Experiment()) is None
    back, _ = nearest_samples(recording_of("h200").samples, Experiment(), "flash3", BACKWARD)
    assert back.problem.seq_kv > 1024


def test_without_ncu_a_call_s_samples_become_its_counters(monkeypatch, tmp_path):
    def none():
        raise JobError("ncu is not installed")

    sampled = replace(SAMPLED, left=4, times=Times(1e-6, 2e-6, 3e-6, 10), l2=(0, 10, 10, 0))
    monkeypatch.setattr(record, "find_ncu", none)
    monkeypatch.setattr(sampling, "library", lambda: None)
    monkeypatch.setattr(Recorder, "compile_ahead", lambda *_: None)
    rows = {"flash2": sampled, "sdpa_cudnn": replace(sampled, skipped="no")}
    monkeypatch.setattr(sampling, "sampled_row", lambda row: rows[row.provider])
    said = []
    recorder = Recorder(tmp_path / "one.json", DEVICE, 60.0, said.append)
    calls = [call("flash2", 512), call("sdpa_cudnn", 512)]
    monkeypatch.setattr(record.sections, "plan", lambda _: calls)
    record.record_counters(recorder)
    record.record_counters(recorder)  # what is there is not counted again
    recorder.close()
    counted, skipped = load(tmp_path / "one.json").counters
    assert (counted.sampled, skipped.sampled, skipped.skipped) == (True, False, "no")
    assert (counted.total("dram_read"), counted.total("dram_written")) == (18 * 32, 6 * 32)
    assert (counted.total("l2_bytes"), counted.total("seconds")) == (20 * 32, 2e-6)
    assert np.isnan(counted.total("tile_read"))
    assert sum("DRAM read" in line for line in said) == 1
    assert "ncu is not installed" in said[0]


def test_what_leaves_a_gpu_is_cut_to_the_call_and_added_up(chip, monkeypatch):
    made = chip(others=[BUSY], sent=320)
    monkeypatch.setattr(sampling, "OFTEN", 32)
    with sampling.link_collector(3e-3) as collector:
        assert made.passes == [((sampling.METRICS["sms"][0], *sampling.SENT), 10_000)]
        interval, sectors = sampling.sent(collector, lambda: None)
    assert interval == 3e-6  # 4 busy, 60 idle, 3 of the sweep, which are more than two times OFTEN
    assert (len(sectors), sectors[0], sectors[1], sum(sectors)) == (23, 60, 20, 7 * 20)
    monkeypatch.setattr(made, "decode", lambda **_: [])
    with pytest.raises(JobError, match="no samples"):
        sampling.sent(made, lambda: None)


def test_samples_and_ncu_agree_on_what_a_call_reads():
    """Where what L2 keeps is no chance: calls that read each byte once, and matrices far larger than L2."""
    (sampled,) = recordings(SHELF / "sampled")
    by_ncu = {identity(row): row for row in recording_of("h200").counters}
    agreeing, others = [], []
    for row in sampled.counters:
        kernels = (*by_ncu[identity(row)].kernels, *by_ncu[identity(row)].others)
        ratio = row.total("dram_read") / sum(kernel.dram_read for kernel in kernels)
        problem = row.problem
        matrix = problem.all_heads * problem.seq_q * problem.seq_kv * problem.itemsize
        once = problem.all_heads * problem.seq_q + 2 * problem.batch * problem.kv_heads * problem.seq_kv
        once *= problem.head_dim * problem.itemsize
        alone = len(kernels) == 1 and kernels[0].dram_read < 1.01 * once
        (agreeing if alone or (row.provider == "standard" and matrix > 5e8) else others).append(ratio - 1)
        assert row.sampled
        assert row.total("seconds") > 0
    assert len(agreeing) >= 20
    assert max(map(abs, agreeing)) < 0.01
    assert np.median(np.abs(agreeing)) < 0.0015
    # else L2 loses more or less by chance, or has what the kernel before has left, where ncu empties it
    assert max(others) < 0.1


@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_samples_last_as_long_as_the_call_does_without_them(gpu):
    """What a GPU waits for its host is left out: the times are taken with the host ahead."""
    for row in recording_of(gpu).samples:
        if row.numbers == "float16":  # FP8's few kernels are launched more slowly than they run
            assert row.seconds == pytest.approx(row.times.p50, rel=0.05, abs=3e-6)


def test_of_a_wait_for_the_host_one_interval_is_left():
    reads, sms = np.array([0, 5, 1, 2, 0, 7, 0]), np.array([0, 900, 0, 3, 0, 900, 0])
    kept = sampling.without_waits(reads, sms, np.array([], int), sms=sms)
    assert [column.tolist() for column in kept] == [[0, 5, 3, 7, 0], [0, 900, 3, 900, 0], []]


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
    first, second = (live.payload_of([Experiment.of(hardware=name)]) for name in ("h100", "a100"))
    assert first == second  # pages of any GPU share one measurement


def test_a_scenario_is_measured_in_its_own_blocks_or_in_the_kernels(gpu):
    asked = gpu(**GIVEN)
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
    found = iter([{"skipped": "CUDA out of memory"}, GIVEN])
    monkeypatch.setattr(live, "sampled_row", lambda row, **_: replace(row, **next(found)))
    first, second = ran(Experiment.of(algorithm="standard"), Experiment()).rows
    assert (first.skipped, second.times) == ("CUDA out of memory", RAN)
    monkeypatch.setattr(live, "sampled_row", none_left)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10**9, 8 * 10**10))
    with pytest.raises(JobError, match="the GPU has 80 GB, 1"):
        ran(Experiment())


def test_times_that_spread_tell_of_another_process(gpu):
    gpu(**GIVEN | {"times": replace(RAN, p80=2e-4)})
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

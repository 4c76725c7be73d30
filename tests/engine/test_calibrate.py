"""python -m engine calibrate, on a chip that is made up, and what is said of a file that is none."""

import json
import os
import subprocess
import sys
from itertools import cycle
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from app import command_line
from engine import Experiment, simulate
from engine.__main__ import main
from engine.decoded import FileError
from engine.measuring import calibrate
from engine.problem import calibration as file
from engine.problem import hardware
from engine.problem.calibration import dumps, loads
from engine.problem.gpu import MIB, Reached
from engine.problem.hardware import GPUS, PRESET, calibrated
from engine.recordings.recording import Device
from engine.worker.jobs import JobError, LostError

WHERE = Device("NVIDIA Toy 9", "600.1", {"torch": "2"}, {}, 8 << 30, "abc", "2026-11-27T10:00:00")
SMS, CLOCK, L2 = 16, 1e9, 32 * MIB
RATES = {"float16": 1024, "bfloat16": 1024, "float32": 256}  # FLOP per clock and SM
FREE = "the GPU has 9 GB, 4.3 GB of it free"
FAILING = [  # what fails, how, and what is said
    ("shared", JobError("out of room"), "out of room"),
    ("shared", LostError("the GPU failed: lost; the next job starts anew"), "the GPU failed: lost"),
    ("arithmetic", torch.OutOfMemoryError("CUDA out of memory"), FREE),
]


class Chip:
    """Stands for `kernels.Benchmarks`: 16 SMs at 1 GHz whose every rate is known."""

    def __init__(self, device: str, size: int):
        self.now, self.buffer, self.noise, self.powered = 0.0, self, 0.0, 0.0
        self.events, self.queued = [], 0

    def sum(self):
        self.queued = 0.0

    def _ran(self, blocks: int, seconds: float, clock: float = CLOCK):
        seconds *= 1 + self.noise
        begin = self.now
        self.now += 1e9 * seconds + 2000
        sm = np.arange(blocks) % SMS
        columns = sm, begin, begin + 1e9 * seconds, 0, seconds * clock
        notes = np.stack([np.broadcast_to(np.round(column), blocks) for column in columns], 1)
        return SimpleNamespace(cpu=lambda: SimpleNamespace(numpy=lambda: notes.astype(np.int64)))

    def products(self, count, blocks, dtype, rows, keys, depth, stages=0, exponentials=0):
        if "float8" in str(dtype):
            raise ValueError("fp8 is not known here")
        peak = RATES[str(dtype).removeprefix("torch.")] * (0.5 if rows < 64 else 1)
        busy = 1 / (1 + 0.5 * exponentials)
        clock = CLOCK * (1 - 0.4 * max(0.0, busy - 0.5) * bool(stages))
        seconds = 2 * rows * keys * depth * count * blocks / SMS / (peak * busy * clock)
        self.powered += seconds if stages and not exponentials else 0.0
        clock *= 0.9 if self.powered > 0.1 else 1.0
        return self._ran(blocks, seconds, clock)

    def exponentials(self, count, blocks):
        return self._ran(blocks, 2048 * count * blocks / SMS / 15.8 / CLOCK)

    def arithmetic(self, count, blocks):
        seconds = 2048 * count * blocks / SMS / 120 / CLOCK
        self.queued += 2e-6 + round(1e9 * seconds) * 1e-9
        return self._ran(blocks, seconds)

    def shared(self, count, blocks):
        return self._ran(blocks, 64 * 512 * count * blocks / SMS / 127 / CLOCK)

    def walk(self, count, blocks, size, together=1):
        rate = (8e11 if together > 1 else 5e11) if size <= L2 else 1e11
        return self._ran(blocks, count * blocks * calibrate.TILE / rate)

    def copy(self, blocks):
        return self._ran(blocks, 2 * blocks * calibrate.TILE / 0.9e11)

    def wait(self, count, blocks, size):
        return self._ran(blocks, count * (1e-7 if size < MIB else 3e-7 if size <= L2 else 8e-7))


@pytest.fixture
def chip(monkeypatch):
    """What `calibrate` finds in place of a GPU; its one instance."""
    one = Chip("", 0)

    class Event(SimpleNamespace):
        def __init__(self, enable_timing):
            super().__init__(record=lambda: None, synchronize=lambda: None)

        def elapsed_time(self, end):
            launched, one.queued = one.queued, 0.0
            return 1e3 * (1.5e-6 + launched)

    properties = SimpleNamespace(
        multi_processor_count=SMS, L2_cache_size=L2, major=8, minor=6, shared_memory_per_block_optin=101376,
        shared_memory_per_multiprocessor=102400, regs_per_multiprocessor=65536, total_memory=8 << 30,
        clock_rate=1_000_000, memory_clock_rate=500_000, memory_bus_width=900,
    )  # fmt: skip
    cuda = SimpleNamespace(
        get_device_properties=lambda device: properties, mem_get_info=lambda: (4 << 30, 8 << 30),
        synchronize=lambda: None, Event=Event, empty_cache=lambda: None,
    )  # fmt: skip
    dtypes = {dtype: getattr(torch, dtype) for dtype in file.DTYPES}
    fake = SimpleNamespace(cuda=cuda, OutOfMemoryError=torch.OutOfMemoryError, **dtypes)
    monkeypatch.setattr(calibrate, "torch", fake)
    monkeypatch.setattr("engine.measuring.trial.torch", fake)
    monkeypatch.setattr(calibrate, "kernels", SimpleNamespace(Benchmarks=lambda device, size: one))
    monkeypatch.setattr(calibrate, "device", lambda why: WHERE)
    monkeypatch.setattr(calibrate.time, "sleep", lambda seconds: setattr(one, "powered", 0.0))

    def refuse(*given, **more):
        raise JobError("the driver lets only administrators read this chip's counters")

    monkeypatch.setattr(calibrate.sampling, "sampled", refuse)
    return one


def test_every_rate_of_a_chip_is_found(chip):
    found = calibrate.measured(lambda said: None)
    read = loads(dumps(found).encode())
    gpu = calibrated(read, "toy")
    assert (gpu.name, gpu.architecture, gpu.sms) == ("Toy 9, calibrated 2026-11-27", "Ampere", SMS)
    flops = {dtype: rate * SMS * CLOCK for dtype, rate in RATES.items()}
    assert gpu.matrix_flops == flops
    assert (gpu.exponentials_per_clock, gpu.shared_bytes_per_clock) == (16, 128)
    assert gpu.l2_effective_bytes == L2
    assert gpu.memory_bytes_per_second == pytest.approx(2 * 500e6 * 900 / 8)
    assert gpu.cache_bytes_per_second == pytest.approx(8e11, rel=0.01)
    expected = Reached(
        matrix=0.8, reads=1e11 / 1.125e11, copies=0.8, cache=1.0, latency=8e-7, l2_latency=3e-7, launch=2e-6,
        between_events=1.5e-6, clock=1.0, power_from=0.5, power_slope=0.4,
        sustained_from=0.1, sustained_clock=0.9,
    )  # fmt: skip
    assert vars(gpu.reached) == pytest.approx(vars(expected), rel=0.1)
    assert "administrators" in read.refused


@pytest.mark.parametrize(("name", "error", "said"), FAILING, ids=str)
def test_a_gpu_that_fails_in_the_middle_is_a_sentence(chip, monkeypatch, capsys, tmp_path, name, error, said):
    def fail(*given, **more):
        raise error

    monkeypatch.setattr(chip, name, fail)
    with pytest.raises(SystemExit, match="2"):
        main(["calibrate", "--out", str(tmp_path / "one.json")])
    found = capsys.readouterr().err
    assert said in found
    assert found.count("\n") == 1
    assert not (tmp_path / "one.json").exists()


def test_a_gpu_in_use_by_another_is_said(chip, monkeypatch):
    shares = cycle((0.0, 0.5, 1.5))
    usual = chip._ran

    def disturbed(*given):
        chip.noise = next(shares)
        return usual(*given)

    monkeypatch.setattr(chip, "_ran", disturbed)
    said = r"one and the same kernel took .* something else is at work on this GPU"
    with pytest.raises(JobError, match=said):
        calibrate.measured(lambda said: None)


def test_the_command_writes_what_is_offered(chip, capsys, tmp_path, monkeypatch):
    path = tmp_path / "My GPU.json"
    assert main(["calibrate", "--out", str(path)]) == 0
    said = capsys.readouterr().out
    assert "no preset knows this GPU" in said
    assert "administrators" in said
    monkeypatch.setattr(hardware, "_OFFERED", dict(PRESET))
    gpu = hardware.offer(path)
    assert gpu.key == "my-gpu"
    assert gpu.device.architecture == f"sm_{gpu.calibration.capability.replace('.', '')}"


def changed(**values) -> bytes:
    content = json.loads((hardware.SHELF / "h100.json").read_text()) | values
    return json.dumps({name: value for name, value in content.items() if value is not None}).encode()


def series(key: str, **points) -> dict:
    every = json.loads((hardware.SHELF / "h100.json").read_text())["series"]
    return {**every, key: {name.replace("_", " "): value for name, value in points.items()}}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (changed()[:3000], "is damaged: it is not JSON"),
        (changed(format="attention recording"), "is not a calibration of a GPU"),
        (changed(version=0), "is a calibration of version 0; this program reads version 1: calibrate anew"),
        (changed(sms=0), "is damaged: the calibration has 0 for sms, which must be above 0"),
        (changed(series={}), "is cut short: float16 of Matrix products must be 1 or more pairs of numbers"),
        (changed(series=series("waits", a_tile=[[1, 1]])), "a tile of Waits must be 3 or more pairs"),
        (changed(series=series("waits", a_tile=[[1, 1]] * 3)), "must have rising places in a tile of Waits"),
        (changed(series=series("shared", load=[[8, 0]])), "numbers above 0 in load of Shared memory"),
        (changed(series=series("shared", load=[[8]])), "numbers above 0 in load of Shared memory"),
        (changed(series=series("shared", load=[8])), "load of shared of series"),
        (changed(sms=10**9), "has 1,000,000,000 for sms, which must be at most 1,024"),
        (changed(series=series("mine", load=[[1, 1]])), "has a benchmark 'mine', which this"),
        (changed(series=series("order", SM=[[0, 0]] * 4096)), "has more than 4,096 points"),
        (changed(series=series("shared", load=[[8, 1]])), "has less than one for each SM and clock"),
        (b" " * (1 << 20) + b" ", "is larger than 1 MB"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(data, sentence):
    with pytest.raises(FileError) as caught:
        loads(data, "my-gpu.json")
    assert str(caught.value).startswith("my-gpu.json is ")
    assert sentence in str(caught.value)


def test_a_calibration_of_another_gpu_is_refused_under_a_presets_name(tmp_path):
    path = tmp_path / "h200.json"
    path.write_bytes(changed())
    with pytest.raises(FileError, match=r"h200\.json is of another GPU than it is named for, NVIDIA H100"):
        hardware.offer(path)
    with pytest.raises(FileError, match=r"none\.json cannot be read: No such file"):
        hardware.offer(tmp_path / "none.json")


def test_a_file_of_a_known_gpu_keeps_its_vendors_figures():
    found = loads(changed())
    gpu = calibrated(found, "mine")
    assert gpu.matrix_flops == PRESET["h100"].matrix_flops
    assert gpu.reached == found.reached(PRESET["h100"])
    fewer = calibrated(loads(changed(sms=114)), "pcie")  # an H100 of another kind has figures of its own
    assert fewer.sms == 114
    assert fewer.matrix_flops["float16"] == 4096 * 114 * 1.98e9


@pytest.mark.parametrize("key", ["h100", "h200"])
def test_a_preset_that_was_calibrated_takes_all_that_was_measured(key):
    found = GPUS[key].calibration
    assert GPUS[key].reached == found.reached(PRESET[key])
    assert found.l2_effective_bytes == PRESET[key].l2_effective_bytes  # by what came from DRAM
    assert GPUS[key].sources[hardware.REACHES].startswith(f"calibrated 2026-11-27, NVIDIA {key.upper()}")
    if key == "h200":  # and a GPU that was never measured reaches what an H200 does
        assert vars(Reached()) == pytest.approx(vars(GPUS[key].reached), rel=0.01)


def test_the_model_takes_what_was_measured(monkeypatch):
    waits = series("waits", a_tile=[[1, 1e-6], [2, 1e-6], [3, 1e-5]])
    monkeypatch.setitem(hardware._OFFERED, "slow", calibrated(loads(changed(series=waits)), "slow"))
    one = Experiment.of(seq=1024, hardware="h100")
    gained = simulate(one.changed(hardware="slow")).modelled.seconds - simulate(one).modelled.seconds
    assert gained > 9e-6


def test_a_command_takes_a_gpu_of_ones_own_or_says_why_not(tmp_path):
    asked = [sys.executable, "-m", "engine", "simulate", "--hardware", "my-gpu", "--json"]
    path, found = tmp_path / "my-gpu.json", []
    for data in (changed(), changed(version=0)):
        path.write_bytes(data)
        named = os.environ | {hardware.OWN: str(path)}
        found.append(subprocess.run(asked, cwd=hardware.ROOT, env=named, capture_output=True, text=True))
    assert json.loads(found[0].stdout)["hardware"] == "my-gpu"
    assert (found[0].returncode, found[1].returncode) == (0, 2)
    said = "my-gpu.json is a calibration of version 0; this program reads version 1: calibrate anew\n"
    assert found[1].stderr.startswith(said)


def test_the_dashboard_is_not_started_with_a_file_that_is_no_calibration(tmp_path, monkeypatch, capsys):
    path = tmp_path / "my-gpu.json"
    path.write_bytes(changed(sms=0))
    monkeypatch.setattr(sys, "argv", ["main.py", "--gpu", str(path)])
    with pytest.raises(SystemExit):
        command_line.check()
    assert capsys.readouterr().err == (
        "--gpu is refused: my-gpu.json is damaged: the calibration has 0 for sms, which must be above 0.\n"
    )

"""A user's file on a GPU: what it launches is taken where it reaches nothing, and launched elsewhere."""

import ctypes

import numpy as np
import pytest
import torch

from engine.experiment import Experiment
from engine.measuring import user_gpu
from engine.measuring.trial import random_inputs
from engine.watch import launches
from engine.watch.labs import FOLDER
from engine.watch.process import FailedError, Limits, run
from engine.worker.jobs import JobError

SCENARIO = Experiment.of(seq=1000, head_dim=32, heads=4, kv_heads=2, batch=2)


def taken(source, tmp_path):
    """What a file of the last lab that launches two kernels, changed so, launches."""
    text = (FOLDER / "8_split_and_merge.py").read_text("utf-8")
    for old, new in source.items():
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "mine.py"
    file.write_text(text)
    return run(file, SCENARIO, Limits(seconds=60), function=launches.__name__)


def test_launches_are_those_of_the_whole_scenario_and_nothing_runs(tmp_path):
    found = taken({}, tmp_path)
    assert [each["grid"][:2] for each in found["launches"]] == [[16, 8], found["launches"][1]["grid"][:2]]
    assert [each["given"] for each in found["memory"][:3]] == [0, 1, 2]
    assert [each["bytes"] for each in found["memory"][:2]] == [2 * 4 * 1000 * 32 * 2, 2 * 2 * 1000 * 32 * 2]
    assert all(each["fill"] is None for each in found["memory"])
    assert found["launches"][0]["arguments"][:3] == [[0, 0], [1, 0], [2, 0]]
    assert all("tt.func public" in kernel["code"] for kernel in found["kernels"])


def test_what_a_file_fills_is_filled_again_and_numbers_made_in_python_are_refused(tmp_path):
    zeros = taken({"out = torch.empty_like(q)": "out = torch.zeros_like(q)"}, tmp_path)
    (own,) = [each for each in zeros["memory"] if each["fill"]]
    assert (own["fill"], own["bytes"]) == ([0] * 16, zeros["memory"][0]["bytes"])
    with pytest.raises(FailedError, match="it fills a tensor in Python"):
        taken(
            {"out = torch.empty_like(q)": "out = torch.arange(q.numel()).to(q.dtype).view(q.shape)"}, tmp_path
        )


def test_kernels_are_launched_on_the_tensors_here(monkeypatch):
    """A kernel that adds V to what O holds, at the addresses that it is given."""

    def kernel(v, out, many):
        at = [np.frombuffer((ctypes.c_uint16 * many).from_address(each), np.float16) for each in (v, out)]
        np.add(*at, out=np.frombuffer((ctypes.c_uint16 * many).from_address(out), np.float16))

    monkeypatch.setattr(user_gpu, "_compiled", lambda **_: {(3, 1, 1): kernel})
    q, k, v = random_inputs(Experiment.of(seq=64, heads=2, head_dim=16).problem, cuda=False)
    found = {
        "kernels": [{"code": "", "num_warps": 4, "num_stages": 3}],
        "launches": [{"kernel": 0, "grid": [3, 1, 1], "arguments": [[0, 0], [1, 32], [v.numel()]]}],
        "memory": [
            {"bytes": v.nbytes, "given": 2, "fill": None},
            {"bytes": v.nbytes + 32, "given": None, "fill": [0] * 16},
        ],
        "returned": [1, 32],
    }
    call = user_gpu._call(found, q, k, v, None)
    for _ in range(2):  # what it filled is filled anew
        assert torch.equal(call(), v)
    found["launches"][0]["arguments"][0] = [7, 0]
    with pytest.raises(JobError, match="cannot be run"):
        user_gpu._call(found, q, k, v, None)


def test_a_file_that_fails_is_the_jobs_sentence(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def attention(q, k, v, causal=False):\n    return q\n")
    payload = {"calls": [SCENARIO.flat()], "file": str(file), "saved": user_gpu.saved(file)}
    with pytest.raises(JobError, match="it launches 0 kernels; it must be 1 to 64"):
        user_gpu.prepared(payload)


def test_a_file_as_it_was_is_compiled_once(monkeypatch, tmp_path):
    runs = []
    monkeypatch.setattr(user_gpu, "run", lambda *_, **__: runs.append({}) or runs[-1])
    file = tmp_path / "mine.py"
    for text, compiled in (("1", 1), ("1", 1), ("2", 2)):
        file.write_text(text)
        payload = {"calls": [SCENARIO.flat()], "file": str(file), "saved": user_gpu.saved(file)}
        assert user_gpu.prepared(payload).args[0] is runs[-1]
        assert len(runs) == compiled

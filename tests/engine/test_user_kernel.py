"""A user's own kernel: what its page asks for, and what it launches, taken where it reaches nothing."""

import ctypes

import numpy as np
import pytest
import torch

from engine import Experiment
from engine.measuring import user_kernel
from engine.measuring.bench import interpreter_seconds
from engine.measuring.trial import random_inputs
from engine.measuring.user_kernel import MOST_SECONDS, interpretable, saved, watch, watched_file
from engine.watch import launches
from engine.watch.labs import FOLDER
from engine.watch.process import FailedError, Limits, run
from engine.watch.user_file import NotServedError
from engine.worker.jobs import JobError
from tests.engine.strategies import returned

SCENARIO = Experiment.of(seq=1000, head_dim=32, heads=4, kv_heads=2, batch=2)


def test_a_lab_is_the_file_of_its_name_beside_the_users_own_else_the_labs(tmp_path):
    own = tmp_path / "mine.py"
    experiment = Experiment.of(seq=64, heads=2)
    assert watched_file(own, experiment, None).file == own
    assert watched_file(own, experiment, 4).file == FOLDER / "4_rescale.py"
    (tmp_path / "4_rescale.py").touch()
    lab = watched_file(own, experiment, 4)
    assert lab.file == tmp_path / "4_rescale.py"
    assert (lab.experiment.problem.seq_q, lab.payload["lab"]) == (48, 4)
    with pytest.raises(KeyError):
        watched_file(own, experiment, 15)


@pytest.mark.parametrize(
    "values",
    [{}, {"seq": 2**20, "heads": 1024, "kv_heads": 1, "batch": 4096, "window": 7, "causal": True},
     {"algorithm": "backward", "seq": 300, "seq_kv": 17, "documents": 3}, {"block_q": 1024, "block_kv": 1024},
     {"heads": 32, "kv_heads": 8, "seq": 4096, "hardware": "t4"}],
    ids=str,
)  # fmt: skip
def test_what_runs_takes_seconds(values):
    run = interpretable(Experiment.of(**values))
    problem = run.problem
    assert interpreter_seconds(run) <= MOST_SECONDS
    assert problem.heads <= 4
    assert problem.heads % problem.kv_heads == 0
    assert problem.mask.kinds <= {"causal"}
    assert (problem.batch, run.algorithm, run.hardware) == (1, "flash2", values.get("hardware", "h200"))
    assert -(-problem.seq_kv // run.asked.block_kv) <= 16
    few = {"seq": 256, "heads": 4, "kv_heads": 2, "head_dim": 64, "causal": True}
    assert interpretable(Experiment.of(**few)) == Experiment.of(**few)
    sentence = Experiment.of(inputs="text:5.3:It is a truth universally acknowledged")
    assert interpretable(sentence).problem == sentence.problem  # on a real head, too


@pytest.mark.parametrize("number", [None, 4])
def test_what_was_saved_while_it_ran_is_not_shown_as_what_was_asked_for(monkeypatch, tmp_path, number):
    file = tmp_path / ("mine.py" if number is None else "4_rescale.py")
    assert saved(file) == ""
    file.write_text("one")
    before = watched_file(tmp_path / "mine.py", Experiment(), number).payload

    def saved_again(*_) -> dict:
        file.write_text("two")
        return {"findings": []}

    monkeypatch.setattr(user_kernel, "run", saved_again)
    monkeypatch.setattr(user_kernel.Lab, "check", saved_again)
    work = watch(watched_file(tmp_path / "mine.py", Experiment(), number).payload)
    next(work)
    with pytest.raises(JobError, match=r"\.py was saved while it waited or ran, so nothing is shown; run it"):
        next(work)
    assert watched_file(tmp_path / "mine.py", Experiment(), number).payload != before


def test_a_file_that_is_not_there_is_a_sentence(tmp_path):
    found = returned(watch(watched_file(tmp_path / "no.py", Experiment(), None).payload))
    assert found["failed"].endswith("no.py is not a file that can be read")


def test_launches_are_those_of_the_whole_scenario_and_nothing_runs(tmp_path):
    """Of the last lab that launches two kernels; what the file fills is filled again."""
    file, text = tmp_path / "mine.py", (FOLDER / "8_split_and_merge.py").read_text("utf-8")
    assert "out = torch.empty_like(q)" in text
    file.write_text(text.replace("out = torch.empty_like(q)", "out = torch.zeros_like(q)"))
    found = run(file, SCENARIO, Limits(seconds=60), function=launches.__name__)
    assert [each["grid"][:2] for each in found["launches"]] == [[16, 8], found["launches"][1]["grid"][:2]]
    assert [each["given"] for each in found["memory"][:3]] == [0, 1, 2]
    assert [each["bytes"] for each in found["memory"][:2]] == [2 * 4 * 1000 * 32 * 2, 2 * 2 * 1000 * 32 * 2]
    assert found["launches"][0]["arguments"][:3] == [[0, 0], [1, 0], [2, 0]]
    assert all("tt.func public" in kernel["code"] for kernel in found["kernels"])
    (own,) = [each for each in found["memory"] if each["fill"]]
    assert (own["fill"], own["bytes"]) == ([0] * 16, found["memory"][0]["bytes"])


def test_numbers_that_a_file_makes_in_python_are_refused_and_a_file_must_launch_something(tmp_path):
    pytest.importorskip("kernels.dense")  # which must come before Triton
    with pytest.raises(NotServedError, match="it fills a tensor in Python"):
        launches.Launches([]).plain(torch.arange(100))
    (tmp_path / "mine.py").write_text("def attention(q, k, v, causal=False):\n    return q\n")
    with pytest.raises(NotServedError, match="it launches 0 kernels; it must be 1 to 64"):
        launches.report(tmp_path / "mine.py", SCENARIO, 1.0)


def test_kernels_are_launched_on_the_tensors_here(monkeypatch):
    """A kernel that adds V to what O holds, at the addresses that it is given."""

    def kernel(v, out, many):
        at = [np.frombuffer((ctypes.c_uint16 * many).from_address(each), np.float16) for each in (v, out)]
        np.add(*at, out=np.frombuffer((ctypes.c_uint16 * many).from_address(out), np.float16))

    monkeypatch.setattr(user_kernel, "_compiled", lambda **_: {(3, 1, 1): kernel})
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
    call = user_kernel._call(found, q, k, v, None)
    for _ in range(2):  # what it filled is filled anew
        assert torch.equal(call(), v)
    found["launches"][0]["arguments"][0] = [7, 0]
    with pytest.raises(JobError, match="cannot be run"):
        user_kernel._call(found, q, k, v, None)


def test_a_file_as_it_was_is_compiled_once_and_one_that_fails_is_the_jobs_sentence(monkeypatch, tmp_path):
    runs = []
    monkeypatch.setattr(user_kernel, "run", lambda *_, **__: runs.append({}) or runs[-1])
    file = tmp_path / "mine.py"
    for text, compiled in (("1", 1), ("1", 1), ("2", 2)):
        file.write_text(text)
        payload = {"calls": [SCENARIO.flat()], "file": str(file), "saved": user_kernel.saved(file)}
        assert user_kernel.prepared_on_gpu(payload).args[0] is runs[-1]
        assert len(runs) == compiled

    def fail(*_, **__):
        raise FailedError("mine.py: it launches 0 kernels.")

    monkeypatch.setattr(user_kernel, "run", fail)
    file.write_text("3")
    with pytest.raises(FailedError, match="it launches 0 kernels"):
        user_kernel.prepared_on_gpu(payload | {"saved": user_kernel.saved(file)})

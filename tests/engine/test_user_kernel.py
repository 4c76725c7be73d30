"""What the page of a user's own kernel asks for: which file, on which scenario, as it was saved."""

import pytest

from engine import Experiment
from engine.measuring import user_kernel
from engine.measuring.interpreter import interpreter_seconds
from engine.measuring.user_kernel import MOST_SECONDS, interpretable, saved, watch, watched_file
from engine.watch.labs import FOLDER
from engine.worker.jobs import JobError


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


def test_a_file_that_was_saved_again_is_another(tmp_path):
    file = tmp_path / "mine.py"
    assert saved(file) == ""
    file.write_text("one")
    before = watched_file(file, Experiment(), None).payload
    file.write_text("two")
    assert watched_file(file, Experiment(), None).payload != before


@pytest.mark.parametrize("number", [None, 4])
def test_what_was_saved_while_it_ran_is_not_shown_as_what_was_asked_for(monkeypatch, tmp_path, number):
    file = tmp_path / ("mine.py" if number is None else "4_rescale.py")
    file.write_text("one")

    def saved_again(*_) -> dict:
        file.write_text("two")
        return {"findings": []}

    monkeypatch.setattr(user_kernel, "run", saved_again)
    monkeypatch.setattr(user_kernel.Lab, "check", saved_again)
    work = watch(watched_file(tmp_path / "mine.py", Experiment(), number).payload)
    next(work)
    with pytest.raises(JobError, match=r"\.py was saved while it waited or ran, so nothing is shown; run it"):
        next(work)


def test_a_file_that_is_not_there_is_a_sentence(tmp_path):
    work = watch(watched_file(tmp_path / "no.py", Experiment(), None).payload)
    next(work)
    with pytest.raises(StopIteration) as end:
        next(work)
    assert end.value.value["failed"].endswith("no.py is not a file that can be read")

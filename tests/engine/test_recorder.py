"""Recording: it grows over several runs, outlives what stops it, and measures what is planned once."""

import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.__main__ import main as engine_main
from engine.measuring import record, sections, trial
from engine.measuring import recorder as making
from engine.measuring.implementations import implementations
from engine.measuring.record import record_timings
from engine.measuring.recorder import Recorder
from engine.measuring.sections import plan, together
from engine.model.launch import HEAVY_FIRST, NATURAL
from engine.recordings import file
from engine.recordings.file import FileError, dumps, load, recordings, save
from engine.recordings.recording import Recording, identity, unmeasured
from engine.recordings.timing import TilingTiming
from engine.root import ROOT
from tests.engine.test_measure import SHORT, bench_of
from tests.engine.test_recording import DEVICE

ROWS = recordings()[0].timings[:40]
SENTENCE = "cannot be written: No space left on device"


def recorder(path: Path, budget: float = 3600.0, say=lambda line: None, **device) -> Recorder:
    return Recorder(path, replace(DEVICE, **device), budget, say)


def full(*_):
    raise OSError(28, "No space left on device")


@pytest.fixture
def quick(monkeypatch):
    """A bench of PyTorch's own attention on problems that a CPU does at once."""
    pytest.importorskip("torch")
    monkeypatch.setattr(trial, "TOKENS", 64)
    monkeypatch.setattr(trial, "HIDDEN", 32)
    entered = bench_of(implementations()["eager"], implementations()["sdpa_flash"])
    return replace(entered, limit=math.inf)  # else a busy machine leaves out


def test_a_run_that_was_cut_short_goes_on_where_it_stopped(quick, tmp_path):
    path = tmp_path / "mine.json"
    for budget in (0.0, 3600.0):
        half = recorder(path, budget)
        record_timings(half, quick, lengths=(32,), head_dims=(16,))
        half.close()
        assert bool(half.recording.timings) == bool(budget)
    said = []
    rest = recorder(path, say=said.append)
    record_timings(rest, quick, lengths=(32, 64), head_dims=(16,))
    assert rest.recording.timings[: len(half.recording.timings)] == half.recording.timings
    assert len(said) == 4  # two masks, two directions, of the second length alone
    assert {row.provider for row in rest.recording.timings} == {"eager", "sdpa_flash"}
    assert all(row.error <= row.allowed for row in rest.recording.timings)
    assert {row.direction for row in rest.recording.timings} == {"forward", "backward"}
    rest.close()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"gpu": "T4"}, "with gpu NVIDIA H200, here it is T4"),
        ({"driver": "1.0"}, "with driver .*, here it is 1.0"),
        ({"commit": "another"}, "with commit .*, here it is another"),
        ({"versions": {"torch": "1.0"}}, "with versions .*, here it is torch 1.0"),
    ],
)
def test_what_was_recorded_otherwise_does_not_add_to_a_recording(tmp_path, changed, said):
    save(Recording(DEVICE), tmp_path / "h200.json")
    with pytest.raises(FileError, match=f"was recorded {said}: name another file"):
        recorder(tmp_path / "h200.json", **changed)


def test_a_sweep_keeps_failures_as_results(monkeypatch):
    pytest.importorskip("torch")

    def launched(config, prepare, q, k, v, problem):
        if config.block_q > 16:
            raise RuntimeError(
                "flash2 with 256 x 256 blocks at head_dim 128 needs 294912 bytes of shared memory a"
                " block, this GPU has 232448: choose smaller blocks"
            )
        return implementations()["eager"].prepare(q, k, v, problem)

    monkeypatch.setattr(sections, "_launched", launched)
    wanted = [TilingTiming("flash2", SHORT, rows, 16, 4, 1) for rows in (16, 32)]
    rows = {row.block_q: row for row in sections.timed(wanted, record.SWEPT, cuda=False)}
    assert rows[16].times is not None
    assert rows[32].skipped == "out of shared memory: 288 KB of 227 KB"
    assert {identity(row) for row in rows.values()} == {identity(one) for one in wanted}


def test_only_a_gpu_is_recorded(tmp_path, capsys, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="2"):
        engine_main(["record", "--out", str(tmp_path / "x.json")])
    assert "only a GPU is recorded" in capsys.readouterr().err


def test_rows_are_there_after_kill_nine(tmp_path):
    out = tmp_path / "mine.json"
    program = (
        "import os, signal\nfrom pathlib import Path\nfrom engine.measuring.recorder import Recorder\n"
        "from tests.engine.test_recorder import DEVICE, ROWS\n"
        f"r = Recorder(Path({str(out)!r}), DEVICE, 60.0, print)\n"
        "for at, row in enumerate(ROWS):\n    r.add('timings', [row])\n    print(at, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    rest = recorder(out)
    assert rest.recording.timings == ROWS
    rest.close()
    assert load(out).timings == ROWS
    assert os.listdir(tmp_path) == ["mine.json"]


def test_what_another_recorder_finishes_meanwhile_is_not_lost(tmp_path, monkeypatch):
    """It holds the file before it reads it: else what comes in between is overwritten by what was there."""
    path = tmp_path / "mine.json"
    first = recorder(path)
    with pytest.raises(FileError, match="is being recorded by another process"):
        recorder(path)
    first.add("timings", ROWS[:2])
    first.close()
    held = []

    def loaded(path: Path):
        with pytest.raises(FileError, match="is being recorded by another process"):
            recorder(path)
        held.append(path)
        return load(path)

    monkeypatch.setattr(making, "load", loaded)
    second = recorder(path)
    assert (held, second.recording.timings) == ([path], ROWS[:2])
    second.close()


def test_a_lock_that_its_holder_removes_meanwhile_is_not_held(tmp_path, monkeypatch):
    path, lock = tmp_path / "mine.json", making.fcntl.flock

    def removed(held, how):
        lock(held, how)
        Path(held.name).unlink()

    monkeypatch.setattr(making.fcntl, "flock", removed)
    with pytest.raises(FileError, match="is being recorded by another process"):
        recorder(path)


def test_two_that_write_one_file_each_write_it_whole(tmp_path, monkeypatch):
    path, usual = tmp_path / "trace.json", os.fsync

    def another_writes(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", usual)
        monkeypatch.setattr(os, "getpid", lambda: 4711)
        file.write_whole(path, b"of another process")

    monkeypatch.setattr(os, "fsync", another_writes)
    file.write_whole(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["trace.json"]


def test_what_cannot_be_written_is_a_sentence_and_keeps_what_there_was(tmp_path, monkeypatch, capsys):
    with pytest.raises(FileError, match="cannot be written: No such file or directory"):
        recorder(tmp_path / "nowhere" / "mine.json")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match=f"{SENTENCE}; what was there is kept"):
        recorder(tmp_path / "mine.json")
    with pytest.raises(SystemExit, match="2"):
        engine_main(["trace", "--seq", "128", "--out", str(tmp_path / "trace.json")])
    assert f"trace.json {SENTENCE}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    first = recorder(tmp_path / "mine.json")
    first.add("timings", ROWS[:2])
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(FileError, match=SENTENCE):
        first.add("timings", ROWS[2:3])
    first.close()
    assert os.listdir(tmp_path) == ["mine.json"]
    assert load(tmp_path / "mine.json").timings == ROWS[:2]


@pytest.mark.parametrize("section", ["variants", "sweep", "decoding", "fp8", "timelines", "samples"])
def test_a_section_has_the_calls_of_the_recordings_measured_once(section, tmp_path, monkeypatch):
    """On a GPU that finds nothing right: what is planned is asked for, kept, and not asked for again."""
    pytest.importorskip("torch")
    asked, planned = [], sections.plan(section)[:9]

    def measured(rows, *_, **__):
        asked.extend(rows)
        return [replace(row, skipped="not timed, because its result is wrong") for row in rows]

    monkeypatch.setattr(sections, "plan", lambda _: planned)
    monkeypatch.setattr(Recorder, "compile_ahead", lambda self, rows: set())
    monkeypatch.setattr(record.sections, "timed", measured)
    monkeypatch.setattr(record.sections, "traced_row", lambda row: measured([row])[0])
    monkeypatch.setattr(record.sampling, "library", lambda: None)
    monkeypatch.setattr(record.sampling, "sampled_row", lambda row: measured([row])[0])
    for budget in (0.0, 600.0, 600.0):
        mine = recorder(tmp_path / "mine.json", budget)
        record.RECORD[section](mine)
        mine.close()
        assert bool(asked) == bool(budget)
    assert [unmeasured(row) for row in getattr(mine.recording, section) if row.skipped] == asked
    assert {*map(identity, asked)} == {*map(identity, planned)}


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

"""A recording outlives whatever stops it: kill -9, a full disk, a second recorder; each is one sentence."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.__main__ import main as engine_main
from engine.measuring import record, scenarios
from engine.measuring import recorder as making
from engine.measuring.recorder import Recorder
from engine.recordings import file
from engine.recordings.file import FileError, load, recordings, refused, save
from engine.recordings.recording import unmeasured
from engine.recordings.timing import Decoding, Times
from tests.engine.test_recording import DEVICE

ROOT = Path(__file__).resolve().parents[2]
ROWS = recordings()[0].timings[:40]


def recorder(path: Path, **device) -> Recorder:
    return Recorder(path, replace(DEVICE, **device), 60.0, lambda line: None)


def full(*_):
    raise OSError(28, "No space left on device")


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


def test_two_recorders_do_not_write_one_file(tmp_path):
    first = recorder(tmp_path / "mine.json")
    with pytest.raises(FileError, match="is being recorded by another process"):
        recorder(tmp_path / "mine.json")
    first.add("timings", ROWS[:2])
    first.close()
    second = recorder(tmp_path / "mine.json")
    assert second.recording.timings == ROWS[:2]
    second.close()


def test_what_another_recorder_finishes_meanwhile_is_not_lost(tmp_path, monkeypatch):
    """It holds the file before it reads it: else what comes in between is overwritten by what was there."""
    path = tmp_path / "mine.json"
    first = recorder(path)
    first.add("timings", ROWS[:2])
    first.close()
    held = []

    def loaded(path: Path):
        with pytest.raises(FileError, match="is being recorded by another process"):
            Recorder(path, DEVICE, 60.0)
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


def test_a_missing_folder_is_noticed_before_anything_is_measured(tmp_path):
    with pytest.raises(FileError, match="cannot be written: No such file or directory"):
        recorder(tmp_path / "nowhere" / "mine.json")


@pytest.mark.parametrize("moment", ["before", "while"])
def test_a_full_disk_is_a_sentence_and_keeps_what_there_was(tmp_path, monkeypatch, moment):
    sentence = "cannot be written: No space left on device; what was measured before is kept"
    if moment == "before":
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(FileError, match=sentence):
            recorder(tmp_path / "mine.json")
        assert not list(tmp_path.iterdir())
        return
    first = recorder(tmp_path / "mine.json")
    first.add("timings", ROWS[:2])
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(FileError, match=sentence):
        first.add("timings", ROWS[2:3])
    first.close()
    assert os.listdir(tmp_path) == ["mine.json"]
    monkeypatch.undo()
    rest = recorder(tmp_path / "mine.json")
    assert rest.recording.timings == ROWS[:2]
    rest.close()


def test_a_trace_is_written_whole_or_not_at_all(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(file.os, "fsync", full)
    with pytest.raises(SystemExit, match="2"):
        engine_main(["trace", "--seq", "128", "--out", str(tmp_path / "trace.json")])
    assert "which cannot be written: No space left on device" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("section", ["variants", "sweep", "decoding", "fp8", "timelines", "samples"])
def test_a_section_has_the_calls_of_the_recordings_measured_once(section, tmp_path, monkeypatch):
    """On a GPU that finds nothing right: what is planned is asked for, kept, and not asked for again."""
    pytest.importorskip("torch")
    asked, planned, several = [], scenarios.plan(section)[:9], scenarios.together

    def measured(rows, *_, **__):
        asked.extend(rows)
        return [replace(row, skipped="not timed, because its result is wrong") for row in rows]

    def decoded(problem, cuda):
        copy = Decoding("copy", "copy", problem, times=Times(1e-6, 2e-6, 3e-6, 5), bytes_per_second=1e12)
        return [*measured(record.sections.planned_decoding(problem)), copy]

    monkeypatch.setattr(scenarios, "plan", lambda _: planned)
    monkeypatch.setattr(scenarios, "together", lambda *given: [rows[:9] for rows in several(*given)])
    monkeypatch.setattr(Recorder, "compile_ahead", lambda self, rows: list(rows))
    monkeypatch.setattr(record.sections, "own_blocks", lambda problem: (16, 128))
    monkeypatch.setattr(record.sections, "timed_decoding", decoded)
    monkeypatch.setattr(record.sections, "timed_sweep", measured)
    monkeypatch.setattr(record.sampling, "library", lambda: None)
    monkeypatch.setattr(record.sampling, "sampled_row", lambda row: measured([row])[0])
    for name, how in {"timed": measured, "measure": lambda row: measured([row])[0]}.items():
        if name in getattr(record.RECORD[section], "keywords", ()):
            monkeypatch.setitem(record.RECORD[section].keywords, name, how)
    for budget in (0.0, 600.0, 600.0):
        mine = Recorder(tmp_path / "mine.json", DEVICE, budget, lambda line: None)
        record.RECORD[section](mine)
        mine.close()
        assert bool(asked) == bool(budget)
    kept = [unmeasured(row) for row in getattr(mine.recording, section) if row.skipped]
    assert kept == asked
    if section != "decoding":  # whose peers are those that are here
        assert {*kept} == {*planned}


def test_a_link_that_leads_nowhere_is_a_sentence_and_the_others_are_shown(tmp_path):
    save(recordings()[0], tmp_path / "good.json")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere.json")
    assert len(recordings(tmp_path)) == 1
    assert refused(tmp_path) == ("gone.json cannot be read: No such file or directory",)

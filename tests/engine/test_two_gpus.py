"""Recordings of one GPU, merged by its name."""

from dataclasses import replace

import pytest

from engine.recordings.file import FileError, load, recording_of, save
from engine.recordings.merge import main, merged
from engine.recordings.recording import Recording

H200 = recording_of("h200")


def test_merged_are_all_rows_and_of_a_row_the_newest():
    first, second, *_ = H200.timings
    faster = replace(first, times=replace(first.times, p50=1e-6), commit=None)
    old = replace(H200, timings=(first, second), sweep=())
    newer = replace(H200.device, date="2030-01-01T00:00:00+00:00", commit="later")
    new = replace(H200, device=newer, timings=(faster,), decoding=())
    found = merged([new, old])
    assert found.device == newer
    assert [row.times.p50 for row in found.timings] == [1e-6, second.times.p50]
    assert [row.commit for row in found.timings] == ["later", second.commit or H200.device.commit]
    assert found.decoding == old.decoding or len(found.decoding) == len(old.decoding)
    assert len(found.sweep) == len(new.sweep)


def test_recordings_of_two_gpus_are_not_merged(tmp_path, capsys):
    with pytest.raises(FileError, match=r"^the recordings are of NVIDIA H.* they must be of one GPU$"):
        merged([H200, recording_of("h100")])
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in paths:
        save(Recording(H200.device, timings=H200.timings[:3]), path)
    assert main([*map(str, paths), "--out", str(tmp_path / "c.json")]) == 0
    assert "NVIDIA H200, 3 timings" in capsys.readouterr().out
    assert len(load(tmp_path / "c.json").timings) == 3
    assert main([str(paths[0]), "--out", str(tmp_path / "no" / "c.json")]) == 2

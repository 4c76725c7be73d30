"""Recordings: they round-trip, grow over several runs, outlive what stops them, and trust no file."""

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine.__main__ import main as engine_main
from engine.experiment import Experiment
from engine.measuring import record, sections, trial
from engine.measuring import recorder as making
from engine.measuring.implementations import implementations
from engine.measuring.record import main, record_timings
from engine.measuring.recorder import Recorder
from engine.problem.problem import Mask, Problem
from engine.recordings import file
from engine.recordings.file import (
    LARGEST_FILE,
    SHELF,
    FileError,
    dumps,
    load,
    loads,
    recordings,
    refused,
    save,
)
from engine.recordings.nearest import (
    all_heads,
    difference,
    differing,
    doublings,
    head_dim,
    length,
    masked,
    nearest,
    nearest_length,
    windowed,
)
from engine.recordings.recording import Counters, Device, KernelCounters, Recording, identity, unmeasured
from engine.recordings.timing import Decoding, TilingTiming, Times, Timing
from tests.engine.test_bench import TINY, bench_of

DEVICE = Device(
    "NVIDIA H200",
    "580.1",
    {"torch": "2.11.0"},
    {"clocks.sm": 1980.0},
    150 * 10**9,
    "abc",
    "2026-11-21T09:00:00",
)
PROBLEM = Problem(4, 16, 16, 4096, 4096, 128, "float16", Mask(causal=True))
TIMES = Times(0.001, 0.0012, 0.002, 9)
KERNEL = KernelCounters("flash2_kernel", "512 x 1 x 1", 3.1e-4, 5e7, 8e6, 1e9, 1.7e7, l2_hit_percent=97.5)


def timing(seq: int, provider: str = "flash2", **values) -> Timing:
    given = {"times": TIMES, **values}
    return Timing(provider, provider, "forward", replace(PROBLEM, seq_q=seq, seq_kv=seq), **given)


@pytest.fixture
def recording():
    return Recording(
        DEVICE,
        timings=(
            timing(4096, alone=replace(TIMES, p50=0.0011)),
            timing(1024),
            timing(8192, times=None, skipped="out of memory: needs 137 GB"),
        ),
        sweep=(
            TilingTiming("flash2", PROBLEM, 64, 64, 4, 2, TIMES),
            TilingTiming("flash2", PROBLEM, 64, 64, 8, 2, replace(TIMES, p50=0.00115)),
            TilingTiming("flash2", PROBLEM, 128, 64, 4, 2, skipped="out of shared memory: 288 KB of 227 KB"),
        ),
        decoding=(Decoding("split_kv", "split", replace(PROBLEM, seq_q=1), 8, TIMES, 3e12, None, 16, 128),),
        counters=(Counters("flash2", "forward", PROBLEM, 128, 64, kernels=(KERNEL, KERNEL)),),
    )


def test_a_recording_round_trips(recording, tmp_path):
    save(recording, tmp_path / "one.json")
    assert load(tmp_path / "one.json") == recording


def test_rates_that_an_earlier_file_says_are_not_looked_at(recording):
    """A file cannot contradict its times."""
    assert "tflops" not in dumps(recording)
    rates = {"timings": (-1, None, 1e30), "sweep": ("fast",), "fp8": ()}
    content = json.loads(dumps(recording))
    for section, said in rates.items():
        for row, rate in zip(content[section], said, strict=False):
            row["tflops"] = rate
    assert loads(json.dumps(content).encode()) == recording
    row = recording.timings[0]
    assert row.tflops == pytest.approx(4 * 4 * 16 * 4096**2 * 128 / 2 / 1.2e-3 / 1e12)
    assert replace(row, direction="backward").tflops == pytest.approx(2.5 * row.tflops)
    assert recording.timings[2].tflops is None


def test_counters_add_up_over_kernels(recording):
    row = recording.counters[0]
    assert row.total("dram_read") == 1e8
    assert np.isnan(row.total("l2_bytes"))


def spoiled(text: str, change) -> bytes:
    content = json.loads(text)
    change(content)
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: c.update(version=2), "f is a recording of version 2; this program reads version 1"),
        (lambda c: c.update(format="x"), "f is not a recording of attention"),
        (lambda c: c.pop("device"), "f is damaged: the recording lacks device"),
        (
            lambda c: c.update(more=1),
            "f is damaged: the recording has 'more', which this version does not know",
        ),
        (lambda c: c.update(timings={}), "f is damaged: timings of the recording must be a list"),
        (lambda c: c["timings"][0]["times"].update(p20=0.5), "percentiles that are not positive and rising"),
        (lambda c: c["timings"][0]["times"].update(repeats=True), "must be a whole number"),
        (lambda c: c["timings"][0]["problem"]["mask"].update(documents=None), "must be a whole number"),
        (lambda c: c["timings"][0].update(error=-1), "must be from 0 to"),
        (lambda c: c["timings"][0].pop("times"), "must have either times or the reason why it has none"),
        (lambda c: c["decoding"][0].pop("bytes_per_second"), "must have bytes per second where it has times"),
        (lambda c: c["timings"][0]["problem"].update(heads=0), "is not a problem: heads is 0; it must be"),
        (lambda c: c["decoding"][0].update(block_kv=100), "has blocks that cannot be: block_kv is 100; it"),
        (lambda c: c["device"].update(gpu="a\nb"), "must be one line of at most"),
        (lambda c: c["device"].update(gpu="a" * 601), "must be one line of at most"),
        (lambda c: c["counters"][0].update(kernels=[]), "must have either kernels or the reason"),
        (lambda c: c["device"].update(gpu="![x][1]"), "must hold no link, picture"),
        (lambda c: c["device"].update(driver="<img src=x>"), "must hold no link, picture"),
        (lambda c: c["device"].update(versions={"see www.a.b": "1"}), "must hold no link, picture"),
        (lambda c: c["timings"][0].update(label="at HTTPS://a.b"), "must hold no link, picture"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(recording, change, sentence):
    with pytest.raises(FileError) as caught:
        loads(spoiled(dumps(recording), change), "f")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "f is damaged: it is not JSON"),
        (b"[" * 100_000, "f is damaged: it is not JSON"),
        (b'{"a": NaN}', "f is damaged: it is not JSON"),
        (b"\xff\xfe", "f is damaged: it is not JSON"),
        (b"[]", "f is not a recording of attention"),
        (bytes(LARGEST_FILE + 1), "f is larger than 16 MB"),
    ],
)
def test_what_is_no_recording_is_refused_in_a_sentence(data, sentence):
    with pytest.raises(FileError) as caught:
        loads(data, "f")
    assert str(caught.value) == sentence


def test_a_shelf_shows_what_can_be_read_newest_first(recording, tmp_path):
    newer = replace(recording, device=replace(DEVICE, date="2026-12-01T00:00:00"))
    save(recording, tmp_path / "a.json")
    save(newer, tmp_path / "b.json")
    (tmp_path / "c.json").write_text("{")
    assert recordings(tmp_path) == (newer, recording)
    assert refused(tmp_path) == ("c.json is damaged: it is not JSON",)


def test_every_recording_of_the_project_can_be_read():
    assert refused(SHELF) == ()


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
    first = Recorder(path, DEVICE, budget=0.0, say=lambda line: None)
    record_timings(first, quick, lengths=(32,), head_dims=(16,))
    assert not first.recording.timings
    first.close()
    half = Recorder(path, DEVICE, 3600.0, lambda line: None)
    record_timings(half, quick, lengths=(32,), head_dims=(16,))
    half.close()
    said = []
    rest = Recorder(path, DEVICE, 3600.0, said.append)
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
def test_what_was_recorded_otherwise_does_not_add_to_a_recording(tmp_path, recording, changed, said):
    save(recording, tmp_path / "h200.json")
    with pytest.raises(FileError, match=f"was recorded {said}: name another file"):
        Recorder(tmp_path / "h200.json", replace(DEVICE, **changed), 1.0)


def test_a_sweep_keeps_failures_as_results(monkeypatch):
    pytest.importorskip("torch")

    def launched(config, prepare, q, k, v, problem):
        def call():
            if config.block_q > 16:
                raise RuntimeError(
                    "flash2 with 256 x 256 blocks at head_dim 128 needs 294912 bytes of shared memory a"
                    " block, this GPU has 232448: choose smaller blocks"
                )
            from torch.nn.functional import scaled_dot_product_attention

            return scaled_dot_product_attention(q, k, v, is_causal=True)

        return call

    monkeypatch.setattr(sections, "_launched", launched)
    wanted = [TilingTiming("flash2", TINY, rows, 16, 4, 1) for rows in (16, 32)]
    rows = {row.block_q: row for row in sections.timed(wanted, record.SWEPT, cuda=False)}
    assert rows[16].times is not None
    assert rows[32].skipped == "out of shared memory: 288 KB of 227 KB"
    assert {identity(row) for row in rows.values()} == {identity(one) for one in wanted}


def test_the_command_line_needs_a_gpu_and_known_sections(tmp_path, capsys, monkeypatch):
    out = ["--out", str(tmp_path / "x.json")]
    assert main([*out, "--only", "weather"]) == 2
    assert capsys.readouterr().err.startswith("only is 'weather'; it must be some of timings,")
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(out) == 2
    assert "only a GPU is recorded" in capsys.readouterr().err


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
        "from tests.engine.test_recording import DEVICE, ROWS\n"
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
        mine = Recorder(tmp_path / "mine.json", DEVICE, budget, lambda line: None)
        record.RECORD[section](mine)
        mine.close()
        assert bool(asked) == bool(budget)
    assert [unmeasured(row) for row in getattr(mine.recording, section) if row.skipped] == asked
    assert {*map(identity, asked)} == {*map(identity, planned)}


def test_a_link_that_leads_nowhere_is_a_sentence_and_the_others_are_shown(tmp_path):
    save(recordings()[0], tmp_path / "good.json")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere.json")
    assert len(recordings(tmp_path)) == 1
    assert refused(tmp_path) == ("gone.json cannot be read: No such file or directory",)


def row(seq: int = 1024, heads: int = 16, head_dim: int = 64, **mask) -> SimpleNamespace:
    return SimpleNamespace(problem=Problem(1, heads, heads, seq, seq, head_dim, mask=Mask(**mask)))


THREE = [row(causal=True), row(4096), row(1024, head_dim=128)]
NEAREST = [  # rows, criteria, which is nearest to 1,024 keys of 16 heads at head dim 64 without a mask
    (THREE, (differing(masked), difference(head_dim), doublings(length)), 1),
    (THREE, (differing(masked), doublings(length), difference(head_dim)), 2),
    (THREE, (difference(head_dim), doublings(length)), 0),
    ([row(window=9), row(2**17, causal=True)], (differing(masked, windowed), doublings(length)), 1),
    ([row(4096, heads=64), row(256), row(heads=2)], (doublings(length, all_heads),), 1),
    ([row(2048), row(512)], (doublings(length),), 0),
]


@pytest.mark.parametrize(("rows", "criteria", "at"), NEAREST)
def test_criteria_decide_in_their_order_and_of_equals_the_first_is_taken(rows, criteria, at):
    assert nearest(rows, Experiment.of(seq=1024, heads=16), *criteria) is rows[at]
    assert nearest([], Experiment.of(), *criteria) is None


def test_of_two_lengths_as_far_the_smaller():
    assert nearest_length([2048, 512], 1024) == 512
    assert nearest_length([], 1024) is None

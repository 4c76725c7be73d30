"""Recordings in and out of files: rows of every kind round-trip, merge, and are trusted no more."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.model.launch import HEAVY_FIRST, NATURAL
from engine.model.simulated_timeline import simulate_timeline
from engine.model.timeline import TimelineError
from engine.problem.problem import Mask, Problem
from engine.recordings.file import (
    LARGEST_FILE,
    SHELF,
    FileError,
    dumps,
    load,
    loads,
    recording_of,
    recordings,
    refused,
    save,
)
from engine.recordings.merge import main, merged
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
from engine.recordings.recording import Counters, Device, KernelCounters, Recording, identity
from engine.recordings.samples import Samples
from engine.recordings.timelines import hardware_of, recorded_timeline, timeline_of, timelines
from engine.recordings.timing import (
    INPUTS,
    NUMBERS,
    Decoding,
    Fp8Timing,
    TilingTiming,
    Times,
    Timing,
    VariantTiming,
)
from tests.engine.worker_jobs import traced

VERSIONS, CLOCKS = {"torch": "2.11.0"}, {"clocks.sm": 1980.0}
DEVICE = Device("NVIDIA H200", "580.1", VERSIONS, CLOCKS, 150 * 10**9, "abc", "2026-11-21T09:00:00")
PROBLEM = Problem(4, 16, 16, 4096, 4096, 128, "float16", Mask(causal=True))
TIMES = Times(0.001, 0.0012, 0.002, 9)
KERNEL = KernelCounters("flash2_kernel", "512 x 1 x 1", 3.1e-4, 5e7, 8e6, 1e9, 1.7e7, l2_hit_percent=97.5)
BYTES = {"read": (0, 9, 9, 0), "written": (0, 1, 1, 0), "sms": (0, 900, 0, 0)}
SAMPLED = Samples("flash2", Problem(), interval=1e-6, **BYTES)
H200 = recording_of("h200")
EXPERIMENT = Experiment.of(heads=9, seq=2048, head_dim=128, block_q=128, causal=True, hardware="h200")
TICK = 32  # nanoseconds
GONE = object()
LINK, BLOCKS = "must hold no link, picture", "timelines.0.kernels.0"


def timing(seq: int, provider: str = "flash2", **values) -> Timing:
    given = {"times": TIMES, **values}
    return Timing(provider, provider, "forward", replace(PROBLEM, seq_q=seq, seq_kv=seq), **given)


def eight_bits(numbers: str = "rotated", inputs: str = "normal", **others) -> Fp8Timing:
    given = {"times": TIMES, "relative_error": 0.02, **others}
    return Fp8Timing("fp8", "FP8", "forward", PROBLEM, numbers=numbers, inputs=inputs, **given)


@pytest.fixture(scope="module")
def recording():
    """Rows of every section that one GPU has."""
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
        timelines=(
            *(traced(EXPERIMENT, order, TICK) for order in (HEAVY_FIRST, NATURAL)),
            traced(EXPERIMENT.changed(algorithm="standard"), NATURAL, TICK),
        ),
        fp8=(eight_bits(inputs="outliers", commit="0"), eight_bits("tensor", times=None, skipped="no")),
        variants=(VariantTiming("flash2", "", "forward", PROBLEM, TIMES, prefix=9, term="sinks", v_dim=64),),
        samples=(SAMPLED,),
    )


@pytest.fixture(scope="module")
def written(recording) -> str:
    return dumps(recording)


def test_a_recording_round_trips(recording, tmp_path):
    save(recording, tmp_path / "one.json")
    assert load(tmp_path / "one.json") == recording


def test_rates_that_an_earlier_file_says_are_not_looked_at(recording, written):
    """A file cannot contradict its times."""
    assert "tflops" not in written
    content = json.loads(written)
    for section, said in {"timings": (-1, None, 1e30), "sweep": ("fast",), "fp8": ()}.items():
        for row, rate in zip(content[section], said, strict=False):
            row["tflops"] = rate
    assert loads(json.dumps(content).encode()) == recording
    row = recording.timings[0]
    assert row.tflops == pytest.approx(4 * 4 * 16 * 4096**2 * 128 / 2 / 1.2e-3 / 1e12)
    assert replace(row, direction="backward").tflops == pytest.approx(2.5 * row.tflops)
    assert recording.timings[2].tflops is None


def test_counters_and_samples_add_up(recording):
    (counted,), (sampled,) = recording.counters, recording.samples
    assert counted.total("dram_read") == 1e8
    assert np.isnan(counted.total("l2_bytes"))
    assert sampled.kernels == ((1, 2),)  # the stretches in which kernels ran
    assert (sampled.read_bytes, sampled.seconds) == (18 * 32, pytest.approx(4e-6))


def test_rows_differ_by_their_numbers_and_inputs():
    assert len({identity(eight_bits(numbers, inputs)) for numbers in NUMBERS for inputs in INPUTS}) == 8


DAMAGED = [  # where, what stands there then, and what is said
    ("version", 2, "f is a recording of version 2; this program reads version 1"),
    ("format", "x", "f is not a recording of attention"),
    ("device", GONE, "f is damaged: the recording lacks device"),
    ("more", 1, "f is damaged: the recording has 'more', which this version does not know"),
    ("timings", {}, "f is damaged: timings of the recording must be a list"),
    ("timings.0.times.p20", 0.5, "percentiles that are not positive and rising"),
    ("timings.0.times.repeats", True, "must be a whole number"),
    ("timings.0.problem.mask.documents", None, "must be a whole number"),
    ("timings.0.error", -1, "must be from 0 to"),
    ("timings.0.times", GONE, "must have either times or the reason why it has none"),
    ("timings.0.problem.heads", 0, "is not a problem: heads is 0; it must be"),
    ("timings.0.label", "at HTTPS://a.b", LINK),
    ("decoding.0.bytes_per_second", GONE, "must have bytes per second where it has times"),
    ("decoding.0.block_kv", 100, "has blocks that cannot be: block_kv is 100; it"),
    ("device.gpu", "a\nb", "must be one line of at most"),
    ("device.gpu", "a" * 601, "must be one line of at most"),
    ("device.gpu", "![x][1]", LINK),
    ("device.driver", "<img src=x>", LINK),
    ("device.versions", {"see www.a.b": "1"}, LINK),
    ("counters.0.kernels", [], "must have either kernels or the reason"),
    ("fp8.0.numbers", "e5m2", "must have numbers of float16, tensor, block, rotated"),
    ("fp8.0.inputs", "zeros", "and inputs of normal, outliers"),
    ("variants.0.term", "dropout", "it must be one of softcap, sinks, alibi"),
    ("samples.0.written", [1], "samples of at least 0, alike of each kind"),
    ("samples.0.read", [-1, 0, 0, 0], "samples of at least 0, alike of each kind"),
    ("samples.0.interval", 2.0, "samples of at least 0, alike of each kind"),
    ("samples.0.read", [], "samples of at least 0, alike of each kind"),
    (f"{BLOCKS}.sm", [0] * 145, "attention must have 144 blocks, each with SM"),
    (f"{BLOCKS}.sm.0", 132, "SMs must be from 0 to 131"),
    (f"{BLOCKS}.sm.0", 1.5, "must be whole numbers up to"),
    (f"{BLOCKS}.sm.0", 10**30, "must be whole numbers up to"),
    (f"{BLOCKS}.sm", "all", "must be a list"),
    (f"{BLOCKS}.length.0", -5, "none end before it starts"),
    (f"{BLOCKS}.length.0", 10**13, "at most 1,000,000,000,000 ticks"),
    (f"{BLOCKS}.start.0", 7, "first block must start at 0"),
    (f"{BLOCKS}.name", "scores", "the kernels of flash2 must be attention"),
    ("timelines.0.kernels", [], "must have either kernels or the reason"),
    ("timelines.0.times", GONE, "must have the times of the call without the trace"),
    ("timelines.0.provider", "magic", "must be of standard, flash1, flash2, flash3"),
    ("timelines.0.order", "sideways", "in the order heavy first or natural"),
    ("timelines.0.sms", 10**9, "must have 1 to 1,024 SMs"),
    ("timelines.0.tick", 0, "a tick of at most"),
    ("timelines.0.block_q", 100, "block_q is 100; it must be a power of two"),
    ("timelines.0.problem.batch", 4096, "at most 200,000 blocks"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value", "sentence"), DAMAGED)
def test_a_damaged_file_is_refused_with_the_place(written, place, value, sentence):
    content = json.loads(written)
    (*path, last), inside = (int(part) if part.isdigit() else part for part in place.split(".")), content
    for part in path:
        inside = inside[part]
    if value is GONE:
        del inside[last]
    else:
        inside[last] = value
    with pytest.raises(FileError) as caught:
        loads(json.dumps(content).encode(), "f")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    if 0 in path:
        assert f"{path[0]} of the recording 1" in str(caught.value)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        *((data, "f is damaged: it is not JSON") for data in (b"", b"[" * 10**5, b'{"a": NaN}', b"\xff\xfe")),
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
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere.json")
    assert recordings(tmp_path) == (newer, recording)
    assert refused(tmp_path) == (
        "c.json is damaged: it is not JSON",
        "gone.json cannot be read: No such file or directory",
    )
    assert refused(SHELF) == ()  # the project's own


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2", "flash3"])
def test_a_row_holds_a_whole_timeline(algorithm):
    experiment = EXPERIMENT.changed(algorithm=algorithm)
    ours = simulate_timeline(experiment, NATURAL)
    back = timeline_of(traced(experiment, NATURAL, TICK), "recorded on a GPU", "h200")
    for name in ("kernel", "sm", "head", "query_block", "key_block"):
        np.testing.assert_array_equal(getattr(back, name), getattr(ours, name))
    for name in ("start", "end"):
        np.testing.assert_allclose(getattr(back, name), getattr(ours, name), atol=TICK * 1e-9)
    assert (back.kernels, back.origin) == (ours.kernels, "recorded on a GPU")


def test_the_recorded_call_is_found_or_the_nearest_is_named(recording):
    found = recorded_timeline([recording], EXPERIMENT)
    assert (found.order, found.origin) == (HEAVY_FIRST, "recorded on NVIDIA H200, 2026-11-21")
    assert recorded_timeline([recording], EXPERIMENT, NATURAL).order == NATURAL
    for other, said in (
        ({"seq": 4096}, "not among the 3 recorded timelines; the nearest is flash2, N 2,048"),
        ({"hardware": "t4"}, "no timeline is recorded on a T4"),
    ):
        with pytest.raises(TimelineError, match=said):
            recorded_timeline([recording], EXPERIMENT.changed(**other))


def test_a_gpu_without_a_preset_stands_for_itself(recording):
    unknown = replace(recording, device=replace(DEVICE, gpu="Quadro P400"))
    assert hardware_of(unknown) == Experiment().hardware
    assert [one.order for one in timelines(unknown)] == [HEAVY_FIRST, NATURAL, NATURAL]
    assert timelines(unknown)[0].sms == 132


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
    assert [len(found.decoding), len(found.sweep)] == [len(old.decoding), len(new.sweep)]


def test_recordings_of_two_gpus_are_not_merged(tmp_path, capsys):
    with pytest.raises(FileError, match=r"^the recordings are of NVIDIA H.* they must be of one GPU$"):
        merged([H200, recording_of("h100")])
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in paths:
        save(Recording(H200.device, timings=H200.timings[:3]), path)
    assert main([*map(str, paths), "--out", str(tmp_path / "c.json")]) == 0
    assert "NVIDIA H200, 3 timings" in capsys.readouterr().out
    assert len(load(tmp_path / "c.json").timings) == 3
    with pytest.raises(SystemExit, match="2"):
        main([str(paths[0]), "--out", str(tmp_path / "no" / "c.json")])


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

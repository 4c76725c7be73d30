"""Recordings beside the model: the same problem simulated, and curves that say who is ahead from where on."""

from dataclasses import replace

import pytest

from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.problem.problem import Mask, Problem
from engine.recordings.file import recording_of, recordings
from engine.recordings.recording import Recording
from engine.recordings.rows import (
    modelled_backward,
    modelled_timings,
    nearest_shape,
    recorded_rows,
    timings_of,
)
from engine.recordings.timing import Times, Timing
from tests.engine.test_recording import DEVICE

PROBLEM = Problem(2, 8, 8, 1024, 1024, 128, "float16", Mask(causal=True))


def timing(provider: str, seq: int, seconds: float | None, **problem) -> Timing:
    problem = replace(PROBLEM, seq_q=seq, seq_kv=seq, **problem)
    if seconds is None:
        return Timing(provider, provider, "forward", problem, skipped="out of memory")
    times = Times(seconds, seconds, seconds, 5)
    return Timing(provider, provider, "forward", problem, times)


def test_speed_up():
    timings = [timing("eager", 128, 4.0), timing("eager", 256, None), timing("eager", 512, None)]
    timings += [timing("flash2", 128, 1.0), timing("flash2", 256, 1.0)]
    assert [row["speedup"] for row in recorded_rows(timings)] == [1.0, 4.0, None]


def test_the_nearest_shape_has_the_mask_first():
    shapes = [(64, False), (128, False), (256, True)]
    rows = tuple(timing("eager", 128, 1.0, head_dim=d, mask=Mask(causal)) for d, causal in shapes)
    recording = Recording(DEVICE, timings=rows)
    assert nearest_shape(recording, Experiment.of(head_dim=100)) == (128, False)
    assert nearest_shape(recording, Experiment.of(head_dim=64, window=9)) == (256, True)
    assert nearest_shape(Recording(DEVICE), Experiment.of()) is None
    assert timings_of(recording, 64, False) == rows[:1]


def test_the_model_beside_a_curve_is_of_the_recorded_problem():
    rows = modelled_timings((timing("flash2", 1024, 1.0), timing("eager", 1024, 1.0)), "h200")
    assert [row["provider"] for row in rows] == ["standard", "flash1", "flash2", "flash3"]
    like = Experiment.of(
        batch=2, heads=8, seq=1024, head_dim=128, causal=True, block_q=128, block_kv=64, hardware="h200"
    ).in_own_tiling()
    assert (like.tiling.block_q, like.tiling.block_kv) == (64, 64)  # what the kernel takes up to 1024 keys
    assert rows[2]["p50"] == simulate(like).modelled.seconds


def test_a_backward_pass_counts_two_and_a_half_times_the_forward_passes_flops():
    """By the field's convention 10 N N d a head, halved when causal, in files and in the model alike."""
    rows = [row for each in recordings() for row in each.timings if row.direction == "backward" and row.times]
    assert len(rows) > 100
    for row in rows:
        p = row.problem
        flops = 10 * p.batch * p.heads * p.seq_q * p.seq_kv * p.head_dim / (2 if p.mask.causal else 1)
        assert row.tflops * 1e12 * row.times.p50 == pytest.approx(flops)
    own = [row for row in rows if row.provider == "flash2"][:1]
    (modelled,) = modelled_backward(own, "h200")
    p = own[0].problem
    flops = 10 * p.batch * p.heads * p.seq_q**2 * p.head_dim / (2 if p.mask.causal else 1)
    assert modelled["tflops"] * 1e12 * modelled["p50"] == pytest.approx(flops)


@pytest.mark.parametrize("hardware", ["h200", "h100"])
@pytest.mark.parametrize(("direction", "over"), [("forward", "eager"), ("backward", "sdpa_flash")])
def test_speed_ups_are_over_unfused_attention_or_pytorchs_flash_backend(hardware, direction, over):
    """No unfused backward pass is recorded: without a stand-in nothing would be drawn."""
    timings = timings_of(recording_of(hardware), 128, False, direction)
    seconds = {(row.provider, row.problem.seq_kv): row.times.p50 for row in timings if row.times}
    rows = recorded_rows(timings)
    assert len([row for row in rows if row["speedup"]]) > 30
    for row in rows:
        base = seconds.get((over, row["keys"]))
        expected = base and pytest.approx(base / seconds[row["provider"], row["keys"]])
        assert row["speedup"] == expected

"""How many times fewer bytes and how much less time, against closed forms and the recording's own rows."""

from __future__ import annotations

import pytest

from engine import Experiment
from engine.recordings.file import recordings
from engine.studies.gains import (
    fused_of,
    gain_at,
    modelled_gain,
    modelled_gains,
    products_share,
    recorded_gains,
)


@pytest.mark.parametrize("keys", [256, 1024, 4096])
def test_bytes_are_those_of_the_papers_formulas(keys):
    """4 N^2 + 4 N d elements against 4 N d and N of lse, where K and V of a head stay in L2."""
    gain = gain_at(modelled_gains(Experiment.of()), keys)
    fewer = 2 * (4 * keys**2 + 4 * keys * 64) / (2 * 4 * keys * 64 + 4 * keys)
    assert gain.bytes == pytest.approx(fewer, rel=5e-3)


def test_the_recorded_ratios_are_those_of_the_rows():
    """49.248 and 17.472 us under the profiler; 14.78 is the ratio of what dram__bytes counted."""
    recording = recordings()[0]
    gain = gain_at(recorded_gains(recording, Experiment.of()), 1024)
    assert gain.seconds == pytest.approx(49.248 / 17.472, rel=1e-6)
    moved = {
        row.provider: row.total("dram_read") + row.total("dram_written")
        for row in recording.counters
        if (row.problem, row.block_q, row.block_kv) == (Experiment.of().problem, 64, 64)
        and row.provider in ("standard", "flash2")
    }
    assert gain.bytes == pytest.approx(moved["standard"] / moved["flash2"], rel=1e-9)
    assert gain.bytes == pytest.approx(14.776, rel=1e-3)


def test_a_fused_kernel_computes_the_products_of_the_tiles_that_a_mask_leaves():
    """136 of 16 × 16 tiles; without a mask a fused kernel computes all, as unfused attention always does."""
    assert products_share(Experiment.of()) == 1
    assert products_share(Experiment.of(algorithm="standard", causal=True)) == 136 / 256


def test_nothing_is_recorded_of_another_problem_gpu_or_tiling():
    recording = recordings()[0]
    for values in ({"heads": 5}, {"head_dim": 32}, {"hardware": "a100"}, {"block_q": 16}, {"causal": True}):
        assert gain_at(recorded_gains(recording, Experiment.of(**values)), 1024) is None


def test_unfused_attention_is_held_against_flash2_and_any_length_has_a_gain():
    unfused = Experiment.of(algorithm="standard", seq=1000)
    assert fused_of(unfused).algorithm == "flash2"
    assert gain_at(modelled_gains(unfused), 1000) is None
    assert modelled_gain(unfused).keys == 1000
    assert modelled_gain(unfused) == modelled_gain(Experiment.of(seq=1000))

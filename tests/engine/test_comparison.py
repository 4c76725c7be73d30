"""Measured beside modelled: speed-ups over the right baseline, fewer bytes, and machines told apart."""

import pytest

from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.problem.hardware import GPUS, same_machine
from engine.recordings.file import recordings
from engine.studies.comparison import measured_rows, modelled_rows
from engine.studies.gains import (
    fused_of,
    gain_at,
    modelled_gain,
    modelled_gains,
    products_share,
    recorded_gains,
)
from engine.studies.survey import by_length


def row(provider, keys, seconds, skipped=None):
    return {"provider": provider, "label": provider, "keys": keys, "p50": seconds, "skipped": skipped}


def test_speed_up_is_over_unfused_pytorch_at_the_same_length_and_skipped_rows_have_none():
    skipped = row("eager", 128, None, "out of memory")
    rows = measured_rows([row("eager", 64, 2.0), row("flash2", 64, 0.5), skipped, row("flash2", 128, 1.0)])
    assert [r["speedup"] for r in rows] == [1.0, 4.0, None]


def test_modelled_rows_are_the_simulation():
    experiment = Experiment.of(seq=256, heads=2)
    rows = modelled_rows(by_length(experiment))
    own = next(r for r in rows if r["provider"] == "flash2" and r["keys"] == 256)
    assert own["p50"] == simulate(experiment).modelled.seconds
    assert own["tokens_per_second"] == pytest.approx(256 / own["p50"])


def test_a_gpu_is_known_by_its_name():
    measured = {"device": "NVIDIA A100-SXM4-80GB", "cuda": True}
    assert [name for name, gpu in GPUS.items() if same_machine(gpu, measured)] == ["a100"]
    assert not same_machine(GPUS["a100"], {**measured, "cuda": False})


def test_flop_per_dram_byte_are_of_what_crosses_hbm_once_where_all_fits_the_cache():
    """4 N N d FLOPs; fused 4 N d numbers of 2 B and lse, N of 4 B; unfused S and P twice as well."""
    n, d = 1024, 64
    flops, once = 4 * n * n * d, 4 * n * d * 2
    rows = modelled_rows(by_length(Experiment.of(heads=1, head_dim=d, hardware="h200")))
    of = {row["provider"]: row["HBM"] for row in rows if row["keys"] == n}
    assert of["flash2"] == pytest.approx(flops / (once + 4 * n))
    assert of["standard"] == pytest.approx(flops / (once + 4 * n * n * 2))


def test_the_recorded_ratios_are_those_of_the_rows():
    """49.248 and 17.536 us under the profiler; 14.78 is the ratio of what dram__bytes counted."""
    recording = recordings()[0]
    gain = gain_at(recorded_gains(recording, Experiment.of()), 1024)
    assert gain.seconds == pytest.approx(49.248 / 17.536, rel=1e-6)
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

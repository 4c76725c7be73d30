"""Measured beside modelled: speed-ups over the right baseline, and machines told apart."""

from __future__ import annotations

import pytest

from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.problem.hardware import GPUS, same_machine
from engine.studies.comparison import intensity, measured_rows, modelled_rows, pairs
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


def test_only_the_projects_kernels_have_a_model():
    experiment = Experiment.of(seq=256, heads=2)
    found = pairs(experiment, [row("eager", 64, 1.0), row("flash1", 256, 1.0)])
    assert [call.modelled for call in found] == [
        simulate(experiment.changed(algorithm="flash1")).modelled.seconds
    ]


def test_a_gpu_is_known_by_its_name():
    measured = {"device": "NVIDIA A100-SXM4-80GB", "cuda": True}
    assert [name for name, gpu in GPUS.items() if same_machine(gpu, measured)] == ["a100"]
    assert not same_machine(GPUS["a100"], {**measured, "cuda": False})


def test_flop_per_dram_byte_are_of_what_crosses_hbm_once_where_all_fits_the_cache():
    """4 N N d FLOPs; fused 4 N d numbers of 2 B and lse, N of 4 B; unfused S and P twice as well."""
    n, d = 1024, 64
    flops, rows = 4 * n * n * d, 4 * n * d * 2
    experiment = Experiment.of(heads=1, seq=n, head_dim=d, hardware="h200")
    assert intensity(experiment, "flash2", n) == pytest.approx(flops / (rows + 4 * n))
    for provider in ("eager", "standard"):
        assert intensity(experiment, provider, n) == pytest.approx(flops / (rows + 4 * n * n * 2))
    assert intensity(experiment, "sdpa_cudnn", n) == intensity(experiment, "flash2", n)

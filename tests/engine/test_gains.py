"""Lengths side by side: what a fused kernel gains there, in bytes and time, and attention in a layer."""

from itertools import pairwise
from math import ceil

import pytest

from engine import Experiment, simulate
from engine.layers.config import shipped
from engine.parameter import LARGEST_SEQUENCE
from engine.problem.hardware import GPUS, same_machine
from engine.recordings.file import recordings
from engine.studies.gains import (
    bytes_less,
    fused_of,
    gain_at,
    modelled_gain,
    modelled_gains,
    places,
    products_share,
    reasons,
    recorded_gains,
)
from engine.studies.survey import (
    by_length,
    cuts,
    grown,
    growth,
    measured_rows,
    modelled_rows,
    rows_that_fit,
    tile_bytes,
)
from engine.studies.your_model import PROMPTS, TAUGHT, layer_time, taught

SIZES = tuple(1024 * size for size in (8, 16, 32, 64, 99, 163, 227))  # bytes a thread block may have
FOUR_HEADS = Experiment.of(seq=16384, head_dim=128, heads=4)
MATRICES = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336  # Llama 3 8B: q and o, k and v, the MLP
PEAK = 989.5e12  # FLOP/s of an H200 in 16 bits, by its data sheet


@pytest.mark.parametrize("sequence", [{"seq": 96}, {"seq": 4096}, {"seq": 64, "seq_kv": 4096}])
def test_a_survey_is_the_same_experiment_at_every_length(sequence):
    experiment = Experiment.of(**sequence, heads=2, block_q=256, block_kv=256, causal=True)
    survey, share = by_length(experiment), experiment.problem.seq_q / experiment.problem.seq_kv
    assert (survey.lengths[0], survey.lengths[-1]) == (64, LARGEST_SEQUENCE)
    longer = experiment.changed(seq=2 * experiment.problem.seq_q, seq_kv=2 * experiment.problem.seq_kv)
    assert (by_length(longer) is survey) == (share == 1)  # equal lengths share one
    for name, simulations in survey.simulations.items():
        for keys, simulation in zip(survey.lengths, simulations, strict=True):
            queries = max(1, round(keys * share))
            assert simulation == simulate(experiment.changed(algorithm=name, seq=queries, seq_kv=keys))


def test_the_matrices_fill_the_memory_at_the_length_at_which_it_ends():
    """S and P are 2 * 16 heads * N^2 * 2 B: 64 N^2; Q, K, V and O beside them 16 heads * 4 N d * 2 B."""
    now = growth(Experiment.of())
    assert now.matrices == 64 * 1024**2
    assert now.tensors == pytest.approx(16 * 1024 * 4 * 64 * 2, rel=0.01)
    assert now.longest["unfused"] == pytest.approx((now.capacity / 64) ** 0.5, rel=0.01)
    last, over = (growth(Experiment.of(seq=now.longest["unfused"] + more)) for more in (0, 1))
    assert last.matrices + last.tensors <= last.capacity < over.matrices + over.tensors


@pytest.mark.parametrize("size", SIZES)
def test_tiles_ask_for_q_once_and_for_k_and_v_once_per_query_block(size):
    rows = size // (4 * 128 * 2)  # tiles of Q, K, V and O, of float16
    assert rows_that_fit(FOUR_HEADS.problem, size) == rows
    keys = 2 * 16384 * 128 * 2 * ceil(16384 / rows)
    assert tile_bytes(FOUR_HEADS, size) == 2 * 16384 * 128 * 2 + keys + 4 * 16384  # Q, O and lse beside


def test_the_square_grows_with_the_square_of_the_length_and_outgrows_the_chip():
    squares = grown(Experiment.of(head_dim=128, hardware="h200"))
    assert all(at[1:4] == (at[0] ** 2, 2 * at[0] ** 2, 8 * at[0]) for at in squares)
    assert [fits for *_, fits in squares] == ["one SM"] * 4 + ["L2"] * 2 + ["HBM"]  # 233 kB, 60 MB, 150 GB


def test_twice_the_memory_is_half_the_blocks_and_half_the_bytes():
    for less, more in pairwise(cuts(FOUR_HEADS)):
        assert more[:2] == pytest.approx([2 * each for each in less[:2]], abs=1)  # memory, and queries
        assert less[2] == ceil(1024 / less[1])
        assert more[3] == pytest.approx(less[3] / 2, rel=0.02)


def row(provider, keys, seconds, skipped=None):
    return {"provider": provider, "label": provider, "keys": keys, "p50": seconds, "skipped": skipped}


def test_speed_up_is_over_unfused_pytorch_at_the_same_length_and_skipped_rows_have_none():
    skipped = row("eager", 128, None, "out of memory")
    rows = measured_rows([row("eager", 64, 2.0), row("flash2", 64, 0.5), skipped, row("flash2", 128, 1.0)])
    assert [r["speedup"] for r in rows] == [1.0, 4.0, None]


def test_a_gpu_is_known_by_its_name():
    measured = {"device": "NVIDIA A100-SXM4-80GB", "cuda": True}
    assert [name for name, gpu in GPUS.items() if same_machine(gpu, measured)] == ["a100"]
    assert not same_machine(GPUS["a100"], {**measured, "cuda": False})


def test_flop_per_dram_byte_are_of_what_crosses_hbm_once_where_all_fits_the_cache():
    """4 N N d FLOPs; fused 4 N d numbers of 2 B and lse, N of 4 B; unfused S and P twice as well."""
    n, d = 1024, 64
    flops, once = 4 * n * n * d, 4 * n * d * 2
    experiment = Experiment.of(heads=1, head_dim=d)
    of = {row["provider"]: row for row in modelled_rows(by_length(experiment)) if row["keys"] == n}
    assert of["flash2"]["HBM"] == pytest.approx(flops / (once + 4 * n))
    assert of["standard"]["HBM"] == pytest.approx(flops / (once + 4 * n * n * 2))
    assert of["flash2"]["p50"] == simulate(experiment.changed(seq=n, seq_kv=n)).modelled.seconds
    assert of["flash2"]["tokens_per_second"] == pytest.approx(n / of["flash2"]["p50"])


def test_the_recorded_ratios_are_those_of_the_rows_of_this_very_problem():
    """50.784 and 17.536 us under the profiler; 14.75 is the ratio of what dram__bytes counted."""
    recording = recordings()[0]
    gain = gain_at(recorded_gains(recording, Experiment.of()), 1024)
    assert gain.seconds == pytest.approx(50.784 / 17.536, rel=1e-6)
    own = Experiment.of().problem, 64, 64
    rows = [row for row in recording.counters if (row.problem, row.block_q, row.block_kv) == own]
    moved = {row.provider: row.total("dram_read") + row.total("dram_written") for row in rows}
    assert gain.bytes == pytest.approx(moved["standard"] / moved["flash2"], rel=1e-9)
    assert gain.bytes == pytest.approx(14.747, rel=1e-3)
    for values in ({"heads": 5}, {"head_dim": 32}, {"hardware": "a100"}, {"block_q": 16}, {"causal": True}):
        assert gain_at(recorded_gains(recording, Experiment.of(**values)), 1024) is None


def test_a_fused_kernel_computes_the_products_of_the_tiles_that_a_mask_leaves():
    """136 of 16 × 16 tiles; without a mask a fused kernel computes all, as unfused attention always does."""
    assert products_share(Experiment.of()) == 1
    assert products_share(Experiment.of(algorithm="standard", causal=True)) == 136 / 256


def test_unfused_attention_is_held_against_flash2_and_any_length_has_a_gain():
    unfused = Experiment.of(algorithm="standard", seq=1000)
    assert fused_of(unfused).algorithm == "flash2"
    assert gain_at(modelled_gains(unfused), 1000) is None
    assert modelled_gain(unfused).keys == 1000
    assert modelled_gain(unfused) == modelled_gain(Experiment.of(seq=1000))


@pytest.mark.parametrize("algorithm", ["flash1", "flash2", "flash3"])
@pytest.mark.parametrize("values", [{"seq": 512}, {"seq": 4096, "heads": 16, "batch": 4, "causal": True}])
def test_the_steps_join_and_end_at_the_modelled_time(algorithm, values):
    experiment = Experiment.of(algorithm=algorithm, head_dim=128, **values)
    standard, *steps = reasons(experiment)
    assert standard[2] == simulate(experiment.changed(algorithm="standard")).modelled.seconds
    assert all(one[2] == after[1] for one, after in pairwise(steps))
    assert all(start <= end for _, start, end in steps)
    assert steps[-1][2] == simulate(experiment).modelled.seconds


def test_the_point_walks_from_the_memory_roof_to_below_the_roof_of_the_products():
    """Bytes alone and products take what the rates of the chip say."""
    experiment = Experiment.of(seq=4096, heads=16, batch=4, head_dim=128, block_q=128, hardware="h200")
    (_, _, moved), (_, _, multiplied), *_ = reasons(experiment)[1:]
    traffic, flops = simulate(experiment).traffic.dram.total, 4 * 64 * 4096**2 * 128
    assert moved == pytest.approx(traffic / 4.8e12, rel=0.15)  # at the peak, of which reads reach 0.95
    assert flops / 990e12 < multiplied < flops / 660e12  # between the peak and two thirds of it
    assert bytes_less(experiment) == pytest.approx(8.87e9 / traffic, rel=0.02)
    intensities, (standard, alone, products, softmax, whole) = zip(*places(experiment), strict=True)
    assert intensities[0] == pytest.approx(flops / 8.87e9, rel=0.02)
    assert intensities[1] == pytest.approx(intensities[0] * bytes_less(experiment))
    assert standard < 4.8e12 * intensities[0]  # below what memory allows
    assert 0.89 * 4.8e12 < alone / intensities[1] < 4.8e12  # at it, beyond what the products reach
    assert alone > 990e12 > products > softmax > whole
    assert whole == pytest.approx(flops / simulate(experiment).modelled.seconds)


@pytest.mark.parametrize("tokens", PROMPTS)
def test_a_layer_gains_no_more_than_attentions_slice_allows(tokens):
    at = layer_time(shipped(TAUGHT), tokens, "h200")
    share = at.shares[0]
    assert 1 < at.gain < 1 / (1 - share)
    assert at.gain == pytest.approx(1 / (1 - share + share / at.attention_gain))  # Amdahl
    assert at.gain < at.attention_gain
    peak = 2 * MATRICES * tokens / PEAK
    assert peak < at.rest
    assert tokens < 4096 or at.rest < 1.5 * peak  # where the products' starts no longer count
    assert at.fits == (2 * 2 * 32 * tokens**2 < 141e9)  # S and P in 16 bits


def test_attention_in_it_is_the_models_own():
    at = taught(Experiment.of(seq=8192, hardware="h200"))
    call = {"heads": 32, "kv_heads": 8, "seq": 8192, "head_dim": 128, "dtype": "bfloat16", "causal": True}
    for algorithm, seconds in (("standard", at.standard), ("flash3", at.fast)):
        asked = Experiment.of(algorithm=algorithm, hardware="h200", **call).in_own_tiling()
        alone = simulate(asked).modelled
        # a prompt's other layers heat it
        lower = GPUS["h200"].reached.sustained_clock if alone.limited else 1.0
        assert alone.seconds <= seconds <= alone.seconds / lower
    assert (at.tokens, at.label) == (8192, "FlashAttention-3")

"""Claims 22 to 44: each number that decides has a second witness, by hand or from the raw recording."""

from math import log2

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.problem.hardware import GPUS
from engine.problem.inputs import make_inputs
from engine.recordings.file import recordings
from engine.studies.claims import CLAIMS, listing
from engine.studies.claims.verdict import DEPENDS, Finding, check
from tests.engine.strategies import exact_attention

RECORDING = recordings()[0]
BY_NUMBER = {claim.number: claim for claim in CLAIMS}


def found(number: int) -> list[Finding]:
    return list(check(BY_NUMBER[number], RECORDING).findings)


def counted(provider: str, heads: int, keys: int, head_dim: int = 128) -> list:
    """Raw rows of unmasked forward passes."""
    return [
        row
        for row in RECORDING.counters
        if (row.provider, row.direction, row.problem.heads, row.problem.seq_kv, row.problem.head_dim)
        == (provider, "forward", heads, keys, head_dim)
        and not row.problem.mask.causal
        and row.problem.mask.window is None
    ]


def test_22_dram_reads_grow_with_n_until_k_and_v_leave_l2():
    within, beyond, asked = found(22)
    assert within.holds
    reads = [counted("flash2", 1, keys)[0].kernels[0].dram_read for keys in (65_536, 131_072)]
    assert beyond.ours == pytest.approx(log2(reads[1] / reads[0]))
    assert not beyond.holds
    assert asked.ours == pytest.approx(2, abs=0.01)


def test_23_few_warps_are_resident():
    warps, busy = found(23)
    # the most: two blocks of eight warps in 64; the least: version 1 in one block of eight
    assert warps.range == (pytest.approx(100 * 8 / 64), pytest.approx(100 * 16 / 64))
    assert busy.ours == counted("flash2", 16, 4096)[0].kernels[0].sm_percent


def test_24_what_the_listing_leaves_out_is_what_is_wrong_with_it(monkeypatch):
    experiment = listing.SMALL
    q, k, v = (array[0].astype(np.float64) for array in make_inputs(experiment.problem))
    exact = exact_attention(experiment.problem, q, k, v)[0]
    sharper = exact_attention(experiment.problem, q * np.sqrt(experiment.problem.head_dim), k, v)[0]
    unscaled, unreduced = listing.listing_errors()
    assert unscaled == pytest.approx(np.abs(sharper - exact).max() / np.abs(exact).max(), rel=1e-6)
    assert unreduced > 1
    monkeypatch.setattr(listing, "LANES", 1)  # a warp of one thread has all keys' sum
    assert listing.listing_errors()[1] < 1e-12


def test_25_the_sum_is_rescaled_at_each_of_four_key_blocks_and_divided_once():
    assert [finding.ours for finding in found(25)] == [256 / 64, 1]


def test_26_and_27_and_36_by_hand():
    assert found(26)[0].ours == pytest.approx(108 * 128 * 1.41e9 / 2.039e12)
    assert [finding.ours for finding in found(27)] == [256, 40]
    assert [finding.ours for finding in found(36)] == [163 * 1024, 108 * 164 * 1024]


def test_28_version_3_sets_aside_the_most_shared_memory():
    (share,) = found(28)
    assert share.most == pytest.approx(100 * (2 * 32 + 2 * 32 + 2 * 32 + 1) / 228)  # 2 x Q, K, V of 32 KiB
    assert share.depends


def test_29_safe_softmax_takes_three_passes_online_softmax_two_and_o_alone_one():
    assert [finding.ours for finding in found(29)] == [3, 2, 1]


def test_30_the_intensity_rises_by_n_over_d_and_one():
    dram, requested, recorded = found(30)
    assert dram.range == (pytest.approx(1024 / 128 + 1, rel=0.02), pytest.approx(16_384 / 128 + 1, rel=0.02))
    assert dram.depends
    assert requested.most < 5
    moved = [
        sum(kernel.dram_read + kernel.dram_written for kernel in counted(name, 16, 4096)[0].kernels)
        for name in ("standard", "flash2")
    ]
    assert recorded.ours == pytest.approx(moved[0] / moved[1])


def test_31_the_shortest_counted_call_leaves_sms_idle_and_the_longest_does_not():
    busy, blocks = found(31)
    assert busy.ours == counted("flash2", 16, 512)[0].kernels[0].sm_percent < 50
    assert busy.most > 95
    assert blocks.ours == pytest.approx(100 * 8 / 132)


def test_32_version_3_reads_now_more_and_now_less_than_version_2():
    (share,) = found(32)
    # MB: 65,536 causal keys of one head of d 128; 131,072 keys of d 64, version 2 in 128 x 64
    assert share.range == (
        pytest.approx(55.898 / 81.667, rel=0.001),
        pytest.approx(200.947 / 158.169, rel=0.001),
    )
    for heads, keys in ((16, 1024), (16, 4096)):  # K and V fit L2: every byte comes once to both
        reads = [counted(name, heads, keys)[0].kernels[0].dram_read for name in ("flash2", "flash3")]
        assert reads == pytest.approx([3 * heads * keys * 128 * 2] * 2, rel=0.005)
    assert check(BY_NUMBER[32], RECORDING).verdict == DEPENDS


def test_33_the_exponents_are_those_of_the_recorded_times():
    """16k tokens in all at every length: tokens a second fall as the time rises."""
    (finding,) = found(33)
    times = {}
    for row in RECORDING.timings:
        if row.provider == "eager" and row.times and not row.problem.mask.causal:
            times.setdefault(row.problem.head_dim, {})[row.problem.seq_kv] = (
                row.times.p50 / row.problem.batch / row.problem.seq_q
            )
    exponents = [
        log2(found_[2 * keys] / found_[keys])
        for found_ in times.values()
        for keys in found_
        if 2 * keys in found_
    ]
    assert finding.range == (pytest.approx(min(exponents)), pytest.approx(max(exponents)))


def test_34_and_37_and_38_and_41_by_hand():
    forward, backward = found(34)
    assert (forward.ours, backward.range) == (1, (5 / 4, 7 / 4))
    assert [finding.ours for finding in found(37)] == [2, 1]
    assert found(38)[0].range == (1, 1)
    assert found(41)[0].range == (0, 256 / 64)


def test_35_what_a_copy_reaches_is_what_an_h100_recorded():
    """512 MiB, read and written in 354.6 µs at best."""
    peak, copy = found(35)
    assert peak.ours == 3.35e12
    assert copy.ours == pytest.approx(2 * 2**29 / 354.576e-6, rel=1e-6)
    assert "H100" in copy.origin
    assert (peak.holds, copy.holds) == (False, True)


def test_39_and_44_follow_from_the_presets():
    assert found(39)[0].range == (40_960 * 2**20, 81_920 * 2**20)
    matrix = 131_072**2
    smaller = {
        size: [key for key, gpu in GPUS.items() if gpu.memory_bytes < size * matrix] for size in (2, 4)
    }
    assert set(smaller[4]) == {"t4", "a10", "a100-40gb", "rtx3090", "rtx4090", "rtx5090", "l4", "l40s"}
    assert set(smaller[4]) - set(smaller[2]) == {"a100-40gb", "l40s"}
    assert found(44)[1].range == (100 * 6 / 15, 100 * 8 / 15)


def test_40_the_fastest_blocks_are_those_of_the_sweep():
    rows, keys, lost = found(40)
    best = {}
    for row in RECORDING.sweep:
        if row.algorithm == "flash2" and row.times:
            best.setdefault(row.problem.head_dim, []).append((row.times.p50, row.block_q, row.block_kv))
    fastest = [min(each)[1:] for each in best.values()]
    assert (rows.range, keys.range) == tuple(tuple(sorted(side)) for side in zip(*fastest, strict=True))
    # 128 x 128 at d 128: 1.0990 ms; 256 x 64: 1.1099, a per cent more
    assert fastest == [(128, 64), (128, 128)]
    assert lost.range == (1, 1)


def test_42_and_43_say_what_was_not_recorded_and_what_was_removed():
    picks, fastest = found(42)
    assert picks.ours is None
    times = {}
    for row in RECORDING.timings:
        if row.direction == "forward" and row.provider.startswith("sdpa_") and row.times:
            times.setdefault(row.problem, []).append((row.times.p50, row.provider))
    whole = [sorted(each) for each in times.values() if len(each) == 3]
    won = [each for each in whole if each[0][1] == "sdpa_flash"]
    assert fastest.ours == pytest.approx(100 * len(won) / len(whole))
    assert fastest.ours < 10  # "seldom"
    before, after = found(43)
    assert (before.holds, after.holds) == (True, False)
    assert before.origin == after.origin == "looked up in its source, not computed"


def test_every_claim_opens_a_scenario_that_the_model_knows():
    for claim in CLAIMS:
        assert Experiment.of(**claim.experiment.flat()) == claim.experiment

"""Claims: verdicts follow from numbers, and the numbers have a second witness."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from engine.recordings.file import recordings
from engine.studies.claims import CLAIMS, checked
from engine.studies.claims.broken import broken_update, rising
from engine.studies.claims.verdict import (
    DEPENDS,
    OFF,
    PARTLY,
    RIGHT,
    UNKNOWN,
    VERDICTS,
    WRONG,
    Finding,
    check,
    over,
    said,
    states,
    verdict_of,
)
from engine.trace.softmax import PRESETS

BY_NUMBER = {claim.number: claim for claim in CLAIMS}
RECORDING = next(iter(recordings()))


def found(number: int, recording=RECORDING) -> dict[str, Finding]:
    return {finding.what: finding for finding in check(BY_NUMBER[number], recording).findings}


def ours(number: int) -> list[float]:
    return [finding.ours for finding in check(BY_NUMBER[number], RECORDING).findings]


def test_there_are_44_claims_each_with_its_words():
    assert [claim.number for claim in CLAIMS] == list(range(1, 45))
    for one in checked():
        assert one.verdict in VERDICTS
        assert one.why == one.claim.words[one.verdict], one.claim.number
        assert len({finding.what for finding in one.findings}) == len(one.findings)


def test_a_number_is_held_to_its_range_and_tolerance():
    assert said("", "", 100, 109, "").holds
    assert not said("", "", 100, 111, "").holds
    assert Finding("", "", (2, 4), 3, "").factor == 1
    assert Finding("", "", (2, 4), 8, "").factor == 2
    assert Finding("", "", (2, 4), 1, "").factor == 2
    assert Finding("", "", (2, inf), 1e9, "").holds
    assert not Finding("", "error", (0, 0), 1e-9, "").holds
    assert Finding("", "error", (0, 0), 1e-9, "").factor == inf


def test_the_verdict_follows_from_what_holds():
    good, off, far = (said("", "", 10, value, "") for value in (10, 20, 1000))
    assert verdict_of((good, good)) == RIGHT
    assert verdict_of((good, far)) == PARTLY
    assert verdict_of((off, far)) == OFF
    assert verdict_of((far, far)) == WRONG
    # ten times too much or too little is wrong, a little less is off
    for value, verdict in ((99.9, OFF), (100, WRONG), (1.001, OFF), (1, WRONG)):
        assert verdict_of((said("", "", 10, value, ""),)) == verdict
    assert verdict_of((off, states("", False))) == WRONG
    assert verdict_of((states("", None), Finding("", "", None, 3, ""))) == UNKNOWN
    assert verdict_of((good, states("", None))) == RIGHT


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"claim {claim.number}")
def test_other_numbers_would_give_another_verdict(claim):
    one = check(claim, RECORDING)
    if one.verdict == UNKNOWN:
        return
    met = tuple(_with_ours(finding, meets=True) for finding in one.findings)
    missed = tuple(_with_ours(finding, meets=False) for finding in one.findings)
    assert verdict_of(met) == RIGHT
    assert verdict_of(missed) in (OFF, WRONG)


def _with_ours(finding: Finding, meets: bool) -> Finding:
    """The finding with a number of ours that meets what is claimed, or misses it."""
    if not finding.judged:
        return finding
    low, high = finding.claimed
    if meets:
        return replace(finding, ours=low if low > 0 else high, most=None)
    return replace(finding, ours=low / 3 if high == inf else 3 * high + 1, most=None)


@pytest.mark.parametrize("number", [5, 10, 14, 32, 33, 40, 42])
def test_without_a_recording_what_must_be_measured_is_not_invented(number):
    one = check(BY_NUMBER[number], None)
    assert one.verdict == UNKNOWN
    assert all(finding.ours is None for finding in one.findings)


def test_a_faster_unfused_kernel_in_the_recording_turns_the_verdict_on_short_sequences():
    def slowed(row):
        if row.provider == "eager" or row.times is None or row.problem.seq_kv > 256:
            return row
        return replace(row, times=replace(row.times, p50=1.0))

    other = replace(RECORDING, timings=tuple(map(slowed, RECORDING.timings)))
    assert check(BY_NUMBER[5], RECORDING).verdict == WRONG
    assert check(BY_NUMBER[5], other).verdict == RIGHT


def test_the_kernels_that_claim_5_names_beat_unfused_attention_at_every_recorded_shape():
    timed = {}
    for row in RECORDING.timings:
        if row.direction == "forward" and row.times:
            timed.setdefault(row.problem, {})[row.provider] = row.times.p50
    named = ("sdpa_flash", "sdpa_cudnn", "fa4", "flash2", "flash3")
    for providers in timed.values():
        slower = [name for name in named if providers.get(name, 0) >= providers.get("eager", inf)]
        assert not slower
    assert sum({"eager", *named} <= providers.keys() for providers in timed.values()) > 20


def test_the_bytes_of_claim_1_by_hand():
    n, d = 4096, 128
    unfused, flash = 2 * (4 * n * n + 4 * n * d), 2 * 4 * n * d + 4 * n
    asked = 2 * (2 * n * d + 2 * n * n * d // 128) + 4 * n
    assert ours(1)[:3] == [unfused, flash, unfused / flash]
    assert ours(1)[3:5] == [32 * unfused, 32 * flash]
    assert ours(1)[7] == asked


def test_the_counters_of_claim_1_are_those_of_the_recording():
    for name, index in (("standard", 5), ("flash2", 6)):
        row = next(
            row
            for row in RECORDING.counters
            if (row.provider, row.direction, row.problem.batch, row.problem.seq_kv)
            == (name, "forward", 1, 4096)
            and row.problem.head_dim == 128
            and not row.problem.mask.causal
        )
        moved = sum(kernel.dram_read + kernel.dram_written for kernel in row.kernels)
        assert ours(1)[index] == pytest.approx(moved / 16)


def test_the_tiles_of_claim_2_by_hand():
    assert ours(2) == [32, 64, 64, 3 * 32 + 2 * 64 + 1, 163, 0, 3 * 32]


def test_the_matrices_by_hand():
    assert ours(7) == [20e9, 40e9]
    assert ours(11) == [64]
    assert ours(19) == [0.0625, 4, 64]


def test_version_1_over_version_2_follows_the_papers_formulas():
    n, d = 4096, 128
    ratios = []
    for rows in (32, 64, 128, 256):
        for keys in (32, 64, 128, 256):
            first = 2 * (2 * n * d + 3 * (n // keys) * n * d) + 4 * 4 * (n // keys) * n
            ratios.append(first / (2 * (2 * n * d + 2 * (n // rows) * n * d) + 4 * n))
    finding = found(8)["requested"]
    assert finding.range == pytest.approx((min(ratios), max(ratios)))
    assert finding.depends
    assert "blocks" in finding.varied


def test_the_theorems_exponents_hold_whatever_m_is():
    findings = found(13)
    for what, exponent in (("exponent of N", 2), ("exponent of 1 / M", 1), ("exponent of d", 2)):
        assert findings[what].range == (pytest.approx(exponent, abs=0.04), pytest.approx(exponent, abs=0.04))
        assert "M of" in findings[what].varied


def test_a_claim_that_only_some_choices_bear_out_is_said_to_depend_on_them():
    some = over("", "", (10, 10), (5, 20), "blocks", "")
    assert some.depends
    assert not some.holds
    assert some.factor == 2
    assert verdict_of((some,)) == verdict_of((some, said("", "", 1, 1, ""))) == DEPENDS
    assert over("", "", (10, 10), (10, 10.5), "blocks", "").holds
    none = over("", "", (10, 10), (20, 30), "blocks", "")
    assert (none.holds, none.depends, none.factor) == (False, False, 2)
    assert over("", "", (10, 10), (None, None), "blocks", "").ours is None


def test_heads_and_layers_decide_what_the_contexts_are():
    """S and P of 16 heads, 2 bytes a number, on 85.9e9 bytes: by hand from 4 H N^2 + 8 H N d + 4 H N."""
    findings = found(9)
    for heads, most in zip((64, 8), findings["longest context, unfused"].range, strict=True):
        need = [heads * (4 * n * n + 8 * n * 128 + 4 * n) for n in (most, most + 1)]
        assert need[0] <= 81_920 * 2**20 < need[1]
    assert findings["longest context, unfused"].depends
    assert findings["tokens per second of version 2's attention"].depends
    assert findings["unfused attention runs 100k tokens with 8 heads or more"].ours == 0
    rooms = [heads * (4 * 100_000**2 + 8 * 100_000 * 128) < 81_920 * 2**20 for heads in (1, 2, 3)]
    assert rooms == [True, True, False]  # "one head or two"


def test_version_1s_speed_is_not_judged_by_a_kernel_that_its_paper_did_not_run():
    judged = [finding.what for finding in check(BY_NUMBER[3], RECORDING).findings if finding.judged]
    assert len(judged) == 5
    assert not any("version 1" in what for what in judged)


def test_the_recorded_speed_ups_are_those_of_the_recording():
    times = {
        row.provider: row.times.p50
        for row in RECORDING.timings
        if row.problem.seq_kv == 2048 and row.problem.head_dim == 128 and row.times
        if not row.problem.mask.causal and row.direction == "forward"
    }
    finding = found(14)["N = 2,048, d = 128"]
    assert finding.ours == pytest.approx(times["eager"] / times["sdpa_flash"])
    assert finding.origin == RECORDING.origin


def test_memory_kept_by_recomputing_by_hand():
    # P in fp16 against lse, delta and lse in units of log2, float32: 2 N^2 / 12 N
    kept = found(16)["memory kept for it, storing P over recomputing"]
    assert kept.range == (pytest.approx(2 * 128 / 12), pytest.approx(2 * 16_384 / 12))


def test_the_broken_update_is_right_for_one_block_and_wrong_once_the_maximum_rises():
    course = rising()
    assert course.right.max() < 1e-14
    assert course.broken[0] == 0
    assert course.broken[1:].min() > 0.3


def test_the_broken_update_is_right_while_the_maximum_falls():
    scores = np.array(PRESETS["rising"].scores)[::-1].copy()
    scores[0] = 9.0  # the first block has the largest
    course = broken_update(scores, np.eye(len(scores)), 2)
    assert course.broken.max() < 1e-14


def test_the_error_of_the_broken_update_by_hand():
    """Scores 0 and log 4, one a block: weights 1/5 and 4/5; forgotten, the first counts 1 instead of 1/4."""
    course = broken_update(np.array([0.0, np.log(4)]), np.eye(2), 1)
    assert course.broken[1] == pytest.approx((1 / 1.25 - 0.2) / 0.8)


def test_bit_identity_fails_in_every_dtype_and_both_are_near_float64():
    findings = found(15)
    for dtype, epsilon in (("float16", 2**-10), ("bfloat16", 2**-7), ("float32", 2**-20)):
        assert findings[f"{dtype}: unfused − flash"].ours > 0
        assert findings[f"{dtype}: flash − float64"].ours < 4 * epsilon


def holding(number: int) -> set[str]:
    """What of a claim holds, by the number that it is about."""
    return {what for what, finding in found(number).items() if finding.judged and finding.holds}


def test_words_name_the_numbers_that_hold_and_no_others():
    """Words are written, not computed: a recording or a model that turns one of these needs others."""
    verdicts = {one.claim.number: one.verdict for one in checked()}
    assert {verdicts[number] for number in (12, 40)} == {RIGHT}
    assert {verdicts[number] for number in (3, 14, 18, 20)} == {PARTLY}
    assert {verdicts[number] for number in (8, 9, 28, 30, 31, 33, 39, 41, 44)} == {DEPENDS}
    assert holding(3) == {"version 2: speed, 32 heads", "peak of an A100, fp16"}
    assert holding(14) == {"N = 2,048, d = 128", "N = 16,384, d = 64"}
    assert found(14)["N = 16,384, d = 64"].ours < 5  # "within 10 %"
    assert found(14)["N = 16,384, d = 128"].ours < found(14)["N = 16,384, d = 64"].ours  # "gains less"
    for keys in ("2,048", "16,384"):
        for head_dim in (64, 128):
            plain, causal = (found(14)[f"N = {keys}, d = {head_dim}{mask}"].ours for mask in ("", ", causal"))
            assert causal > plain  # "a causal mask makes unfused attention slower still"
    assert holding(18) == {"inference, N = 2,048, d = 128", "longest context, 16 heads, 80 GB"}
    assert found(18)["the most of all recorded shapes"].ours > 2 * 9  # "far beyond 9 times"
    assert holding(20) == {
        "less memory for attention's tensors, N = 256, d = 64",
        "speed-up at N = 1,024, d = 128",
    }
    for dtype in ("float16", "bfloat16"):  # "nearer in 16 bits"
        assert found(15)[f"{dtype}: flash − float64"].ours < found(15)[f"{dtype}: unfused − float64"].ours / 2
    near = [found(15)[f"float32: {name} − float64"].ours for name in ("flash", "unfused")]
    assert max(near) < 2 * min(near)  # "as near in float32"
    assert found(20)["speed-up at N = 512, d = 128: not yet worth it"].ours > 1.2  # "long before 1K"


def test_the_most_of_all_recorded_shapes_is_the_most():
    times = {}
    for row in RECORDING.timings:
        if row.direction == "forward" and row.times is not None:
            times[row.provider, row.problem] = row.times.p50
    ratios = [
        times["eager", problem] / seconds
        for (name, problem), seconds in times.items()
        if name == "sdpa_flash" and ("eager", problem) in times
    ]
    assert found(18)["the most of all recorded shapes"].ours == pytest.approx(max(ratios))


def test_dram_bytes_of_32_heads_are_scaled_from_those_that_were_counted():
    reads = [
        32 / row.problem.heads * sum(kernel.dram_read for kernel in row.kernels)
        for row in RECORDING.counters
        if (row.provider, row.block_q, row.block_kv)
        in (
            ("flash2", 128, 64),
            ("flash3", None, None),
            ("sdpa_flash", None, None),
            ("sdpa_cudnn", None, None),
        )
        and (row.direction, row.problem.seq_q, row.problem.seq_kv) == ("forward", 4096, 4096)
        and (row.problem.head_dim, row.problem.heads, row.problem.batch) == (128, 16, 1)
        and not row.problem.mask.causal
    ]
    assert len(reads) == 4
    assert found(6)["DRAM read"].range == (min(reads), max(reads))

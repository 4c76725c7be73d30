"""Eight and four bits: every rounding against all numbers of a format and PyTorch's; rows recorded on FP8."""

import math
from dataclasses import replace

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.measuring import clock, sections
from engine.problem.dtype import round_e4m3
from engine.problem.hardware import GPUS
from engine.problem.problem import Mask, Problem
from engine.recordings.recording import Recording
from engine.recordings.timing import Fp8Timing
from engine.studies import block_scales as studies
from engine.studies.beyond import text_heads
from engine.studies.block_scales import E2M1, E4M3, INT8, MXFP4, MXFP8, NVFP4, ONE, SCHEMES, SINGLE, SMOOTH
from tests.engine.strategies import one_head, softmax
from tests.engine.test_recording import DEVICE, TIMES

SMALL = Experiment.of(seq=96, head_dim=32)


def values(digits, bias, codes):
    """Every number of a format from 0 on, by its code: exponent and fraction as they lie in memory."""
    found = []
    for code in range(codes):
        exponent, fraction = code >> digits, code & ((1 << digits) - 1)
        whole = (
            (1 + fraction / 2**digits) * 2.0 ** (exponent - bias)
            if exponent
            else fraction / 2**digits * 2.0 ** (1 - bias)
        )
        found.append(whole)
    return np.array(found)


FORMATS = {E4M3: values(3, 7, 127), E2M1: values(1, 1, 8)}  # E4M3's last code is NaN


def nearest(array, table):
    """By looking at all of them: ties to the even code, larger ones to the largest."""
    out = np.empty(array.shape)
    for place, number in np.ndenumerate(array.astype(float)):
        off = np.abs(table - abs(number))
        codes = np.flatnonzero(off == off.min())
        out[place] = math.copysign(table[codes[codes % 2 == 0][0] if len(codes) > 1 else codes[0]], number)
    return out


@pytest.mark.parametrize("of", FORMATS, ids=["e4m3", "e2m1"])
def test_a_format_rounds_to_the_nearest_of_all_its_numbers(of):
    table = FORMATS[of]
    assert table[-1] == of.largest
    between = (table[1:] + table[:-1]) / 2  # ties
    draw = np.random.Generator(np.random.PCG64(0)).standard_normal(3000) * np.exp2(np.linspace(-12, 10, 3000))
    for numbers in (table, between, np.nextafter(between, 0), np.nextafter(between, 1e3), draw, [0.0, 1e5]):
        array = np.float32(np.r_[numbers, -np.asarray(numbers)])
        np.testing.assert_array_equal(of.rounded(array), nearest(array, table))
        if of is E4M3:
            np.testing.assert_array_equal(round_e4m3(array), nearest(array, table))


def test_e4m3_is_pytorchs_and_e8m0_too():
    torch = pytest.importorskip("torch")
    draw = np.random.Generator(np.random.PCG64(1)).standard_normal(5000, np.float32)
    array = np.clip(draw * np.float32(40), -448, 448)
    theirs = torch.tensor(array).to(torch.float8_e4m3fn).float().numpy()
    np.testing.assert_array_equal(E4M3.rounded(array), theirs)
    scales = studies.power_scale(np.abs(draw), E4M3)
    np.testing.assert_array_equal(torch.tensor(scales).to(torch.float8_e8m0fnu).float().numpy(), scales)


def by_hand(scheme, tensor):
    """A block after the other, as the specifications write it."""
    out, tensor = np.empty(tensor.shape), tensor.astype(float)
    table = FORMATS.get(scheme.of)
    level = np.abs(tensor).max() / (6 * 448) if scheme.scale == "two levels" else 1.0
    for row in range(len(tensor)):
        for first in range(0, tensor.shape[1], scheme.block):
            part = tensor[row, first : first + scheme.block]
            largest = np.abs(part).max()
            if scheme.scale == "e8m0":
                scale = 2.0 ** (math.floor(math.log2(largest)) - math.floor(math.log2(table[-1])))
            else:
                scale = nearest(np.array([largest / 6 / level]), FORMATS[E4M3])[0] * level
            rounded = nearest(part / scale, table) * scale if scale else 0 * part
            out[row, first : first + scheme.block] = rounded
    return out


@pytest.mark.parametrize("scheme", [MXFP8, MXFP4, SINGLE, NVFP4], ids=lambda each: each.name)
@pytest.mark.parametrize("kind", studies.KINDS)
def test_blocks_are_rounded_as_the_specifications_say(scheme, kind):
    q, k, _ = studies.numbers(SMALL, kind)
    for tensor in (k, np.ascontiguousarray(q[:, :27])):  # a last block that is not whole
        found = scheme.rounded(tensor)
        expected = by_hand(scheme, tensor)
        same = np.isclose(found, expected, rtol=1e-6)  # a quotient may fall to either side of a tie
        assert same.mean() > 0.999
        assert np.abs(found - expected).max() <= 0.51 * np.abs(tensor).max()


def test_int8_is_rounded_in_64_rows_and_one_scale_is_the_tensors():
    _, k, _ = studies.numbers(SMALL, studies.OUTLIERS)
    for first in (0, 64):
        part = k[first : first + 64].astype(float)
        scale = np.abs(part).max() / 127
        found = INT8.rounded(k)[first : first + 64]
        np.testing.assert_allclose(found, np.rint(part / scale) * scale, atol=1e-6)
    scale = np.abs(k).max() / 448
    expected = nearest(k / np.float32(scale), FORMATS[E4M3]) * scale
    np.testing.assert_allclose(ONE.rounded(k), expected, rtol=1e-6)


def test_attention_in_blocks_is_float64s_over_the_rounded_numbers():
    q, k, v = studies.numbers(SMALL, studies.SHIFTED)

    def dense(q, k, v):
        return softmax(q.astype(float) @ k.T.astype(float)) @ v.astype(float)

    np.testing.assert_allclose(studies.attention(None, q, k, v, 20), dense(q, k, v), rtol=1e-9)
    shifted = k - k.mean(0)
    for scheme, keys in ((INT8, k), (SMOOTH, shifted)):
        expected = dense(INT8.rounded(q), INT8.rounded(keys), v)
        np.testing.assert_allclose(studies.attention(scheme, q, k, v, 20), expected, rtol=1e-9)
    np.testing.assert_allclose(dense(q, shifted, v), dense(q, k, v), atol=1e-5)  # unrounded: the same
    scores = NVFP4.rounded(q) @ NVFP4.rounded(k).T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    values = NVFP4.rounded(np.ascontiguousarray(v.T)).T
    expected = NVFP4.rounded(weights).astype(float) @ values / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(studies.attention(NVFP4, q, k, v, 96), expected, rtol=1e-4)


def test_a_far_column_is_what_smoothing_is_for_and_two_levels_serve_every_size():
    shifted, drawn = (
        {scheme: studies.error(SMALL, scheme, kind) for scheme in SCHEMES}
        for kind in (studies.SHIFTED, studies.DRAWN)
    )
    assert shifted[INT8] > 1.5 * shifted[SMOOTH]
    assert shifted[SMOOTH] == pytest.approx(drawn[SMOOTH], rel=1e-3)
    one, two = ([*studies.by_magnitude(SMALL, each).values()] for each in (studies.SINGLE, studies.NVFP4))
    assert max(two) < 1.01 * min(two)
    assert one[0] == pytest.approx(1)
    assert one[-1] > 0.9
    assert min(one) == pytest.approx(min(two), rel=0.05)
    first = [*studies.by_size(SMALL, "two levels").values()]
    assert first == sorted(first)


def test_bits_and_clocks_are_those_of_the_sheets():
    assert [scheme.bits for scheme in (ONE, MXFP8, MXFP4, NVFP4)] == [8, 8.25, 4.25, 4.5]
    gpu = GPUS["b200"]
    for times in (1, 2, 4):
        products, exponentials = studies.tile_clocks(gpu, times)
        assert products == pytest.approx(4 * 128**3 / (times * 2250e12 / 148 / 1.86e9))
        assert exponentials == 128 * 128 / 16
        assert studies.tile_gain(gpu, times) == pytest.approx(1, rel=0.01)  # they take as long already
    assert studies.tile_gain(GPUS["b300"], 4) == pytest.approx(2, rel=0.01)  # of exponentials twice as fast


def test_the_small_models_error_is_the_mean_over_its_key_heads():
    errors = []
    for q, k, v in text_heads():
        exact, found = (
            softmax(rounded(q[0, -64:]).astype(float) @ rounded(k[-512:]).T) @ v[-512:].astype(float)
            for rounded in (lambda tensor: tensor, INT8.rounded)
        )
        errors.append(np.sqrt(((found - exact) ** 2).sum() / (exact**2).sum()))
    assert len(errors) == 6  # two key heads in each of three layers
    assert studies.error(SMALL, INT8, studies.TEXT) == pytest.approx(np.mean(errors), rel=1e-6)


def row(numbers="rotated", head_dim=128, keys=4096, causal=False, **others):
    problem = Problem(1, 16, 16, keys, keys, head_dim, "float16", Mask(causal))
    given = {"times": TIMES, "relative_error": 0.02, **others}
    return Fp8Timing("fp8", "FP8", "forward", problem, numbers=numbers, inputs="normal", **given)


def test_the_nearest_problem_that_was_timed_is_found():
    alike = (row("float16"), row())
    others = (row(causal=True), row(head_dim=64), row(keys=16384), row(keys=8192, times=None, skipped="no"))
    held = Recording(DEVICE, fp8=(*others, *alike))
    scenario = Experiment(problem=Problem(2, 8, 8, 6000, 6000, 128, "float16", Mask()))
    assert studies.recorded_fp8(held, scenario) == alike
    assert studies.recorded_fp8(held, scenario.changed(causal=True)) == (others[0],)
    assert studies.recorded_fp8(replace(held, fp8=()), scenario) == studies.recorded_fp8(None, scenario) == ()


def test_without_a_hopper_gpu_rows_say_why():
    interpreted = pytest.importorskip("kernels.launch.launch", exc_type=ImportError).interpreted
    if not interpreted():
        pytest.skip("this machine has a GPU")
    small = Problem(1, 1, 1, 64, 64, 64, "float16", Mask())
    rows = [replace(each, problem=small) for each in sections.together("fp8", "problem", "inputs")[0]]
    found = sections.timed(rows, clock.Repeats(1, 1, 0.01), cuda=False)
    assert all("does not serve this call" in each.skipped for each in found)


def test_errors_are_those_of_the_definition():
    torch = pytest.importorskip("torch")
    exact = torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float64).view(1, 2, 1, 2)
    out = torch.tensor([[3.0, 4.0], [9.0, 9.0], [0.5, 0.0]]).view(1, 3, 1, 2)  # the second is not compared
    assert sections.Relative(exact).error(out) == pytest.approx(0.5 / 5)


def test_one_number_in_a_thousand_is_an_outlier_ten_times_as_wide():
    torch = pytest.importorskip("torch")
    (found,) = sections.with_outliers((torch.zeros(1000, 1000),))
    changed = found[found != 0]
    assert len(changed) == pytest.approx(1000, rel=0.1)
    assert float(changed.std()) == pytest.approx(10, rel=0.1)


def test_the_errors_of_a_head_are_those_of_rounding_its_tensors_by_torch():
    torch = pytest.importorskip("torch")
    experiment = Experiment.of(inputs="text:2.1", dtype="float32")
    q, k, v = one_head(experiment)

    def eight(array):
        scale = np.abs(array).max() / 448
        return torch.tensor(array / scale).float().to(torch.float8_e4m3fn).double().numpy() * scale

    def out(q, k, v, rounded):
        scores = np.where(np.tri(len(q), dtype=bool), q.astype(float) @ k.T / 8, -np.inf)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        return rounded(weights) @ v / weights.sum(1, keepdims=True)

    exact, found = out(q, k, v, lambda weights: weights), out(*map(eight, (q, k, v)), eight)
    error = np.sqrt(((found - exact) ** 2).mean() / (exact**2).mean())
    errors = studies.head_errors(experiment)
    assert errors["this head"]["one scale per tensor"] == pytest.approx(error, rel=1e-3)
    assert all(0.005 < each < 0.2 for row in errors.values() for each in row.values())

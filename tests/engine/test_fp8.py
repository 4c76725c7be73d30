"""FP8, e4m3: its values by the format's own rule, rounding by search among them, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from engine.studies.fp8 import e4m3_values, float16_values, round_e4m3, rounding_errors, values_in


def by_bits() -> list[float]:
    """Codes 1 to 126: sign 0, four bits of exponent with bias 7, three of fraction; 127 is NaN."""
    found = []
    for code in range(1, 127):
        exponent, fraction = code >> 3, code & 7
        found.append(fraction / 8 * 2**-6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7))
    return found


VALUES = np.array([*(-each for each in reversed(by_bits())), 0.0, *by_bits()])


def test_the_values_are_those_of_the_codes():
    assert e4m3_values().tolist() == by_bits()
    assert values_in(e4m3_values(), 1, 2) == 8
    assert values_in(float16_values(), 1, 2) == 1024
    assert float16_values().max() == 65504


def test_rounding_goes_to_the_nearest_value_and_halves_to_the_even_one():
    numbers = np.random.default_rng(1).normal(0, 30, 400)
    nearest = VALUES[np.abs(numbers[:, None] - VALUES).argmin(1)]
    assert round_e4m3(numbers).tolist() == nearest.tolist()
    assert round_e4m3(np.array([1.0625, 1.1875, 0.0, 500, -1e9])).tolist() == [1.0, 1.25, 0.0, 448, -448]


def test_three_bits_of_fraction_lose_over_a_hundred_times_what_ten_lose():
    """Halving a step twice per bit: 2 ** (10 - 3) = 128 times, as errors of a sum go."""
    e4m3, float16 = rounding_errors()
    assert e4m3 / float16 == pytest.approx(128, rel=0.25)


def test_the_errors_are_those_of_attention_row_by_row_on_values_found_by_search():
    generator = np.random.Generator(np.random.PCG64(0))
    exact = [generator.standard_normal((256, 64)) for _ in range(3)]
    middles = (VALUES[1:] + VALUES[:-1]) / 2
    rounded = (
        [VALUES[np.searchsorted(middles, each)] for each in exact],
        [np.float16(each).astype(float) for each in exact],
    )

    def attended(q, k, v):
        weights = [np.exp(k @ row / 8) for row in q]  # the scale is 1 / sqrt(64)
        return np.stack([each @ v / each.sum() for each in weights])

    right = attended(*exact)
    off = [np.linalg.norm(attended(*each) - right) / np.linalg.norm(right) for each in rounded]
    assert rounding_errors() == pytest.approx(off, rel=1e-3)

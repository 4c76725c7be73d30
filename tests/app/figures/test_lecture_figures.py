"""The lecture's pictures: the numbers they show, read back from HTML, against arithmetic written here."""

import re
from math import exp, log

import numpy as np
import pytest

from app.figures import by_hand as hands
from app.figures import lecture as figures
from app.figures.colours import LIGHT
from engine.studies.by_hand import by_hand
from tests.engine import test_by_hand

S, V = np.array(test_by_hand.S), test_by_hand.V
P = np.exp(S) / np.exp(S).sum(1, keepdims=True)


def words(html: str) -> str:
    """What is read, without marks and styles."""
    plain = re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", html, flags=re.S))
    return re.sub(r"\s+", " ", plain).replace("−", "-").strip()


def told(values) -> str:
    return " ".join(f"{value:.2f}".replace("-0.00", "0.00") for value in np.ravel(values))


def test_the_example_shows_its_six_matrices():
    text = words(hands.whole(by_hand(), LIGHT))
    for name, values in (("S, scores", S), ("P, softmax of each row", P), ("O, output", P @ np.array(V))):
        assert f"{name} {told(values)}" in text
    assert "Q 1 0 0 1 1 1 1 -2" in text
    assert "Kᵀ 1 0 1 2 0 1 2 1" in text


def test_the_three_passes_are_maximum_sum_and_division():
    weights = [exp(score - S[0].max()) for score in S[0]]
    text = words(hands.three_passes(by_hand(), LIGHT))
    assert f"1st pass s {told(S[0])} m = {S[0].max():.2f}" in text
    assert f"2nd pass e^(s - m) {told(weights)} l = {sum(weights):.2f}" in text
    assert f"3rd pass e^(s - m) ÷ l {told(P[0])} weights" in text


def test_the_second_piece_is_unknown_before_the_vote():
    told = words(hands.first_piece(by_hand(), LIGHT))
    assert "maximum m 0.71 ? factor α ? sum l 1.00 + 0.49 = 1.49 ? O so far (1.00, 0.49) ?" in told


def test_every_row_ends_with_the_same_o_twice():
    text = words(hands.every_tile(by_hand(), LIGHT))
    for row, out in enumerate(P @ np.array(V)):
        m, larger = S[row][:2].max(), S[row].max()
        assert f"{told([larger, exp(m - larger), sum(np.exp(S[row] - larger))])} " in text
        assert f"{told(out)} {told(out)}" in text


def test_p_comes_again_from_one_number_per_row():
    text = words(hands.again(by_hand(), LIGHT))
    assert f"lse, kept {told([log(sum(np.exp(scores))) for scores in S])}" in text
    assert text.count(told(P)) == 2


LANES = [figures.Lane("slow", 8e-3, "red"), figures.Lane("fast", 2e-3, "green")]


def test_lanes_are_as_long_as_they_took_and_run_alike_slowed_down():
    html = figures.lanes(LANES, told=True)
    assert re.findall(r"width:([\d.]+)%'", html) == ["100.00", "25.00"]
    assert re.findall(r"--seconds:([\d.]+)s", html) == ["6.00", "1.50"]
    assert words(html) == "slow 8 ms fast 2 ms"
    assert figures.slowed(LANES) == pytest.approx(6 / 8e-3)


def test_before_the_vote_lanes_have_names_alone():
    html = figures.lanes(LANES, told=False)
    assert set(re.findall(r"width:([\d.]+)%'", html)) == {"0.00"}
    assert words(html) == "slow fast"


def test_busy_sms_are_as_many_squares():
    html = figures.busy([("One", 16, 132)], LIGHT)
    assert "One: 16 of 132 SMs have work" in words(html)
    assert html.count("<i style='background:color-mix") == 16
    assert html.count("<i style=") == 132


def test_bits_and_values_of_a_format_are_drawn_one_by_one():
    html = figures.bits({"FP8": (1, 4, 3)}, LIGHT)
    assert words(html) == "FP8 : 4 bits of exponent, 3 of fraction ± e e e e f f f"
    ruler = figures.ruler("FP8", np.array([0.5, 1, 1.25, 2, 4]), labels=True)
    assert re.findall(r"<i style='left:([\d.]+)%", ruler) == ["0.00", "25.00", "100.00"]
    assert words(ruler) == "FP8 from 1 to 2 1 1.25 2"


def test_units_at_work_stand_where_they_worked():
    html = figures.gantt([("copies", [(1e-6, 3e-6, "red", ""), (9e-6, 11e-6, "red", "")])], 10e-6)
    assert re.findall(r"left:([\d.]+)%;width:([\d.]+)%", html) == [
        ("10.00", "20.00")
    ]  # the second goes beyond

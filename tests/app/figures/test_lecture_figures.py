"""The lecture's pictures: the numbers they show, read back from HTML, against arithmetic written here."""

import re

import numpy as np

from app.figures import lecture as figures
from app.figures.colours import LIGHT
from engine.studies.by_hand import by_hand
from tests.engine import test_by_hand

S, V = np.array(test_by_hand.S), test_by_hand.V
P = np.exp(S) / np.exp(S).sum(1, keepdims=True)


def words(html: str) -> str:
    """What is read, without marks and styles."""
    plain = re.sub(r"<[^>]+>", " ", html)
    return re.sub(r"\s+", " ", plain).replace("−", "-").strip()


def told(values) -> str:
    return " ".join(f"{value:.2f}".replace("-0.00", "0.00") for value in np.ravel(values))


def test_the_example_shows_its_six_matrices():
    text = words(figures.whole(by_hand(), LIGHT))
    for name, values in (("S, scores", S), ("P, softmax of each row", P), ("O, output", P @ np.array(V))):
        assert f"{name} {told(values)}" in text
    assert "Q 1 0 0 1 1 1 1 -2" in text
    assert "Kᵀ 1 0 1 2 0 1 2 1" in text


def test_the_second_piece_is_unknown_before_the_vote():
    told = words(figures.first_piece(by_hand(), LIGHT))
    assert "maximum m 0.71 ? factor α ? sum ℓ 1.00 + 0.49 = 1.49 ? O so far (1.00, 0.49) ?" in told


def test_before_the_vote_lanes_have_names_alone():
    assert words(figures.lanes(["slow", "fast"])) == "slow fast"

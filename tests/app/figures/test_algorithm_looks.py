"""Names, colours and marks come from records; an algorithm that nobody knew has a spare look."""

from __future__ import annotations

import pytest

from app.figures.algorithms import LOOKS, SPARE, UNKNOWN, implementation, look
from app.figures.colours import palette
from engine.algorithms import ALGORITHMS

RECORD = """
from dataclasses import replace

from engine.algorithms import flash2

ALGORITHM = replace(
    flash2.ALGORITHM, key="toy", label="A toy of a test", short="Toy 9", order=9, kernel=None, probed=False
)
"""


@pytest.fixture
def toy(lay_algorithm):
    """An algorithm that is one file in a folder of its own."""
    lay_algorithm("toy_of_a_test", RECORD)
    return ALGORITHMS["toy"]


def test_it_is_drawn_in_a_spare_tone(toy):
    assert look("toy") is SPARE[0]
    assert look("toy").colour(palette(True)) not in {
        look(key).colour(palette(True)) for key in ALGORITHMS if key in LOOKS
    }
    assert implementation({"provider": "toy", "label": "not this"}) == "Triton Toy 9"


def test_what_is_no_algorithm_is_called_what_its_row_says():
    assert implementation({"provider": "somebody's", "label": "Somebody's kernel"}) == "Somebody's kernel"
    assert implementation({"provider": "eager", "label": "not this"}) == "PyTorch unfused"
    assert look("somebody's") is UNKNOWN
    assert implementation({"provider": "standard", "label": ""}) == "Triton standard"

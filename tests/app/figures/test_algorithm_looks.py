"""Names, colours and marks come from records; an algorithm that nobody knew has a spare look."""

from app.figures.algorithms import LOOKS, SPARE, UNKNOWN, implementation, look
from app.figures.colours import palette
from engine.algorithms import ALGORITHMS
from tests.test_toy_algorithm import toy

__all__ = ["toy"]


def test_it_is_drawn_in_a_spare_tone(toy):
    assert look("toy") is SPARE[0]
    known = {look(key).colour(palette(True)) for key in ALGORITHMS if key in LOOKS}
    assert look("toy").colour(palette(True)) not in known
    assert implementation({"provider": "toy", "label": "not this"}) == "Triton toy"


def test_what_is_no_algorithm_is_called_what_its_row_says():
    assert implementation({"provider": "somebody's", "label": "Somebody's kernel"}) == "Somebody's kernel"
    assert implementation({"provider": "eager", "label": "not this"}) == "PyTorch unfused"
    assert look("somebody's") is UNKNOWN
    assert implementation({"provider": "standard", "label": ""}) == "Triton standard"

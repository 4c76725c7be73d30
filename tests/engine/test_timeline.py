"""What is read off a timeline, on one small enough to check by hand; and what is no timeline."""

from dataclasses import replace

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.model.launch import NATURAL
from engine.model.timeline import MODELLED, Timeline, TimelineError


def timeline(**changed) -> Timeline:
    """Three SMs with two places: SM 0 runs three blocks, SM 1 one, SM 2 none."""
    columns = {
        "kernel": [0, 0, 0, 0],
        "sm": [0, 1, 0, 0],
        "start": [0.0, 0.0, 1.0, 4.0],
        "end": [4.0, 2.0, 3.0, 6.0],
        "head": [0, 0, 1, 1],
        "query_block": [0, 1, 0, 1],
        "key_block": [-1] * 4,
    }
    given = {"order": NATURAL, "kernels": ("attention",), "sms": 3, "resident": (2,), **columns, **changed}
    return Timeline(Experiment(), MODELLED, **given)


def test_what_is_read_off_it_by_hand():
    one = timeline()
    assert one.wave.tolist() == [0, 0, 0, 1]  # how often a place was filled before
    assert one.place.tolist() == [0, 0, 1, 0]  # the lowest that is free
    assert one.busy.tolist() == [6, 2, 0]  # seconds in which an SM has at least one block
    assert one.busy_share == pytest.approx(8 / 18)
    assert one.imbalance == pytest.approx(6 / (8 / 3) - 1)  # of the busiest SM over the average
    assert one.tail == 6  # from when the first SM has nothing left
    assert timeline(sm=[0, 1, 0, 2]).tail == pytest.approx(6 - 2)
    assert [each.tolist() for each in one.running] == [[0, 1, 2, 3, 4, 6], [2, 3, 2, 1, 1, 0]]
    two = timeline(kernels=("scores", "output"), resident=(2, 1), kernel=[0, 0, 0, 1])
    assert two.wave.tolist() == [0, 0, 0, 0]  # each kernel's from zero


def test_equal_timelines_are_those_with_equal_columns():
    assert timeline() == timeline()
    assert timeline() != timeline(sm=[0, 1, 0, 2])
    assert timeline() != replace(timeline(), origin="recorded on a GPU")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"resident": (1,)}, "at most 1 blocks of attention on an SM at once, not 2"),
        ({"sm": [0, 1, 0, 3]}, "SMs must be from 0 to 2"),
        ({"sm": [0, 1, 0, -1]}, "SMs must be from 0 to 2"),
        ({"sms": 10**9}, "1 to 1,024 SMs"),
        ({"start": [1.0, 1.0, 1.0, 4.0]}, "first block must start at 0"),
        ({"end": [4.0, 2.0, 0.5, 6.0]}, "none end before it starts"),
        ({"end": [4.0, 2.0, 3.0, np.inf]}, "finite"),
        ({"head": [0, 0, 1]}, "equally long"),
        ({"order": "backwards"}, "order must be one of heavy first, natural"),
        ({"kernel": [0, 0, 0, 1]}, "kernels must be from 0 to 0"),
    ],
)
def test_what_is_no_timeline_is_refused_in_a_sentence(changed, said):
    with pytest.raises(TimelineError, match=said):
        timeline(**changed)

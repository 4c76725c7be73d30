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


def test_waves_count_how_often_a_place_was_filled():
    assert timeline().wave.tolist() == [0, 0, 0, 1]


def test_a_block_takes_the_lowest_free_place():
    assert timeline().place.tolist() == [0, 0, 1, 0]


def test_busy_time_is_that_of_at_least_one_block():
    assert timeline().busy.tolist() == [6, 2, 0]
    assert timeline().busy_share == pytest.approx(8 / 18)


def test_the_busiest_sm_works_so_much_longer_than_the_average():
    assert timeline().imbalance == pytest.approx(6 / (8 / 3) - 1)


def test_the_tail_begins_when_the_first_sm_has_nothing_left():
    assert timeline().tail == 6
    assert timeline(sm=[0, 1, 0, 2]).tail == pytest.approx(6 - 2)


def test_so_many_blocks_run_from_each_time_on():
    times, blocks = timeline().running
    assert times.tolist() == [0, 1, 2, 3, 4, 6]
    assert blocks.tolist() == [2, 3, 2, 1, 1, 0]


def test_waves_of_each_kernel_count_from_zero():
    two = timeline(kernels=("scores", "output"), resident=(2, 1), kernel=[0, 0, 0, 1])
    assert two.wave.tolist() == [0, 0, 0, 0]


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

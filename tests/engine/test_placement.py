"""Blocks go where a place falls free, and share their SM: held to a twin that steps from event to event."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.placement import makespan_alike, place

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=40)
ALONE_FASTER = st.lists(st.floats(1.0, 3.0), max_size=3)


def speeds_of(faster: list[float]) -> np.ndarray:
    """[places + 1] that fall to 1 where all places are taken."""
    return np.array([1.0, *sorted(faster, reverse=True), 1.0])


def event_by_event(lengths: list[int], sms: int, speeds: np.ndarray) -> tuple[list[int], list, list]:
    """(sm, start, end) of every block, from what runs at every moment."""
    places = len(speeds) - 1

    waiting, now = list(enumerate(lengths)), 0.0
    running: dict[int, list] = {}  # slot: [block, seconds to go where all places are taken]
    sm, start, end = ([0.0] * len(lengths) for _ in range(3))
    while waiting or running:
        for slot in range(sms * places):
            if slot not in running and waiting:
                block, length = waiting.pop(0)
                running[slot] = [block, float(length)]
                sm[block], start[block] = slot % sms, now
        counts = np.bincount([slot % sms for slot in running], minlength=sms)
        rate = {slot: speeds[counts[slot % sms]] for slot in running}
        step = min(left / rate[slot] for slot, (_, left) in running.items())
        now += step
        for slot, held in list(running.items()):
            held[1] -= step * rate[slot]
            if held[1] < 1e-9:
                end[held[0]] = now
                del running[slot]
    return sm, start, end


@given(LENGTHS, st.integers(1, 4), ALONE_FASTER)
def test_every_block_runs_where_and_when_the_twin_says(lengths, sms, faster):
    speeds = speeds_of(faster)
    ours = place(np.array(lengths, float), sms, speeds)
    for each, twin in zip(ours, event_by_event(lengths, sms, speeds), strict=True):
        np.testing.assert_allclose(each, twin, atol=1e-6)


@given(st.integers(1, 60), st.integers(1, 4), ALONE_FASTER)
def test_equal_blocks_need_no_placing(count, sms, faster):
    speeds = speeds_of(faster)
    end = place(np.full(count, 3.0), sms, speeds)[2].max()
    assert makespan_alike(count, 3.0, sms, speeds) == pytest.approx(end)


@given(LENGTHS, st.integers(1, 4), st.integers(1, 3))
def test_no_placing_beats_an_even_spread_or_the_longest_block(lengths, sms, places):
    end = place(np.array(lengths, float), sms, np.ones(places + 1))[2].max()
    assert end >= max(max(lengths), sum(lengths) / (sms * places)) - 1e-9
    assert end <= max(lengths) + sum(lengths) / (sms * places)

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


def event_by_event(
    lengths: list[int], sms: int, speeds: np.ndarray, in_step: bool
) -> tuple[list[int], list, list]:
    """(sm, start, end) of every block, from what runs at every moment."""
    places = len(speeds) - 1

    def turn(slot: int) -> int:  # the first SM, and every fourth, takes two with the others' first
        return slot - sms if sms <= slot < 2 * sms and slot % sms % 4 == 0 else slot

    waiting, now = list(enumerate(lengths)), 0.0
    running: dict[int, list] = {}  # slot: [block, seconds to go where all places are taken]
    sm, start, end = ([0.0] * len(lengths) for _ in range(3))
    while waiting or running:
        for slot in sorted(range(sms * places), key=turn if now > 0 and in_step else None):
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


@given(LENGTHS, st.integers(1, 4), ALONE_FASTER, st.booleans())
def test_every_block_runs_where_and_when_the_twin_says(lengths, sms, faster, in_step):
    speeds = speeds_of(faster)
    ours = place(np.array(lengths, float), sms, speeds, in_step)
    for each, twin in zip(ours, event_by_event(lengths, sms, speeds, in_step), strict=True):
        np.testing.assert_allclose(each, twin, atol=1e-6)


@given(st.integers(1, 60), st.integers(1, 4), ALONE_FASTER, st.booleans())
def test_equal_blocks_need_no_placing(count, sms, faster, in_step):
    speeds = speeds_of(faster)
    end = place(np.full(count, 3.0), sms, speeds, in_step)[2].max()
    assert makespan_alike(count, 3.0, sms, speeds, in_step) == pytest.approx(end)


@pytest.mark.parametrize(("rest", "traced"), [(112, (43, 66, 23)), (88, (58, 60, 14)), (24, (115, 10, 7))])
def test_a_last_round_of_blocks_in_step_leaves_sms_with_two_as_traces_say(rest, traced):
    """SMs with none, one and two blocks of it: of flash2 in 64 x 64 at d 128, 96 and 80 on an H200."""
    speeds = np.array([1.0, 1.5, 1.0])
    sm, _, end = place(np.full(264 + rest, 3.0), 132, speeds, True)
    found = np.bincount(np.bincount(sm[264:], minlength=132), minlength=3)
    assert np.abs(found - traced).max() <= 8
    assert end.max() == 6.0
    spread = place(np.full(264 + rest, 3.0), 132, speeds, False)
    assert (np.bincount(spread[0][264:]).max(), spread[2].max()) == (1, 5.0)


@given(LENGTHS, st.integers(1, 4), st.integers(1, 3))
def test_no_placing_beats_an_even_spread_or_the_longest_block(lengths, sms, places):
    end = place(np.array(lengths, float), sms, np.ones(places + 1))[2].max()
    assert end >= max(max(lengths), sum(lengths) / (sms * places)) - 1e-9
    assert end <= max(lengths) + sum(lengths) / (sms * places)

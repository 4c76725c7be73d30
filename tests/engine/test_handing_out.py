"""Which SM each of a launch's first blocks goes to: held to recorded traces, whose SMs have other numbers."""

from collections import Counter
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.algorithms import ALGORITHMS
from engine.model.handing_out import GROUPS, SMS, SOONER, first_sms
from engine.recordings.file import recording_of
from engine.recordings.timelines import hardware_of, timeline_of, traced_calls

GPUS = pytest.mark.parametrize("gpu", ["h200", "h100"])


def first_blocks(gpu: str) -> list[list[int]]:
    """[calls][blocks] the recorded SMs of a first kernel's blocks that began before any had ended."""
    recording, found = recording_of(gpu), []
    for call in traced_calls(recording):
        if ALGORITHMS[call.provider].draws_ahead(call.problem):
            continue  # its blocks of threads stay and draw tiles
        traced = timeline_of(call, recording.origin, hardware_of(recording))
        here = traced.kernel == 0
        found.append(traced.sm[here & (traced.start < traced.end[here].min())].tolist())
    return found


def numbered(sms: list[int]) -> dict[int, int] | None:
    """Our number of each recorded SM, by the whole rounds of a call; None where no beginning fits."""
    whole = len(sms) // SMS * SMS
    for begin in range(len(GROUPS)):
        pairs = set(zip(sms[:whole], first_sms(whole, SMS, begin), strict=True))
        if len(pairs) == SMS:
            return dict(pairs)
    return None


def group_of(sm: int) -> int:
    """0 for the half that is first, then GROUPS."""
    return sum(sm >= edge for edge in accumulate((sms for sms, _ in GROUPS), initial=SOONER))


@GPUS
def test_whole_rounds_go_where_recorded_traces_say(gpu):
    calls = [sms for sms in first_blocks(gpu) if len(sms) >= SMS]
    assert sum(len(sms) >= 2 * SMS for sms in calls) >= 3
    assert all(numbered(sms) is not None for sms in calls)


@GPUS
def test_what_is_left_over_goes_to_the_half_and_evenly_to_groups_as_recorded_traces_say(gpu):
    """To two SMs: which of a group's parts are first nobody knows."""
    calls = first_blocks(gpu)
    numbers = numbered(next(sms for sms in calls if len(sms) == 3 * SMS))
    left = [sms for sms in calls if len(sms) < SMS]
    assert {len(sms) for sms in left} == {16, 32, 64, 128}
    for sms in left:
        recorded = Counter(group_of(numbers[sm]) for sm in sms)
        ours = Counter(map(group_of, first_sms(len(sms), SMS)))
        assert recorded[0] == ours[0] == SOONER
        assert all(abs(recorded[group] - ours[group]) <= 2 for group in range(1, len(GROUPS) + 1))


@given(st.integers(1, 600), st.integers(0, 7))
def test_every_sm_gets_its_rounds_before_any_gets_a_block_that_is_left_over(blocks, begin):
    rounds, rest = divmod(blocks, SMS)
    counts = Counter(first_sms(blocks, SMS, begin))
    assert sorted(counts[sm] for sm in range(SMS)) == [rounds] * (SMS - rest) + [rounds + 1] * rest


def test_another_gpu_gives_its_sms_blocks_in_turn():
    assert first_sms(5, 2) == (0, 1, 0, 1, 0)

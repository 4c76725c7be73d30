"""The gaps between model and counters, on calls whose counters are made up."""

from __future__ import annotations

import pytest

from engine.problem.problem import Mask, Problem
from engine.recordings.counters import recorded_counters
from engine.recordings.recording import Counters, Device, KernelCounters, Recording
from engine.studies.counter_gaps import busiest, deviations, gaps, left_in_cache

DEVICE = Device("NVIDIA H200", "580.95", {}, {}, 150 * 10**9, "abc", "2026-11-21T09:00:00")
PROBLEM = Problem(1, 16, 16, 1024, 1024, 64, "float16", Mask())


def calls(*read: float, algorithm: str = "flash2", problem=PROBLEM, dram=(7e6,), **more):
    """Calls of which so many bytes came from L2, or from DRAM: 1 MB goes to it."""
    kernels = (
        KernelCounters("k", "1", 1e-3, from_dram, 1e6, each, 1e6, **more)
        for each in read
        for from_dram in dram
    )
    rows = (Counters(algorithm, "forward", problem, 64, 64, kernels=(kernel,)) for kernel in kernels)
    return recorded_counters(Recording(DEVICE, counters=tuple(rows)))


def test_each_gap_is_between_two_levels():
    (one,) = calls(2e7)
    found = gaps(one)
    assert found.l1_share * one.requested_read == pytest.approx(one.requested_read - 2e7)
    assert found.l1_serves
    assert (1 + found.from_l2_off) * 2e7 == pytest.approx(one.modelled_read)
    assert found.l2_share == pytest.approx(1 - 7 / 20)
    assert found.dram_over_compulsory * one.simulation.traffic.compulsory.total_read == pytest.approx(7e6)
    assert (1 + found.model_off) * 7e6 == pytest.approx(one.modelled_dram_read)


def test_l1_serves_nothing_where_the_counts_agree():
    (one,) = calls(calls(1e7)[0].modelled_read)
    assert not gaps(one).l1_serves
    assert deviations([one])["flash2"].requested == (0, 0)


def test_deviations_are_by_algorithm_at_most_and_in_the_median():
    asked = calls(1e7)[0].modelled_read
    rows = calls(asked, asked / 1.5, asked / 3) + calls(1e9, algorithm="flash1")
    found = deviations(rows)
    assert list(found) == ["flash2", "flash1"]
    assert found["flash2"].requested == pytest.approx((2, 0.5))
    assert found["flash2"].l1_serves
    assert not found["flash1"].l1_serves


def test_what_is_left_in_the_cache_is_that_of_a_kernel():
    (one,) = calls(2e7)
    assert left_in_cache([one]) == (one.left_in_cache, one.left_in_cache)
    assert one.left_in_cache == one.modelled_dram_written - 1e6 > 0


def test_the_busiest_unit_is_never_the_tail():
    (one,) = calls(2e7, tensor_percent=41.0, sm_percent=10.0)
    assert busiest(one) == ("tensor core", 0.41)


def test_of_calls_those_whose_reads_lie_in_the_range_are_counted():
    problem = Problem(1, 2, 2, 98340, 98340, 64, "float16", Mask())
    rows = calls(1e10, algorithm="flash3", problem=problem, dram=(1e7, 1.43e8, 1e9))
    found = deviations(rows)["flash3"]
    assert (found.calls, found.within) == (3, 1)

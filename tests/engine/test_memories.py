"""The memories of a GPU against figures that others published of them."""

from __future__ import annotations

import pytest

from engine.problem.hardware import GPUS
from engine.studies.memories import HBM, L2, REGISTERS, SHARED, memories


def of(hardware: str) -> dict:
    return {memory.name: memory for memory in memories(GPUS[hardware])}


@pytest.mark.parametrize(
    ("hardware", "terabytes"),
    [
        ("t4", 16 * 4 * 40 * 1.59e9 / 1e12),  # 16 load units of 4 bytes, SMs, clock
        ("a100", 32 * 4 * 108 * 1.41e9 / 1e12),  # 32 banks of 4 bytes, SMs, clock
        ("h100", 32 * 4 * 132 * 1.83e9 / 1e12),
    ],
)
def test_shared_memory_gives_four_bytes_per_bank_and_clock(hardware, terabytes):
    assert of(hardware)[SHARED].bytes_per_second == pytest.approx(1e12 * terabytes, rel=0.001)


def test_the_sram_of_an_a100_is_that_of_flashattentions_paper():
    """arXiv 2205.14135, section 2.1: about 19 TB/s beside HBM of 1.5 to 2.0 TB/s."""
    a100 = of("a100")
    assert a100[SHARED].bytes_per_second == pytest.approx(19e12, rel=0.03)
    assert a100[HBM].bytes_per_second == pytest.approx(2.0e12, rel=0.03)


def test_the_hierarchy_of_an_h100_is_that_of_flashattention_3s_paper():
    """arXiv 2407.08608, table 1: registers 256 KiB, shared memory 228 KiB an SM at 31 TB/s, L2 50 MiB."""
    h100 = of("h100")
    assert (h100[REGISTERS].each, h100[SHARED].each) == (256 * 1024, 228 * 1024)
    assert h100[SHARED].bytes_per_second == pytest.approx(31e12, rel=0.01)
    assert h100[L2].bytes == 50 * 2**20
    assert h100[HBM].bytes == pytest.approx(80 * 2**30, rel=0.012)  # what the driver leaves of it
    assert h100[HBM].bytes_per_second == pytest.approx(3.35e12)


def test_l2_is_as_fast_as_the_literature_says_or_as_was_measured():
    """The same table 3 of an A100; an H200's SMs get more than its 9.0 TB/s, as neighbours share answers."""
    assert of("a100")[L2].bytes_per_second == pytest.approx(7.219e12, rel=0.001)
    for hopper in ("h100", "h200"):
        assert of(hopper)[L2].bytes_per_second == pytest.approx(13.5e12, rel=0.001)
    assert of("h200")[L2].reached == pytest.approx(9.37e12, rel=0.001)  # of attention in blocks of 16 rows


@pytest.mark.parametrize("hardware", GPUS)
def test_the_nearer_a_memory_the_smaller_and_faster_it_is(hardware):
    shared, l2, hbm = (of(hardware)[name] for name in (SHARED, L2, HBM))
    assert shared.bytes_per_second >= l2.bytes_per_second > hbm.bytes_per_second
    assert shared.each < l2.bytes < hbm.bytes

"""The memories of a GPU against figures that others published of them."""

from __future__ import annotations

import pytest

from engine.problem.hardware import GPUS
from engine.studies.memories import HBM, L2, REGISTERS, SHARED, memories


def of(hardware: str) -> dict:
    return {memory.name: memory for memory in memories(GPUS[hardware])}


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
    assert h100[L2].bytes_per_second == GPUS["h100"].cache_bytes_per_second
    assert of("h200")[L2].reached == pytest.approx(9.37e12, rel=0.001)  # of attention in blocks of 16 rows
    assert h100[HBM].bytes == pytest.approx(80 * 2**30, rel=0.012)  # what the driver leaves of it
    assert h100[HBM].bytes_per_second == pytest.approx(3.35e12)


@pytest.mark.parametrize("hardware", GPUS)
def test_the_nearer_a_memory_the_smaller_and_faster_it_is(hardware):
    shared, l2, hbm = (of(hardware)[name] for name in (SHARED, L2, HBM))
    assert shared.bytes_per_second >= l2.bytes_per_second > hbm.bytes_per_second
    assert shared.each < l2.bytes < hbm.bytes

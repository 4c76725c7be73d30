"""The kernel that only reads has read everything, as often as it says."""

import pytest
import torch

from kernels import interpreted, read_cache
from kernels.measuring import TILE

DEVICE = "cpu" if interpreted() else "cuda"


def test_every_program_reads_the_whole_buffer_each_time():
    buffer = torch.arange(3 * TILE, dtype=torch.float32, device=DEVICE) / TILE
    sums = read_cache(buffer, programs=5, passes=2)
    torch.testing.assert_close(
        sums, torch.full_like(sums, 2 * float(buffer.double().sum())), rtol=1e-5, atol=0
    )


@pytest.mark.parametrize("numbers", [TILE + 1, TILE // 2])
def test_a_buffer_of_broken_tiles_is_refused(numbers):
    with pytest.raises(ValueError, match=f"a multiple of {TILE} numbers"):
        read_cache(torch.zeros(numbers, device=DEVICE), 1, 1)

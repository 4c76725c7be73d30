"""The micro-benchmarks' kernels do what their rates are counted for: every one but Gluon's."""

import pytest
import torch

from kernels import Benchmarks

SIZE = 1 << 20
PLACE = 2048  # of the first block's sum


@pytest.fixture
def bench(device) -> Benchmarks:
    return Benchmarks(device, SIZE)


def settled(x: torch.Tensor, times: int) -> torch.Tensor:
    for _ in range(times):
        x = torch.exp2(-x)
    return x


@pytest.mark.parametrize(("stages", "exponentials"), [(0, 0), (2, 1)])
def test_products_add_up(bench, stages, exponentials):
    numbers, begin = (
        bench.numbers[torch.float32].half().double().view(-1, 16, 16),
        bench.sums[:PLACE].double(),
    )
    bench.products(3, 2, torch.float16, 16, 16, 16, stages=stages, exponentials=exponentials)
    for block in (0, 1):
        tiles = [block, block + 1, block + 2] if stages else [0, 0, 0]
        total = sum((numbers[0] @ numbers[tile].T).sum() for tile in tiles)
        total += settled(begin, 3 * exponentials).sum()
        assert bench.sums[PLACE + block].item() == pytest.approx(total.item(), rel=1e-4, abs=0.05)


def test_numbers_are_worked_on_as_often_as_counted(bench):
    begin = bench.sums[:PLACE].double()
    bench.exponentials(5, 1)
    assert bench.sums[PLACE].item() == pytest.approx(settled(begin, 5).sum().item(), rel=1e-5)
    bench.arithmetic(2, 1)
    expected = ((begin * 0.999 + 0.001) * 0.999 + 0.001).sum()
    assert bench.sums[PLACE].item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(("together", "tiles"), [(1, ([0, 4, 8], [3, 7, 11])), (2, ([0, 2, 4], [1, 3, 5]))])
def test_a_walk_reads_its_tiles(bench, together, tiles):
    bench.buffer.copy_(torch.arange(SIZE // 4) // 4096)
    bench.walk(3, 4, 16 * 16384, together=together)
    for block, own in zip((0, 3), tiles, strict=True):
        assert bench.sums[PLACE + block].item() == 4096 * sum(own)


def test_a_copy_copies_the_first_half(bench):
    bench.buffer.copy_(torch.randn(SIZE // 4))
    bench.copy(SIZE // 2 // 16384)
    assert torch.equal(*bench.buffer.view(2, -1))


def test_a_wait_goes_on_from_what_it_read(bench):
    bench.wait(5, 2, 64 * 8192)
    assert bench.sums[PLACE : PLACE + 2].tolist() == [5, 37]
    bench.buffer.view(torch.int32)[2048] = 3  # of the second tile: three further
    bench.wait(5, 1, 64 * 8192)
    assert bench.sums[PLACE].item() == 8

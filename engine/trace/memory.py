"""HBM as arrays of which every access is counted, an SRAM of limited size, and tiles streamed through it."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from engine.model.footprint import IN_REGISTERS
from engine.problem.dtype import dtype_named, round_to
from engine.problem.hardware import KIB
from engine.schedule.bytes import TENSORS, Bytes
from engine.schedule.step import Tensor
from engine.trace.softmax import falling


class SramOverflow(RuntimeError):  # noqa: N818 - the word for what happens
    """A tile does not fit what is left of the SRAM; says the need and the capacity, bytes."""

    def __init__(self, need: int, capacity: int, gpu: str):
        super().__init__(f"needs {-(-need // KIB):,} KiB, but {gpu} allows {capacity // KIB} KiB per block")
        self.need, self.capacity = need, capacity


class Memory:
    """HBM as arrays of float32 values that count as their dtype's size, and an SRAM of limited size.

    A load or store of a block counts its bytes by tensor; `hold` and `held.clear` keep account of the chip.
    """

    def __init__(self, arrays: Mapping, dtypes: Mapping, capacity: int = 0, gpu: str = ""):
        self.arrays, self.capacity, self.gpu = dict(arrays), capacity, gpu
        self.dtypes = {tensor: dtype_named(dtypes[tensor]) for tensor in arrays}
        self.read, self.written = (dict.fromkeys((*TENSORS, *arrays), 0) for _ in range(2))
        self.held: dict[Tensor, int] = {}
        self.peak = 0

    def load(self, tensor, place: tuple, rows: int | None = None) -> np.ndarray:
        """A copy of a block, counted; as if it had so many rows, where those copied are not its own."""
        block = self.arrays[tensor][place].copy()
        values = block.size if rows is None else int(rows) * block.shape[-1]
        self.read[tensor] += values * self.dtypes[tensor].bytes
        return block

    def store(self, tensor, place: tuple, block: np.ndarray) -> None:
        """Put a block back, rounded to the tensor's dtype, counted."""
        self.arrays[tensor][place] = round_to(block, self.dtypes[tensor].name)
        self.written[tensor] += block.size * self.dtypes[tensor].bytes

    def hold(self, tensor: Tensor, size: int) -> None:
        """Set room on the chip aside for a tile, in place of the tensor's last; raises SramOverflow.

        What a kernel sums is in registers, of which there are never too few: they spill.
        """
        self.held[tensor] = size
        need = sum(held for tensor, held in self.held.items() if tensor not in IN_REGISTERS)
        if need > self.capacity:
            raise SramOverflow(need, self.capacity, self.gpu)
        self.peak = max(self.peak, sum(self.held.values()))

    def counted(self) -> Bytes:
        return Bytes.of(self.read, self.written)


def streamed(
    q: np.ndarray, tiles: Iterable[tuple[np.ndarray, np.ndarray]], v_dim: int, weighed: Callable = np.matmul
) -> tuple[np.ndarray, np.ndarray]:
    """O [rows, v_dim] and lse [rows] of q [rows, d], scaled, over tiles of K and V in turn, float64.

    weighed: what P and V are multiplied by.
    """
    m, total, out = np.full(len(q), -np.inf), np.zeros(len(q)), np.zeros((len(q), v_dim))
    for k, v in tiles:
        scores = q @ k.T
        new = np.maximum(m, scores.max(1))
        alpha, weights = falling(m, new), falling(scores, new[:, None])
        total = total * alpha + weights.sum(1)
        out = out * alpha[:, None] + weighed(weights, v)
        m = new
    return out / total[:, None], m + np.log(total)

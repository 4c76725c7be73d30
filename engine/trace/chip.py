"""The chip that a schedule's steps run on: its tiles by tensor, its SRAM, and the memory behind it."""

from collections.abc import Mapping

import numpy as np

from engine.model.footprint import IN_REGISTERS
from engine.model.launch import Launch
from engine.problem.bounds import visible
from engine.problem.dtype import dtype_named, round_to
from engine.problem.hardware import KIB
from engine.problem.terms import before_keys, with_terms
from engine.schedule.bytes import TENSORS, Bytes
from engine.schedule.nest import Phase
from engine.schedule.step import BY_KEY, INPUTS, PARTIALS, Tensor

NOTHING = np.float32(-np.inf)
ALWAYS_FLOAT32 = (Tensor.STATISTICS, Tensor.LSE, Tensor.LSE_LOG2, Tensor.DELTA, *PARTIALS)  # in any dtype


class Chip:
    """One program after another: every load and store through the memory, every tile within the SRAM."""

    def __init__(self, launch: Launch, arrays: Mapping[Tensor, np.ndarray]):
        gpu, dtype = launch.gpu, launch.problem.dtype
        self.problem, self.schedule, self.parts = launch.schedule.problem, launch.schedule, launch.parts
        dtypes = {tensor: dtype if tensor in INPUTS else launch.problem.stored for tensor in arrays}
        dtypes |= {tensor: "float32" for tensor in arrays if tensor in ALWAYS_FLOAT32}
        self.memory = Memory(dict(arrays), dtypes, gpu.shared_bytes_block, gpu.with_article)
        self.tiles: dict[Tensor, np.ndarray] = {}
        self.phase = -1

    def _begin(self, phase: int) -> None:
        """Start a kernel: the chip is empty."""
        self.phase = phase
        self.kernel: Phase = self.schedule.phases[phase]
        self.sizes = {part.tensor: part.bytes for part in self.parts[self.kernel.name]}
        self.memory.drop()
        self.tiles.clear()

    def _rows(self, query: int) -> slice:
        block = self.schedule.tiling.block_q
        return slice(query * block, min((query + 1) * block, self.problem.seq_q))

    def _keys(self, key: int) -> slice:
        """The keys of a block; all of them where there is none."""
        block = self.schedule.tiling.block_kv
        return (
            slice(0, self.problem.seq_kv)
            if key < 0
            else slice(key * block, min((key + 1) * block, self.problem.seq_kv))
        )

    def _place(self, tensor: Tensor, query: int, key: int) -> tuple[slice, ...]:
        if tensor in BY_KEY:
            return (self._keys(key),)
        if tensor in (Tensor.S, Tensor.P):
            return self._rows(query), self._keys(key)
        return (self._rows(query),)

    def _keep(self, tensor: Tensor, tile: np.ndarray) -> None:
        """Hold a tile on the chip, in its kernel's share of the SRAM; what registers hold takes none."""
        self.memory.hold(tensor, self.sizes.get(tensor, 0))
        self.tiles[tensor] = tile

    def _masked_scores(self, query: int, key: int, scale: float) -> np.ndarray:
        """[rows, keys] float32 products of the Q and K on the chip, times a scale; -inf where masked."""
        rows, keys = self._rows(query), self._keys(key)
        at = tuple(np.arange(place.start, place.stop) for place in (rows, keys))
        seen = visible(self.problem, *at)
        products = (self.tiles[Tensor.Q] @ self.tiles[Tensor.K].T) * scale
        if self.problem.terms:  # of scores in natural units
            unit = np.float32(scale / self.problem.scale)
            products = with_terms(self.problem, products / unit, *at) * unit
        return np.where(seen, products, NOTHING)

    def _before_keys(self, rows: int) -> np.ndarray:
        """[rows, 2] m and l of rows that have seen no key."""
        return np.tile(np.array(before_keys(self.problem), np.float32), (rows, 1))


class SramOverflow(RuntimeError):  # noqa: N818 - the word for what happens
    """A tile does not fit what is left of the SRAM; says the need and the capacity, bytes."""

    def __init__(self, need: int, capacity: int, gpu: str):
        super().__init__(f"needs {-(-need // KIB):,} KiB, but {gpu} allows {capacity // KIB} KiB per block")
        self.need, self.capacity = need, capacity


class Memory:
    """HBM as arrays of float32 values that count as their dtype's size, and an SRAM of limited size.

    A load or store of a block counts its bytes by tensor; `hold` and `drop` keep account of the chip.
    """

    def __init__(self, arrays: dict[Tensor, np.ndarray], dtypes: dict[Tensor, str], capacity: int, gpu: str):
        self.arrays, self.dtypes = arrays, dtypes
        self.capacity, self.gpu = capacity, gpu
        self.read = dict.fromkeys((*TENSORS, *arrays), 0)
        self.written = dict.fromkeys((*TENSORS, *arrays), 0)
        self.held: dict[Tensor, int] = {}
        self.peak = 0

    def load(self, tensor: Tensor, place: tuple[slice, ...], rows: int | None = None) -> np.ndarray:
        """A copy of a block, counted; as if it had so many rows, where those copied are not its own."""
        block = self.arrays[tensor][place].copy()
        values = block.size if rows is None else int(rows) * block.shape[-1]
        self.read[tensor] += values * dtype_named(self.dtypes[tensor]).bytes
        return block

    def store(self, tensor: Tensor, place: tuple[slice, ...], block: np.ndarray) -> None:
        """Put a block back, rounded to the tensor's dtype, counted."""
        self.arrays[tensor][place] = round_to(block, self.dtypes[tensor])
        self.written[tensor] += block.size * dtype_named(self.dtypes[tensor]).bytes

    def hold(self, tensor: Tensor, size: int) -> None:
        """Set room on the chip aside for a tile, in place of the tensor's last; raises SramOverflow.

        What a kernel sums is in registers, of which there are never too few: they spill.
        """
        self.held[tensor] = size
        need = sum(held for tensor, held in self.held.items() if tensor not in IN_REGISTERS)
        if need > self.capacity:
            raise SramOverflow(need, self.capacity, self.gpu)
        self.peak = max(self.peak, sum(self.held.values()))

    def drop(self) -> None:
        """Give all SRAM back, as a program does when it ends."""
        self.held.clear()

    def counted(self) -> Bytes:
        """What has moved so far."""
        return Bytes.of(self.read, self.written)

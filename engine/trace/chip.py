"""The chip that a schedule's steps run on: its tiles by tensor, its SRAM, and the memory behind it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.model.launch import Launch
from engine.problem.bounds import visible
from engine.schedule.nest import Phase
from engine.schedule.step import BY_KEY, PARTIALS, Tensor
from engine.trace.memory import Memory

NOTHING = np.float32(-np.inf)
ALWAYS_FLOAT32 = (Tensor.STATISTICS, Tensor.LSE, Tensor.LSE_LOG2, Tensor.DELTA, *PARTIALS)  # in any dtype


class Chip:
    """One program after another: every load and store through the memory, every tile within the SRAM."""

    def __init__(self, launch: Launch, arrays: Mapping[Tensor, np.ndarray]):
        gpu, dtype = launch.gpu, launch.problem.dtype
        self.problem, self.schedule, self.parts = launch.schedule.problem, launch.schedule, launch.parts
        dtypes = {tensor: "float32" if tensor in ALWAYS_FLOAT32 else dtype for tensor in arrays}
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
        at = (np.arange(place.start, place.stop) for place in (rows, keys))
        seen = visible(self.problem, *at)
        products = (self.tiles[Tensor.Q] @ self.tiles[Tensor.K].T) * scale
        return np.where(seen, products, NOTHING)

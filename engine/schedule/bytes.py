"""Bytes by tensor and direction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from engine.schedule.step import Tensor

TENSORS = tuple(tensor for tensor in Tensor if tensor != Tensor.NONE)


@dataclass(frozen=True)
class Bytes:
    """Bytes read and written, by tensor; every tensor has an entry, 0 where it does not move."""

    read: Mapping[Tensor, int]
    written: Mapping[Tensor, int]

    @classmethod
    def of(cls, read: Mapping[Tensor, int], written: Mapping[Tensor, int]) -> Bytes:
        """Bytes from what moves; tensors left out move nothing."""
        return cls(
            MappingProxyType({tensor: int(read.get(tensor, 0)) for tensor in TENSORS}),
            MappingProxyType({tensor: int(written.get(tensor, 0)) for tensor in TENSORS}),
        )

    @property
    def total_read(self) -> int:
        return sum(self.read.values())

    @property
    def total_written(self) -> int:
        return sum(self.written.values())

    @property
    def total(self) -> int:
        return self.total_read + self.total_written

    def times(self, factor: int) -> Bytes:
        return Bytes.of(
            {tensor: amount * factor for tensor, amount in self.read.items()},
            {tensor: amount * factor for tensor, amount in self.written.items()},
        )

"""The roofline of a GPU: what it can reach at an arithmetic intensity (Williams et al., CACM 52(4), 2009)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.problem.hardware import Gpu


@dataclass(frozen=True)
class Roofline:
    """A GPU's ceilings in one dtype, from its datasheet.

    Attributes:
        peak_flops: FLOP/s of dense matrix products.
        bytes_per_second: of device memory.
        cache_bytes_per_second: from L2 to all SMs.
    """

    peak_flops: float
    bytes_per_second: float
    cache_bytes_per_second: float

    @property
    def ridge(self) -> float:
        """FLOP/byte from which on arithmetic is the limit."""
        return self.peak_flops / self.bytes_per_second

    def attainable(self, intensity):
        """FLOP/s that an intensity (FLOP/byte, a number or an array) allows."""
        return np.minimum(self.peak_flops, np.asarray(intensity) * self.bytes_per_second)


def roofline(gpu: Gpu, dtype: str) -> Roofline:
    """The roofline of a GPU for tensors of a dtype."""
    return Roofline(gpu.products_per_second(dtype), gpu.memory_bytes_per_second, gpu.cache_bytes_per_second)

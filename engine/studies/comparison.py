"""Measured rows beside modelled ones: the same figures of both, and where they stand under the roofline."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from engine.problem.flops import field_flops
from engine.problem.hardware import Gpu
from engine.recordings.rows import BASELINE, Row, modelled_row
from engine.studies.survey import ByLength

HERE = "measured here"


def measured_rows(rows: Iterable[Row]) -> list[Row]:
    """The rows that have a time, with the speed-up over unfused PyTorch at that length, if it was timed."""
    timed = [row for row in rows if row["skipped"] is None]
    base = {row["keys"]: row["p50"] for row in timed if row["provider"] == BASELINE}
    return [
        {**row, "speedup": base[row["keys"]] / row["p50"] if row["keys"] in base else None} for row in timed
    ]


def modelled_rows(survey: ByLength) -> list[Row]:
    """The modelled times of every algorithm over the length, in the same figures as measured rows.

    Beside them "HBM": FLOPs, as the field counts them, for each DRAM byte.
    """
    return [
        modelled_row(one.experiment, keys)
        | {"HBM": field_flops(one.experiment.problem) / one.traffic.dram.total}
        for simulations in survey.simulations.values()
        for keys, one in zip(survey.lengths, simulations, strict=True)
    ]


@dataclass(frozen=True)
class Roofline:
    """A GPU's ceilings in one dtype, from its datasheet (Williams et al., CACM 52(4), 2009)."""

    peak_flops: float  # FLOP/s of dense matrix products
    bytes_per_second: float  # of device memory
    cache_bytes_per_second: float  # from L2 to all SMs

    @property
    def ridge(self) -> float:
        """FLOP/byte from which on arithmetic is the limit."""
        return self.peak_flops / self.bytes_per_second

    def attainable(self, intensity):
        """FLOP/s that an intensity (FLOP/byte, a number or an array) allows."""
        return np.minimum(self.peak_flops, np.asarray(intensity) * self.bytes_per_second)


def roofline(gpu: Gpu, dtype: str) -> Roofline:
    return Roofline(gpu.products_per_second(dtype), gpu.memory_bytes_per_second, gpu.cache_bytes_per_second)

"""Measured rows beside modelled ones: the same figures of both, and where they stand under the roofline."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from engine.algorithms import ALGORITHMS
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.problem.flops import field_flops
from engine.problem.hardware import Gpu
from engine.recordings.rows import BASELINE, Row, modelled_row
from engine.studies.drawable import at_length
from engine.studies.survey import ByLength

HERE = "measured here"
UNFUSED, FUSED = "standard", "flash2"  # what moves as much as PyTorch's attention does


def measured_rows(rows: Iterable[Row]) -> list[Row]:
    """The rows that have a time, with the speed-up over unfused PyTorch at that length, if it was timed."""
    timed = [row for row in rows if row["skipped"] is None]
    base = {row["keys"]: row["p50"] for row in timed if row["provider"] == BASELINE}
    return [
        {**row, "speedup": base[row["keys"]] / row["p50"] if row["keys"] in base else None} for row in timed
    ]


def modelled_rows(survey: ByLength) -> list[Row]:
    """The modelled times of every algorithm over the length, in the same figures as measured rows."""
    return [
        modelled_row(simulation.experiment, keys)
        for simulations in survey.simulations.values()
        for keys, simulation in zip(survey.lengths, simulations, strict=True)
    ]


def intensity(experiment: Experiment, provider: str, keys: int) -> float:
    """FLOPs, as the field counts them, a modelled DRAM byte, of what a provider runs at a length."""
    peer = UNFUSED if provider == BASELINE else FUSED
    algorithm = provider if provider in ALGORITHMS else peer
    simulation = simulate(at_length(experiment.changed(algorithm=algorithm), keys))
    return field_flops(simulation.experiment.problem) / simulation.traffic.dram.total


def under_roof(experiment: Experiment, rows: Iterable[Row]) -> list[Row]:
    """The rows with their intensity of HBM, FLOP/byte, modelled."""
    return [{**row, "HBM": intensity(experiment, row["provider"], row["keys"])} for row in rows]


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

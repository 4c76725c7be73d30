"""Which tile requests reach DRAM."""

from __future__ import annotations

from engine.experiment import Experiment
from engine.schedule import Schedule, Tensor


def dram_bytes(experiment: Experiment, schedule: Schedule) -> tuple[dict[Tensor, int], dict[Tensor, int]]:
    from engine.traffic import compulsory_bytes

    b = compulsory_bytes(schedule)
    return dict(b.read), dict(b.written)

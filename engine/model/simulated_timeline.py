"""A timeline without a GPU: every block placed on an SM by the model that gives a kernel its time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from engine.experiment import Experiment
from engine.model.grid import Grid, default_order
from engine.model.launch import schedule_of
from engine.model.pipeline import pipeline_of
from engine.model.rates import LAUNCH
from engine.model.timeline import MODELLED, ORDERS, Timeline, TimelineError
from engine.model.traffic import traffic
from engine.model.work import HBM, work_of

MOST_BLOCKS = 200_000  # that one timeline holds


@lru_cache(maxsize=32)
def simulate_timeline(experiment: Experiment, order: str | None = None) -> Timeline:
    """Every block of an experiment on its SM, modelled; raises TimelineError where there are too many.

    order is one of `ORDERS`, by default what the kernel does. Its `seconds` and the start of
    the first kernel are `simulate(experiment).modelled.seconds`, up to what grouping blocks costs there.
    """
    order = default_order(experiment) if order is None else order
    if order not in ORDERS:
        raise TimelineError(f"order is {order!r}; it must be one of {', '.join(ORDERS)}")
    schedule = schedule_of(experiment)
    check_blocks(sum(Grid.of(experiment, phase).blocks for phase in schedule.phases))
    moved, pipeline = traffic(experiment, schedule), pipeline_of(experiment.algorithm)
    begin, places, parts = 0.0, [], []
    for index, phase in enumerate(schedule.phases):
        work = work_of(experiment, schedule, phase, moved, pipeline)
        sm, start, end = work.placed(order)
        stretched = max(1.0, work.units[HBM] / float(end.max()))  # where HBM cannot follow, all blocks wait
        kernel = np.full(len(sm), index)
        parts.append(
            (kernel, sm, begin + start * stretched, begin + end * stretched, *work.grid.names(order))
        )
        begin += float(end.max()) * stretched + LAUNCH
        places.append(work.places)
    names = tuple(phase.name for phase in schedule.phases)
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Timeline(experiment, MODELLED, order, names, experiment.gpu.sms, tuple(places), *columns)


def check_blocks(blocks: int) -> None:
    """Raise TimelineError if a timeline cannot hold so many blocks."""
    if blocks > MOST_BLOCKS:
        raise TimelineError(
            f"a timeline has at most {MOST_BLOCKS:,} blocks, this one {blocks:,}: take a smaller problem"
        )

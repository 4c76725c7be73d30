"""A timeline without a GPU: every block placed on an SM by the model that gives a kernel its time."""

import numpy as np

from engine.experiment import Experiment
from engine.model.block_seconds import work_of
from engine.model.launch import ORDERS, launch
from engine.model.timeline import MODELLED, Timeline, TimelineError
from engine.model.traffic import traffic
from engine.problem.cache import cached

MOST_BLOCKS = 200_000  # that one timeline holds


@cached(most=32, most_bytes=48 * 2**20)
def simulate_timeline(experiment: Experiment, order: str | None = None) -> Timeline:
    """Every block of an experiment on its SM, modelled; raises TimelineError where there are too many.

    order is one of `ORDERS`, by default what the kernel does. Its `seconds` and the start of
    the first kernel are `simulate(experiment).modelled.seconds`, up to what grouping blocks costs there.
    """
    run = launch(experiment)
    order = run.order if order is None else order
    if order not in ORDERS:
        raise TimelineError(f"order is {order!r}; it must be one of {', '.join(ORDERS)}")
    check_blocks(run.blocks)
    moved, begin, places, parts = traffic(run), 0.0, [], []
    for index, kernel in enumerate(run.kernels):
        work = work_of(run, kernel, moved)
        sm, start, end = work.placed(order)
        seconds = float(end.max())
        stretched = work.with_memory(seconds) / seconds  # where HBM cannot follow, all blocks wait
        begin += run.start(kernel.phase) * (index > 0)
        times = begin + start * stretched, begin + end * stretched
        parts.append((np.full(len(sm), index), sm, *times, *kernel.names(order, run.schedule)))
        begin += seconds * stretched
        places.append(work.places)
    names = tuple(kernel.phase.name for kernel in run.kernels)
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Timeline(experiment, MODELLED, order, names, experiment.gpu.sms, tuple(places), *columns)


def check_blocks(blocks: int) -> None:
    """Raise TimelineError if a timeline cannot hold so many blocks."""
    if blocks > MOST_BLOCKS:
        raise TimelineError(
            f"a timeline has at most {MOST_BLOCKS:,} blocks, this one {blocks:,}: take a smaller problem"
        )

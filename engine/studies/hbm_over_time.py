"""What crosses HBM while a call runs: modelled, the DRAM bytes laid on the blocks of the modelled timeline.

A block asks for its rows of Q as it starts and leaves O as it ends. What several blocks of a head walk over,
K and V, comes while the first of them walks, and what L2 has lost by then comes evenly. No more crosses than
the memory delivers: the rest waits.
"""

from dataclasses import dataclass

import numpy as np

from engine.experiment import Experiment
from engine.model.launch import Kernel, launch
from engine.model.simulated_timeline import simulate_timeline
from engine.model.simulation import simulate
from engine.model.timeline import Timeline
from engine.schedule.step import Operation
from engine.studies.crossing import parts_of, shares_of


@dataclass(frozen=True)
class Flow:
    """Bytes across HBM over time.

    Attributes:
        interval: seconds of each interval.
        read, written: [intervals] float64, bytes.
    """

    interval: float
    read: np.ndarray
    written: np.ndarray


def modelled_flow(experiment: Experiment, interval: float) -> Flow:
    """The bytes of a call's intervals, which add up to the DRAM bytes of its `Traffic`.

    Raises TimelineError where its blocks are too many for a timeline.
    """
    run, traffic, timeline = launch(experiment), simulate(experiment).traffic, simulate_timeline(experiment)
    edges = np.arange(int(np.ceil(timeline.seconds / interval)) + 1) * interval
    found = []
    for operation, dram in ((Operation.LOAD, traffic.dram.read), (Operation.STORE, traffic.dram.written)):
        fetched = list(parts_of(run, traffic, operation))
        share, moved = shares_of(fetched, dram), np.zeros(len(edges) - 1)
        for index, once, again, tensor in fetched:
            kernel, blocks = run.kernels[index], timeline.kernel == index
            begin, end = timeline.start[blocks], timeline.end[blocks]
            own = _own(kernel, tensor, operation, begin, end)
            if own is None:
                first = _first_of_heads(timeline, blocks, kernel.group)
                moved += share[tensor] * _spread(edges, begin[first], end[first], once)
                moved += share[tensor] * _spread(edges, begin, end, again)
            else:
                moved += share[tensor] * _spread(edges, *own, once + again)
        found.append(moved)
    return Flow(interval, *_delivered(found, experiment.gpu.memory_bytes_per_second * interval))


def _own(kernel: Kernel, tensor, operation, begin, end) -> tuple[np.ndarray, np.ndarray] | None:
    """From when to when each block moves a tensor that it alone moves; None where others walk over it too."""
    around = kernel.phase.before if operation == Operation.LOAD else kernel.phase.after
    if any(step.tensor == tensor and step.operation == operation for step in around):
        at = begin if operation == Operation.LOAD else end
        return at, at
    inner_only = operation == Operation.LOAD and kernel.count > 1
    return None if inner_only else (begin, end)


def _first_of_heads(timeline: Timeline, blocks: np.ndarray, group: int) -> np.ndarray:
    """Indices of the block that starts first of those that share a head of K and V, among some blocks."""
    shared, start = timeline.head[blocks] // group, timeline.start[blocks]
    order = np.lexsort((start, shared))
    return order[np.unique(shared[order], return_index=True)[1]]


def _spread(edges: np.ndarray, begin: np.ndarray, end: np.ndarray, amount: float) -> np.ndarray:
    """[intervals] of an amount that all blocks move evenly from when to when, in proportion to their time."""
    last = edges[-1]
    lasts = np.maximum(end - begin, edges[1] / 2)
    begin = np.minimum(begin, last - lasts)
    rate = amount / lasts.sum() if np.ptp(lasts) else amount / len(lasts) / lasts[0]
    change = np.repeat((rate, -rate), len(begin))
    times = np.clip(np.concatenate((begin, begin + lasts)), 0, last)
    bins = edges.searchsorted(times)
    rates = np.bincount(bins, change, len(edges)).cumsum()
    moments = np.bincount(bins, change * times, len(edges)).cumsum()
    return np.diff(edges * rates - moments)


def _delivered(asked: list[np.ndarray], most: float) -> list[np.ndarray]:
    """Bytes as they cross, of those asked for by then: no more an interval than the memory delivers."""
    total = np.zeros(len(asked[0]))
    waiting, came = np.zeros(len(asked)), [np.zeros_like(way) for way in asked]
    for at in range(len(total)):
        waiting += [way[at] for way in asked]
        share = 1.0 if at == len(total) - 1 else min(1.0, most / max(waiting.sum(), most))
        for way, amount in zip(came, waiting * share, strict=True):
            way[at] = amount
        waiting *= 1 - share
    return came

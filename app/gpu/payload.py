"""Timelines packed for the browser: one block of bytes, laid out as `app.canvas.pack` says."""

from collections.abc import Sequence

import numpy as np

from app.canvas.pack import pack
from engine.model.launch import HEAVY_FIRST, NATURAL, schedule_of
from engine.model.timeline import MODELLED, Timeline

MICRO = 1e6
ORDER_NAMES = {NATURAL: "natural order", HEAVY_FIRST: "heavy blocks first"}


def build(timelines: Sequence[Timeline]) -> bytes:
    """The payload of timelines of one problem and tiling, drawn under one another on one clock."""
    experiment = timelines[0].experiment
    problem = experiment.problem
    schedule = schedule_of(experiment)
    header = {
        "sms": timelines[0].sms,
        "heads": problem.batch * problem.heads,
        "seq_q": problem.seq_q,
        "seq_kv": problem.seq_kv,
        "queryBlocks": len(schedule.query_rows),
        "keyBlocks": len(schedule.key_rows),
        "unfused": experiment.record.unfused,
        "lanes": [_lane(timeline) for timeline in timelines],
    }
    arrays = {"first": schedule.bounds.first.astype(np.int32), "stop": schedule.bounds.stop.astype(np.int32)}
    for number, timeline in enumerate(timelines):
        arrays |= {f"lane{number}.{name}": values for name, values in _columns(timeline).items()}
    return pack(header, arrays)


def _lane(timeline: Timeline) -> dict:
    """What is said of a timeline as a whole; times in microseconds."""
    return {
        "name": ORDER_NAMES[timeline.order],
        "origin": timeline.origin,
        "source": MODELLED if timeline.origin == MODELLED else "recorded",
        "tail": timeline.tail * MICRO,
        "busy": timeline.busy_share,
        "imbalance": timeline.imbalance,
        "kernels": timeline.kernels,
        "resident": timeline.resident,
        "waves": int(timeline.wave.max()) + 1,
        "reverse": any(phase.reverse for phase in schedule_of(timeline.experiment).phases),
    }


def _columns(timeline: Timeline) -> dict[str, np.ndarray]:
    return {
        "sm": timeline.sm,
        "start": (timeline.start * MICRO).astype(np.float32),
        "end": (timeline.end * MICRO).astype(np.float32),
        "head": timeline.head,
        "query": timeline.query_block,
        "key": timeline.key_block,
        "kernel": timeline.kernel,
        "wave": timeline.wave,
    }

"""Timelines packed for the browser: one block of bytes, laid out as `app.canvas.pack` says."""

from collections.abc import Sequence

import numpy as np

from app.canvas.pack import pack
from engine.model.launch import HEAVY_FIRST, NATURAL, schedule_of
from engine.model.timeline import MODELLED, Timeline
from engine.studies.sampled_calls import Flow, flow_beside
from engine.studies.survey import HERE

MICRO = 1e6
WAYS = ("read", "written")
ORDER_NAMES = {NATURAL: "natural order", HEAVY_FIRST: "heavy blocks first"}


def build(timelines: Sequence[Timeline]) -> bytes:
    """The payload of timelines of one problem and tiling, drawn under one another on one clock."""
    schedule = schedule_of(timelines[0].experiment)
    several = len({timeline.experiment.algorithm for timeline in timelines}) > 1
    flows = [flow_beside(timeline) for timeline in timelines]
    header = {
        "sms": timelines[0].sms,
        "queryBlocks": len(schedule.query_rows),
        "lanes": [_lane(several, *beside) for beside in zip(timelines, flows, strict=True)],
    }
    arrays = {}
    for number, timeline in enumerate(timelines):
        arrays |= {f"lane{number}.{name}": values for name, values in _columns(timeline).items()}
        if flow := flows[number]:
            arrays |= {f"flow{number}.{way}": getattr(flow, way).astype(np.float32) for way in WAYS}
    return pack(header, arrays)


def _lane(several: bool, timeline: Timeline, flow: Flow | None) -> dict:
    """What is said of a timeline as a whole; times in microseconds."""
    return {
        "name": timeline.experiment.record.label if several else ORDER_NAMES[timeline.order],
        "origin": timeline.origin,
        "source": next((each for each in (MODELLED, HERE) if timeline.origin.startswith(each)), "recorded"),
        "tail": timeline.tail * MICRO,
        "busy": timeline.busy_share,
        "imbalance": timeline.imbalance,
        "resident": timeline.resident,
        "flow": flow
        and {
            "origin": MODELLED if timeline.origin == MODELLED else "sampled in a run of its own",
            "interval": flow.interval * MICRO,
            "most": timeline.experiment.gpu.memory_bytes_per_second * flow.interval,
        },
    }


def _columns(timeline: Timeline) -> dict[str, np.ndarray]:
    return {
        "sm": timeline.sm,
        "start": (timeline.start * MICRO).astype(np.float32),
        "end": (timeline.end * MICRO).astype(np.float32),
        "query": timeline.query_block,
        "kernel": timeline.kernel,
    }

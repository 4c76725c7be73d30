"""Timelines as Chrome traces, JSON for ui.perfetto.dev; runs on several GPUs too."""

import json
from typing import Any

import numpy as np

from engine.model.cluster.lanes import NETWORK, NOBODY, TRANSFER, Lanes
from engine.model.timeline import MODELLED, Timeline, TimelineError
from engine.studies.sampled_calls import flow_beside

MOST_SLICES = 100_000  # of a Chrome trace: about 45 MB
SM_PROCESS, COUNTER_PROCESS = 1, 2
GPU_THREADS = {1: "computing", 2: "transfers", 3: "network"}
THREAD_OF = {TRANSFER: 2, NETWORK: 3}  # the first has all else
MICRO = 1e6


def chrome_trace(timeline: Timeline) -> str:
    """A Chrome trace: SMs as threads, blocks as slices, blocks running and bytes across HBM as counters.

    Where an SM holds several blocks at once each place is a thread of its own. Times are in microseconds.
    Raises TimelineError where there are too many blocks for a browser.
    """
    if len(timeline) > MOST_SLICES:
        raise TimelineError(
            f"a Chrome trace has at most {MOST_SLICES:,} blocks, this timeline {len(timeline):,}:"
            " take a smaller problem"
        )
    events = [*_names(timeline), *_slices(timeline), *_counters(timeline)]
    about = {**_about(timeline), "seconds": timeline.seconds, "busy share": timeline.busy_share}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": about})


def _names(timeline: Timeline) -> list[dict[str, Any]]:
    of = f" of {timeline.experiment.gpu.with_article}" if timeline.origin == MODELLED else ""
    processes = {SM_PROCESS: f"SMs{of}, {timeline.origin}", COUNTER_PROCESS: "all SMs together"}
    events = [_called("process_name", process, name=name) for process, name in processes.items()]
    for thread in np.unique(_threads(timeline)).tolist():
        sm, place = divmod(thread - 1, _places(timeline))
        name = f"SM {sm}" if _places(timeline) == 1 else f"SM {sm}, place {place + 1}"
        at = SM_PROCESS, thread
        events.append(_called("thread_name", *at, name=name))
        events.append(_called("thread_sort_index", *at, sort_index=thread))
    return events


def _called(what: str, process: int, *thread: int, **arguments: Any) -> dict[str, Any]:
    """A metadata event: what a process or its thread is called, and where it stands."""
    place = {"pid": process} | ({"tid": thread[0]} if thread else {})
    return {"ph": "M", "name": what, **place, "args": arguments}


def _slice(
    name: str, kind: str, process: int, thread: int, start: float, length: float, **arguments: Any
) -> dict[str, Any]:
    """What lasts from a start on, in microseconds."""
    place = {"ph": "X", "name": name, "cat": kind, "pid": process, "tid": thread}
    return {**place, "ts": start, "dur": length, "args": arguments}


def _places(timeline: Timeline) -> int:
    return max(timeline.resident)


def _threads(timeline: Timeline) -> np.ndarray:
    """[blocks] thread of each block, from 1: Chrome traces keep 0 for the process."""
    return timeline.sm.astype(np.int64) * _places(timeline) + timeline.place + 1


def _slices(timeline: Timeline) -> list[dict[str, Any]]:
    columns = (
        _threads(timeline), timeline.start * MICRO, (timeline.end - timeline.start) * MICRO, timeline.kernel,
        timeline.head, timeline.query_block, timeline.key_block, timeline.wave,
    )  # fmt: skip
    events = []
    for thread, start, length, kernel, head, query, key, wave in zip(
        *map(np.ndarray.tolist, columns), strict=True
    ):
        where = {"head": head, "query block": query, "key block": key}
        where = {name: block for name, block in where.items() if block >= 0}
        name, kind = ", ".join(f"{name} {block}" for name, block in where.items()), timeline.kernels[kernel]
        said = {"kernel": kind, **where, "wave": wave}
        events.append(_slice(name, kind, SM_PROCESS, thread, start, length, **said))
    return events


def _counters(timeline: Timeline) -> list[dict[str, Any]]:
    """Blocks running, and what crosses HBM meanwhile."""
    tracks = [("blocks running", "blocks", *timeline.running)]
    if flow := flow_beside(timeline):
        moments = np.arange(len(flow.read)) * flow.interval
        rates = {way: getattr(flow, way) / flow.interval / 1e6 for way in ("read", "written")}
        tracks += [(f"HBM, {way}", "MB/s", moments, np.rint(rate).astype(int)) for way, rate in rates.items()]
    return [
        {"ph": "C", "name": name, "pid": COUNTER_PROCESS, "tid": 0, "ts": time, "args": {unit: value}}
        for name, unit, at, values in tracks
        for time, value in zip((at * MICRO).tolist(), values.tolist(), strict=True)
    ]


def _about(timeline: Timeline) -> dict[str, Any]:
    return {
        "experiment": timeline.experiment.flat(),
        **{"origin": timeline.origin, "order": timeline.order, "kernels": list(timeline.kernels)},
        **{"sms": timeline.sms, "resident": list(timeline.resident)},
    }


def cluster_trace(run: Lanes) -> str:
    """A Chrome trace: GPUs as processes, computing and transfers as their threads; times in microseconds."""
    spread, events = run.spread, []
    for gpu in range(spread.gpus):  # a trace keeps process 0 for itself
        process = f"GPU {gpu}, {spread.hardware.upper()}, {run.origin}"
        events.append(_called("process_name", gpu + 1, 0, name=process))
        events += [_called("thread_name", gpu + 1, at, name=name) for at, name in GPU_THREADS.items()]
    for mark in run.marks:
        whose = "" if mark.owner == NOBODY else f", keys of GPU {mark.owner}"
        place = mark.gpu + 1, THREAD_OF.get(mark.kind, 1)
        moments = mark.start * MICRO, (mark.end - mark.start) * MICRO
        events.append(_slice(f"{mark.kind}{whose}", mark.kind, *place, *moments, round=mark.round))
    order, tokens = "zigzag" if spread.zigzag else "plain", spread.problem.seq_q
    about = {"origin": run.origin, "method": spread.method, "order": order}
    about |= {"gpus": spread.gpus, "tokens": tokens, "seconds": run.seconds}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": about})

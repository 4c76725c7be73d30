"""Timelines as Chrome traces, JSON for ui.perfetto.dev; runs on several GPUs too."""

import json
from typing import Any

import numpy as np

from engine.model.cluster.lanes import NOBODY, Lanes
from engine.model.cluster.seconds import NETWORK, TRANSFER
from engine.model.launch import Kernel, launch
from engine.model.timeline import MODELLED, Timeline, TimelineError
from engine.schedule.nest import HEAD, ROWS, TILE, Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import Step, Tensor
from engine.studies.sampled_calls import flow_beside


def block_requests(timeline: Timeline) -> tuple[np.ndarray, np.ndarray]:
    """(tiles, bytes past the SM) of every block, int64 [blocks] each, which add up to the traffic's."""
    run = launch(timeline.experiment)
    schedule = run.schedule
    tiles, amounts = np.zeros(len(timeline), np.int64), np.zeros(len(timeline), np.int64)
    for index, kernel in enumerate(run.kernels):
        of = timeline.kernel == index
        blocks = timeline.query_block[of], timeline.key_block[of]
        tiles[of], amounts[of] = _of_kernel(schedule, kernel, *blocks)
    return tiles, amounts


def _of_kernel(
    schedule: Schedule, kernel: Kernel, query: np.ndarray, key: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(tiles, bytes) of blocks that have these query and key blocks."""
    phase, problem = kernel.phase, schedule.problem
    if phase.launched == ROWS:
        before = np.arange(len(query)) % kernel.count * phase.rows  # rows of the head's earlier blocks
        rows = np.minimum(phase.rows, problem.seq_q - before)
        return np.zeros_like(rows), _moved(schedule, phase.before, rows, problem.seq_kv)
    if phase.launched == TILE:
        moved = _moved(schedule, phase.each, schedule.query_rows[query], schedule.key_rows[key])
        return np.ones(len(query), np.int64), moved
    around, visits = _by_outer(schedule, phase)
    group = problem.group if phase.shared else 1
    tiles, amounts = phase.visits * group, around + visits * group
    if phase.launched == HEAD:
        return np.full(len(query), tiles.sum()), np.full(len(query), amounts.sum())
    outer = query if phase.outer == "query" else key
    if phase.splits > 1:  # the key block of a timeline is the split
        outer = query * phase.splits + key
    return tiles[outer], amounts[outer]


def _by_outer(schedule: Schedule, phase: Phase) -> tuple[np.ndarray, np.ndarray]:
    """[outer blocks] bytes around an outer block's visits, and of all its visits together."""
    along = -1 if phase.outer == "key" else 1  # query blocks and key blocks as outer and inner ones
    outer, inner = (schedule.query_rows, schedule.key_rows)[::along]
    tall, wide = (schedule.tiling.block_q, schedule.tiling.block_kv)[::along]
    outer, visits = np.repeat(outer, phase.splits), phase.visits
    ends, none = np.concatenate(([0], np.cumsum(inner))), np.zeros_like(outer)
    passed = np.where(visits > 0, ends[phase.stop] - ends[phase.first], 0)  # rows of the inner blocks
    boxes = visits if phase.boxes is None else phase.boxes

    def moved(steps: tuple[Step, ...], rows: np.ndarray, boxed: np.ndarray, times: np.ndarray | int):
        total = none
        for step in (step for step in steps if step.tensor != Tensor.NONE):
            amount = schedule.amounts[step.tensor]
            pair = (np.full_like(outer, tall), boxed) if step.boxed else (outer, rows)
            by_inner = (amount.by_query, amount.by_key)[::along][1]
            total = total + step.times * amount.of(*pair[::along]) * (1 if by_inner else times)
        return total

    return moved(phase.before + phase.after, none, none, 1), moved(phase.each, passed, boxes * wide, visits)


def _moved(schedule: Schedule, steps: tuple[Step, ...], query_rows, key_rows) -> np.ndarray:
    moving = (step for step in steps if step.tensor != Tensor.NONE)
    return sum(step.times * schedule.amounts[step.tensor].of(query_rows, key_rows) for step in moving)


MOST_SLICES = 100_000  # of a Chrome trace: about 45 MB
SM_PROCESS, COUNTER_PROCESS = 1, 2
GPU_THREADS = {1: "computing", 2: "transfers", 3: "network"}
THREAD_OF = {TRANSFER: 2, NETWORK: 3}  # the first has all else
MICRO = 1e6


def chrome_trace(timeline: Timeline) -> str:
    """A Chrome trace: SMs as threads, blocks as slices, blocks running and bytes requested as counters.

    Where an SM holds several blocks at once each place is a thread of its own. Times are in microseconds.
    Raises TimelineError where there are too many blocks for a browser.
    """
    if len(timeline) > MOST_SLICES:
        raise TimelineError(
            f"a Chrome trace has at most {MOST_SLICES:,} blocks, this timeline {len(timeline):,}:"
            " take a smaller problem"
        )
    events = [*_names(timeline), *_slices(timeline), *_counters(timeline)]
    said = ("origin", "order", "kernels", "sms", "resident", "seconds")
    about = {"experiment": timeline.experiment.flat()} | {name: getattr(timeline, name) for name in said}
    about["busy share"] = timeline.busy_share
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
    tiles, amounts = block_requests(timeline)
    columns = (
        _threads(timeline), timeline.start * MICRO, (timeline.end - timeline.start) * MICRO, timeline.kernel,
        timeline.head, timeline.query_block, timeline.key_block, timeline.wave, tiles, amounts,
    )  # fmt: skip
    events = []
    for thread, start, length, kernel, head, query, key, wave, visited, moved in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        where = {"query block": query, "key block": key}
        where = {name: block for name, block in where.items() if block >= 0}
        name = ", ".join([f"head {head}", *(f"{name} {block}" for name, block in where.items())])
        kind = timeline.kernels[kernel]
        moments = {"wave": wave, "tiles visited": visited, "bytes requested": moved}
        said = {"kernel": kind, "head": head, **where, **moments}
        events.append(_slice(name, kind, SM_PROCESS, thread, start, length, **said))
    return events


def _counters(timeline: Timeline) -> list[dict[str, Any]]:
    """Blocks running, bytes that the blocks that have ended asked for, and what crosses HBM meanwhile."""
    times, running = timeline.running
    order = np.argsort(timeline.end, kind="stable")
    ended = timeline.end[order], np.cumsum(block_requests(timeline)[1][order])
    tracks = [
        ("blocks running", "blocks", times, running),
        ("bytes requested by ended blocks", "bytes", *ended),
    ]
    if flow := flow_beside(timeline):
        moments = np.arange(len(flow.read)) * flow.interval
        rates = {way: getattr(flow, way) / flow.interval / 1e6 for way in ("read", "written")}
        tracks += [(f"HBM, {way}", "MB/s", moments, np.rint(rate).astype(int)) for way, rate in rates.items()]
    return [
        {"ph": "C", "name": name, "pid": COUNTER_PROCESS, "tid": 0, "ts": time, "args": {unit: value}}
        for name, unit, at, values in tracks
        for time, value in zip((at * MICRO).tolist(), values.tolist(), strict=True)
    ]


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

"""Runs on several GPUs as files: Chrome trace JSON for ui.perfetto.dev, a process per GPU."""

from __future__ import annotations

import json
from typing import Any

from engine.model.cluster.lanes import NETWORK, NOBODY, TRANSFER, Lanes, Mark
from engine.model.export import MICRO

THREADS = {1: "computing", 2: "transfers", 3: "network"}


def cluster_trace(run: Lanes) -> str:
    """A Chrome trace: GPUs as processes, computing and transfers as their threads; times in microseconds."""
    spread = run.spread
    events = [event for gpu in range(spread.gpus) for event in _names(run, gpu)]
    events += [_slice(mark) for mark in run.marks]
    about = {
        "origin": run.origin,
        "method": spread.method,
        "order": "zigzag" if spread.zigzag else "plain",
        "gpus": spread.gpus,
        "tokens": spread.problem.seq_q,
        "seconds": run.seconds,
    }
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": about})


def _names(run: Lanes, gpu: int) -> list[dict[str, Any]]:
    """Metadata events that name a GPU's process and its threads; a trace keeps process 0 for itself."""
    named = [("process_name", 0, f"GPU {gpu}, {run.spread.hardware.upper()}, {run.origin}")]
    named += [("thread_name", thread, name) for thread, name in THREADS.items()]
    return [
        {"ph": "M", "name": what, "pid": gpu + 1, "tid": thread, "args": {"name": name}}
        for what, thread, name in named
    ]


def _slice(mark: Mark) -> dict[str, Any]:
    whose = "" if mark.owner == NOBODY else f", keys of GPU {mark.owner}"
    return {
        "ph": "X",
        "name": f"{mark.kind}{whose}",
        "cat": mark.kind,
        "pid": mark.gpu + 1,
        "tid": {TRANSFER: 2, NETWORK: 3}.get(mark.kind, 1),
        "ts": mark.start * MICRO,
        "dur": (mark.end - mark.start) * MICRO,
        "args": {"round": mark.round},
    }

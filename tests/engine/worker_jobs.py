"""Jobs that the worker's tests send: each shows one way in which a job can go."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

from engine.algorithms import FORWARD
from engine.experiment import Experiment
from engine.recordings.cluster import ClusterTimeline, ClusterTiming, Extent, GpuMarks
from engine.recordings.recording import TracedCall
from engine.recordings.timing import Times
from engine.worker.jobs import JobError, LostError, Update


def count(payload: dict):
    """Yields a row for each number, slowly or when a file is there if asked; notes runs in a file."""
    if "log" in payload:
        with Path(payload["log"]).open("a") as log:
            log.write(payload.get("name", "run") + "\n")
    while "after" in payload and not Path(payload["after"]).exists():
        time.sleep(0.01)
    for number in range(payload["to"]):
        time.sleep(payload.get("pause", 0))
        yield Update((number + 1) / payload["to"], f"counted {number}", {"number": number})
    return {"counted": payload["to"]}


def refuse(payload: dict):
    """Fails as a job may."""
    yield Update(0.5, "about to refuse")
    raise JobError(payload["sentence"])


def crash(payload: dict):
    """Takes the process down."""
    yield Update(0.5, "about to die", {"number": 1})
    os.kill(os.getpid(), payload["signal"])


def chatter(payload: dict):
    """Prints where the replies must not be disturbed."""
    print("printed by a library")
    os.write(1, b"written by a C library\n")
    yield Update(1.0, "said enough")
    return os.getpid()


def short_sweep(payload: dict):
    """A real sweep, of one length only, each call timed twice."""
    from engine.measuring import clock
    from engine.measuring.measure import measured, this_bench
    from engine.studies.drawable import at_length

    twice = clock.Repeats(2, 2, 0.0)
    with mock.patch.object(clock, "ON_CPU", twice), mock.patch.object(clock, "INTERPRETED", twice):
        return (yield from measured(this_bench(), [at_length(Experiment.of(**payload), 64)]))


def endless(payload: dict):
    """Runs until it is stopped."""
    while True:
        time.sleep(0.05)
        yield Update(0.1, "still at it")


def sweep_without_end(payload: dict):
    """Has one row of a sweep, and never another."""
    row = {"provider": "eager", "label": "PyTorch unfused", "keys": 64, "skipped": "out of memory"}
    yield Update(0.1, "one row is there", row)
    time.sleep(3600)


def fork(payload: dict):
    """Starts a process in a group of its own, as a kernel's file runs in, which detaches another."""
    code = (
        "import os, time; pid = os.fork(); print(pid, flush=True) if pid else os.setsid(); time.sleep(3600)"
    )
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    yield Update(0.5, "forked", {"pids": [child.pid, int(child.stdout.readline())]})
    time.sleep(3600)


def lose(payload: dict):
    """Loses the GPU in the middle."""
    yield Update(0.5, "about to lose the GPU", {"pid": os.getpid()})
    raise LostError("the GPU failed: CUDA error")


def rank(number: int, gpus: int, port: int, pipe):
    """A process of a ring that says which it is, or ends."""
    while (what := pipe.recv())[1] != "die":
        if number == 0:
            pipe.send((os.getpid(), list(what)))


def traced(experiment: Experiment, order: str, tick: int = 1) -> TracedCall:
    """What a trace of the simulated timeline would be recorded as; a tick of the clock in nanoseconds."""
    from engine.measuring.sections import traced_kernel
    from engine.model.simulated_timeline import simulate_timeline

    timeline, tiling = simulate_timeline(experiment, order), experiment.tiling
    times = np.round(np.stack([timeline.start, timeline.end], 1) / (tick * 1e-9)) * tick
    blocks = np.column_stack([timeline.sm, times.astype(int)])
    kernels = tuple(
        traced_kernel(name, blocks[timeline.kernel == index], tick)
        for index, name in enumerate(timeline.kernels)
    )
    own = tiling.block_q, tiling.block_kv, timeline.sms, tick * 1e-9, Times(1e-5, 2e-5, 3e-5, 5)
    return TracedCall(experiment.algorithm, order, experiment.problem, *own, kernels)


def measured_here(payload: dict):
    """What a GPU gives for the calls of a page, slowly if asked; each ten sectors more than the last."""
    from engine.measuring.live import Live, row_of

    yield Update(0.2, "sampling")
    time.sleep(float(os.environ.get("PAUSE", 0)))
    calls = [row_of(Experiment.of(**each)) for each in payload["calls"]]
    times = Times(2.0e-4, 2.1e-4, 2.2e-4, 10)
    rows = [
        replace(
            row, times=times, interval=1e-6, read=(1_000_000, 10 * at), written=(500_000, 0), sms=(900, 900)
        )
        for at, row in enumerate(calls)
    ]
    if refused := os.environ.get("REFUSED"):
        rows = [replace(row, read=(), skipped=refused, times=replace(times, p80=9e-4)) for row in rows]
    first, blocks = Experiment.of(**payload["calls"][0]), {"block_q": calls[0].block_q}
    blocks |= {"block_kv": calls[0].block_kv, "times": times}
    drawn = tuple(replace(traced(first, order), **blocks) for order in payload["orders"])
    ring = None
    if payload["gpus"] > 1:
        problem, sent = calls[0].problem, ((2**21, 0), (2**21, 2**21))
        timing = ClusterTiming("ring", "Ring, copy engines", FORWARD, problem, 2, Extent(3e-3, 4e-3, 5e-3, 9))
        marks = tuple(GpuMarks((), (), (), each) for each in sent)
        ring = timing, ClusterTimeline("ring", FORWARD, problem, 2, marks, 1e-3)
    return Live(tuple(rows), drawn, "NVIDIA H200", "2026-11-27T14:02:03+00:00", ring)

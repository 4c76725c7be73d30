"""One call on several GPUs as PyTorch's profiler saw it on each: computing, transfers, merging."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from engine.algorithms import FORWARD
from engine.measuring.cluster import Contender, passed, random_tensors
from engine.measuring.ranks import Ranks
from engine.model.cluster.lanes import COMPUTING, KINDS, MERGING, PACKING, TRANSFER
from engine.problem.problem import Mask, Problem
from engine.recordings.cluster import ClusterTimeline, GpuMarks

LENGTHS = (32_768, 131_072)
NANO_PER_MICRO = 1000
ALIGNING = "AllReduce"  # the kernel at whose end all GPUs are at one point
# what is found in a kernel's or copy's name, in this order; what is in none computes
KNOWN = (
    ("barrier", None),
    ("Memset", None),
    ("Memcpy", TRANSFER),
    ("ncclDevKernel", TRANSFER),
    ("combine_kernel", MERGING),
    ("elementwise", PACKING),
    ("copy", PACKING),
)


def plan() -> list[Problem]:
    """Causal problems whose lanes are worth a look."""
    return [Problem(1, 16, 16, each, each, 128, "float16", Mask(causal=True)) for each in LENGTHS]


def timeline_of(ranks: Ranks, problem: Problem, one: Contender) -> ClusterTimeline:
    """A forward call; the same row on all ranks, with the sentence why where there are no marks."""
    row = ClusterTimeline(one.provider, FORWARD, problem, ranks.size)
    if not ranks.cuda:
        return ClusterTimeline(
            one.provider, FORWARD, problem, ranks.size, skipped="a CPU has no lanes: there is no GPU here"
        )
    events, sentence = ranks.attempt(lambda: _profiled(ranks, problem, one))
    if sentence is None:
        marks = tuple(marks_of(each) for each in ranks.every(events))
        if all(each.kind for each in marks):
            return ClusterTimeline(row.provider, row.direction, problem, ranks.size, marks)
        sentence = "the profiler saw nothing on a GPU"
    return ClusterTimeline(row.provider, row.direction, problem, ranks.size, skipped=sentence)


def _profiled(ranks: Ranks, problem: Problem, one: Contender) -> list[tuple[str, float, float]]:
    """(name, start, length) of all that this GPU did, microseconds."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    tensors = random_tensors(ranks, problem, problem.seq_q // ranks.size, ranks.rank)
    with one.session(ranks, causal=True):
        for _ in range(3):
            passed(one, tensors, True, FORWARD)
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            ranks.timed(lambda: passed(one, tensors, True, FORWARD))
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        found.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    return [
        (event["name"], event["ts"], event["dur"])
        for event in events
        if event.get("ph") == "X" and event.get("cat") in kinds
    ]


def marks_of(events: list[tuple[str, float, float]]) -> GpuMarks:
    """A GPU's events after the point at which all were together, as marks."""
    ends = [start + length for name, start, length in events if ALIGNING in name]
    together = max(ends, default=0.0)
    found = []
    for name, start, length in sorted(events, key=lambda event: event[1]):
        kind = next((kind for words, kind in KNOWN if words.lower() in name.lower()), COMPUTING)
        if kind is not None and start >= together and ALIGNING not in name:
            since, lasts = (round(value * NANO_PER_MICRO) for value in (start - together, length))
            found.append((KINDS.index(kind), since, lasts))
    return GpuMarks(*map(tuple, zip(*found, strict=True))) if found else GpuMarks((), (), ())

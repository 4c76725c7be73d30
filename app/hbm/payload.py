"""Sampled calls packed for the browser: one block of bytes, laid out as `app.canvas.pack` says."""

from functools import lru_cache

import numpy as np

from app.canvas.pack import pack
from app.figures.algorithms import name
from app.figures.shared_tables import tensor_name
from app.figures.units import bytes_text, scaled, seconds_text
from engine.model.timeline import Timeline
from engine.problem.problem import Problem
from engine.recordings.samples import SECTOR
from engine.studies.sampled_calls import SampledCall, outline

MICRO = 1e6
WARP = 32  # threads
STATISTICS = ("statistics", "lse")  # small: not named among what a kernel moves


@lru_cache(maxsize=16)
def build(calls: tuple[SampledCall, ...], *, plays: bool = False) -> bytes:
    """The payload of calls, drawn above one another on one axis of time; recorded and measured here alike.

    One that `plays` begins by itself.
    """
    lanes, arrays, before = [], {}, {}
    for number, call in enumerate(calls):
        said = {"origin": call.origin, "shape": facts(call.row.problem)}
        lanes.append(_lane(call) | {key: words for key, words in said.items() if before.get(key) != words})
        arrays |= {f"lane{number}.{column}": values for column, values in _columns(call).items()}
        if timeline := call.timeline:
            arrays |= {
                f"blocks{number}.{column}": values for column, values in _blocks(call, timeline).items()
            }
        before = said
    return pack({"lanes": lanes, "plays": plays}, arrays)


def facts(problem: Problem) -> list[str]:
    """What was computed, in words."""
    heads = f"{problem.all_heads} head{'s' * (problem.all_heads > 1)}"
    return [f"{problem.seq_kv:,} tokens", heads, f"d {problem.head_dim}", problem.dtype, problem.mask.text]


def _lane(call: SampledCall) -> dict:
    """What is said of a call as a whole; times in microseconds."""
    row, micro = call.row, call.row.interval * MICRO
    return {
        "name": name(row.provider),
        "interval": micro,
        "end": len(row.read) * micro,
        "seconds": row.times.p50 if row.times else row.seconds,
        "most": call.gpu.memory_bytes_per_second * row.interval,
        "kernels": [
            (first * micro, last * micro, " → ".join(filter(None, map(_named, moved))))
            for (first, last), moved in zip(row.kernels, call.tensors, strict=True)
        ],
        "sms": call.gpu.sms,
        "modelled": _difference(call),
        "origin": "",
        "shape": [],
    }


def _named(tensors) -> str:
    return " ".join(each for each in map(tensor_name, tensors) if each not in STATISTICS)


def _difference(call: SampledCall) -> list[str]:
    """How far the model is from what was sampled, in words."""
    if (flow := call.flow) is None:
        return []
    model, real = outline(flow), outline(call.sampled)
    seconds = len(flow.read) * flow.interval
    told = (
        (f"modelled: {bytes_text(model.total)}", model.total / real.total),
        (seconds_text(seconds), seconds / call.row.seconds),
        (f"at most {scaled(model.peak, 'B/s')}", model.peak / real.peak),
    )
    off = (f"{ratio - 1:+.0%}".replace("-", "−") for _, ratio in told)
    return [
        f"{text} ({far[-2:] if far[1:] == '0%' else far})" for (text, _), far in zip(told, off, strict=True)
    ]


def _columns(call: SampledCall) -> dict[str, np.ndarray]:
    """By interval: bytes each way, what still lay in L2 after the end; thousandths of what was at work."""
    row, gpu = call.row, call.gpu
    most = gpu.memory_bytes_per_second * row.interval
    warps = (
        gpu.exponentials_per_second * row.interval / WARP
    )  # of which each computes an exponential a thread
    columns = {
        "read": SECTOR * np.array(row.read, np.uint32),
        "written": _and_late(SECTOR * np.array(row.written), SECTOR * row.left, most).astype(np.uint32),
        "sms": np.array(row.sms, np.uint16),
        "tensor": np.array(row.tensor, np.uint16),
        "exponentials": np.round(np.array(row.exponentials) * (1000 / warps)).astype(np.uint16),
    }
    if flow := call.flow:
        columns["model_read"] = flow.read.astype(np.float32)
        columns["model_written"] = _and_late(flow.written, flow.left, most).astype(np.float32)
    return {name: values for name, values in columns.items() if len(values)}  # a chip may lack a counter


def _and_late(written: np.ndarray, left: float, most: float) -> np.ndarray:
    """What was written by interval, and after the end what was left, at most so much an interval."""
    whole, rest = divmod(left, int(most))
    return np.concatenate([written, np.full(int(whole), int(most)), [rest]])


def _blocks(call: SampledCall, timeline: Timeline) -> dict[str, np.ndarray]:
    """By block: its SM, its time in microseconds from the first interval with work on, and its wave."""
    first = call.row.kernels[0][0] * call.row.interval
    times = {"start": first + timeline.start, "length": timeline.end - timeline.start}
    columns = {name: (MICRO * values).astype(np.float32) for name, values in times.items()}
    return {"sm": timeline.sm.astype(np.uint16), "wave": timeline.wave.astype(np.uint16), **columns}

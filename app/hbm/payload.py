"""Sampled calls packed for the browser: one block of bytes, laid out as `app.canvas.pack` says."""

from collections.abc import Sequence

import numpy as np

from app.canvas.pack import pack
from app.figures.algorithms import name
from app.figures.shared_tables import tensor_name
from app.figures.units import bytes_text, number_text, seconds_text
from engine.problem.problem import Problem
from engine.recordings.samples import SECTOR
from engine.studies.sampled_calls import SampledCall

MICRO = 1e6
STATISTICS = ("statistics", "lse")  # small: not named among what a kernel moves


def build(calls: Sequence[SampledCall]) -> bytes:
    """The payload of calls, drawn above one another on one axis of time; recorded and measured here alike."""
    lanes, arrays, before = [], {}, {}
    for number, call in enumerate(calls):
        said = {"origin": call.origin, "shape": shape(call.row.problem)}
        news = {key: words if before.get(key) != words else "" for key, words in said.items()}
        lanes.append(_lane(call) | news)
        arrays |= {f"lane{number}.{column}": values for column, values in _columns(call).items()}
        before = said
    return pack({"lanes": lanes}, arrays)


def shape(problem: Problem) -> str:
    """What was computed, in words."""
    heads = f"{problem.all_heads} head{'s' * (problem.all_heads > 1)}"
    return f"{heads}, {problem.seq_kv:,} tokens, d {problem.head_dim}, {problem.dtype}, {problem.mask.text}"


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
            for first, last, *moved in call.kernels
        ],
        "modelled": _difference(call),
    }


def _named(tensors) -> str:
    return " ".join(each for each in map(tensor_name, tensors) if each not in STATISTICS)


def _difference(call: SampledCall) -> str:
    """How far the model is from what was sampled, in words."""
    if call.flow is None:
        return ""
    moved = call.flow.read.sum() + call.flow.written.sum()
    seconds = len(call.flow.read) * call.flow.interval
    more = moved / (call.row.read_bytes + call.row.written_bytes) - 1, seconds / call.row.seconds - 1
    told = (f"{bytes_text(moved)} ({more[0]:+.0%})", f"{seconds_text(seconds)} ({more[1]:+.0%})")
    return f"modelled {told[0]} in {told[1]}".replace("-", "−")


def _columns(call: SampledCall) -> dict[str, np.ndarray]:
    """By interval: bytes each way, what still lay in L2 after the end; thousandths of what was at work."""
    row, gpu = call.row, call.gpu
    most = int(gpu.memory_bytes_per_second * row.interval / SECTOR)
    late = [most] * (row.left // most) + [row.left % most]
    columns = {
        "read": SECTOR * np.array(row.read, np.uint32),
        "written": SECTOR * np.array((*row.written, *late), np.uint32),
        "sms": np.array(row.sms, np.uint16),
        "tensor": np.array(row.tensor, np.uint16),
        # a warp computes 32
        "exponentials": (
            1000 * 32 * np.array(row.exponentials) / (gpu.exponentials_per_second * row.interval)
        ).astype(np.uint16),
    }
    if call.flow is not None:
        modelled = {"model_read": call.flow.read, "model_written": call.flow.written}
        columns |= {key: values.astype(np.float32) for key, values in modelled.items()}
    return columns

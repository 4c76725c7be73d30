"""A file's function of a lab other than `attention`, run once, watched, and judged by what it returns.

Each is a task of TASKS: what it is given, what it must return in float64, and how many bytes that takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from engine.algorithms.flash4 import THRESHOLD
from engine.experiment import Experiment
from engine.problem.dtype import round_to
from engine.problem.inputs import make_output_gradient
from engine.schedule.step import STATISTIC_BYTES
from engine.studies import block_scales, linear_attention
from engine.trace.softmax import falling, raised
from engine.watch.attention import run, verdict
from engine.watch.numbers import Numbers
from engine.watch.steps import of_head
from engine.watch.watch import Finding

SIXTEEN_BITS = 2.0**-11  # sums in 16 bits are off by about this, sums in float32 by far less
FAR = 120.0  # of a column of K from 0, in the lab of smoothing


@dataclass(frozen=True)
class Task:
    """A function's arguments, and what is asked of it."""

    tensors: dict[str, np.ndarray]  # float64 [batch, heads, rows, columns] by name, given first, in 16 bits
    more: list  # what follows them: whole numbers, or an array of them, or a number
    returns: str  # the name of what it returns, float64 `exact`, each element within `tolerance`
    exact: np.ndarray
    tolerance: float
    # read, written: bytes that it may move, by name
    read: dict[str, int]
    wrong: str  # that it is not, as the beginning of a sentence
    written: dict[str, int] = field(default_factory=dict)


def delta(experiment: Experiment, numbers: Numbers, seed: int) -> Task:
    """What the backward pass needs of every query row: delta = rowsum(dO o O), see `engine.algorithms`."""
    problem = experiment.problem
    shape = (problem.batch, problem.heads, problem.seq_q, problem.head_dim)
    out = round_to(numbers.out, problem.dtype)
    d_out = make_output_gradient(problem, seed, shape[0] * shape[1])
    tensors = {"O": _wide(out, shape), "dO": _wide(d_out, shape)}
    exact = (tensors["O"] * tensors["dO"]).sum(3)
    tolerance = float(np.abs(tensors["O"] * tensors["dO"]).sum(3).max()) * SIXTEEN_BITS / 4
    read = {name: each.size * problem.itemsize for name, each in tensors.items()}
    written = {"delta": exact.size * STATISTIC_BYTES}
    asked = [experiment.asked.block_q]
    return Task(tensors, asked, "delta", exact, tolerance, read, "delta is not rowsum(dO o O)", written)


def latent(experiment: Experiment, numbers: Numbers, seed: int) -> Task:
    """A query of every head over one latent, which is K, and V in its first half of columns."""
    tensors = {"Q": numbers.q, "K": numbers.k}
    weights = _weights(numbers.q @ np.repeat(numbers.k, numbers.problem.group, 1).mT * numbers.problem.scale)
    half = numbers.k[..., : numbers.k.shape[3] // 2]
    exact = weights @ np.repeat(half, numbers.problem.group, 1)
    return _attending(experiment, tensors, [], exact, "over the latent")


def selected(experiment: Experiment, numbers: Numbers, seed: int) -> Task:
    """Queries over the blocks of keys that a table names, two for each block of queries, of each head."""
    problem, tiling, draw = numbers.problem, experiment.asked, np.random.Generator(np.random.PCG64(seed + 1))
    places, blocks = -(-problem.seq_q // tiling.block_q), -(-problem.seq_kv // tiling.block_kv)
    table = np.stack([draw.permutation(blocks)[:2] for _ in range(problem.heads * places)])
    table = table.reshape(1, problem.heads, places, 2).astype(np.int32)
    named = np.zeros((1, problem.heads, places, blocks), bool)
    np.put_along_axis(named, table.astype(int), True, 3)
    seen = np.repeat(np.repeat(named, tiling.block_q, 2), tiling.block_kv, 3)
    seen = seen[:, :, : problem.seq_q, : problem.seq_kv]
    exact = _weights(np.where(seen, numbers.q @ numbers.k.mT * problem.scale, -np.inf)) @ numbers.v
    task = _attending(experiment, numbers.tensors, [table], exact, "over the chosen blocks")
    moved = int(seen[:, :, :: tiling.block_q].sum()) * problem.head_dim * problem.itemsize
    task.read.update(K=moved, V=moved)
    return task


def smoothed(experiment: Experiment, numbers: Numbers, seed: int) -> Task:
    """Attention by products of INT8, of a K with a column that is far from 0 in every token."""
    problem, k = experiment.problem, numbers.k.copy()
    k[..., problem.head_dim // 3] += FAR
    k = _wide(round_to(k, problem.dtype), k.shape)
    exact = _weights(numbers.q @ k.mT * problem.scale) @ numbers.v
    q, *kv = (each[0, 0].astype(np.float32) for each in (numbers.q * problem.scale, k, numbers.v))
    fine = block_scales.attention(block_scales.SMOOTH, q, *kv) - exact[0, 0]
    task = _attending(experiment, numbers.tensors | {"K": k}, [], exact, "over all keys")
    blocks = -(-problem.seq_q // experiment.asked.block_q)
    read = {"K": 2 * blocks * k.size * problem.itemsize, "V": blocks * k.size * problem.itemsize}
    tolerance = 4 * float(np.abs(fine).max()) + 8 * SIXTEEN_BITS * float(np.abs(exact).max())
    return replace(task, tolerance=tolerance, read=task.read | read)


def linear(experiment: Experiment, numbers: Numbers, seed: int) -> Task:
    """Gated linear attention by chunks of block_q tokens: gates are logarithms, [batch, heads, tokens]."""
    problem, draw = experiment.problem, np.random.Generator(np.random.PCG64(seed + 1))
    gates = -0.2 * draw.random(numbers.q.shape[:3], np.float32)
    given = numbers.q * problem.scale, numbers.k, numbers.v, gates
    heads = (linear_attention.recurrent(*(each[at] for each in given)) for at in np.ndindex(gates.shape[:2]))
    exact = np.stack([*heads]).reshape(numbers.q.shape)
    task = _attending(experiment, numbers.tensors, [gates], exact, "by the recurrence")
    asked = [gates, problem.scale, experiment.asked.block_q]
    return replace(task, more=asked, tolerance=8 * task.tolerance)


def threshold(experiment: Experiment, numbers: Numbers, seed: int) -> Task:
    """O before its division by l, of rows whose m stays until a score passes it by more than 2^8."""
    problem, width = experiment.problem, experiment.asked.block_kv
    k, v = (np.repeat(each, problem.group, 1) for each in (numbers.k, numbers.v))
    scores = numbers.q @ k.mT * problem.scale
    m, exact = np.full(scores.shape[:3], -np.inf), np.zeros((*scores.shape[:3], v.shape[3]))
    for start in range(0, problem.seq_kv, width):
        block = scores[..., start : start + width]
        new = raised(m, block.max(-1), THRESHOLD)
        weights = falling(block, new[..., None]) @ v[:, :, start : start + width]
        m, exact = new, exact * falling(m, new)[..., None] + weights
    tensors = numbers.tensors
    task = _attending(experiment, tensors, [], exact, "where m is kept as the task says")
    blocks = -(-problem.seq_q // experiment.asked.block_q)
    read = {name: blocks * tensors[name].size * problem.group * problem.itemsize for name in "KV"}
    written = {"O": exact.size * STATISTIC_BYTES}
    return replace(task, read=task.read | read, written=written)


TASKS: dict[str, Callable[[Experiment, Numbers, int], Task]] = {
    "delta": delta, "latent": latent, "selected": selected, "smoothed": smoothed, "linear": linear,
    "threshold": threshold,
}  # fmt: skip


def _wide(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return array.astype(np.float64).reshape(shape)


def _weights(scores: np.ndarray) -> np.ndarray:
    found = np.exp(scores - scores.max(-1, keepdims=True))
    return found / found.sum(-1, keepdims=True)


def _attending(
    experiment: Experiment, tensors: dict[str, np.ndarray], more: list, exact: np.ndarray, over: str
) -> Task:
    """A task that returns O, and reads each tensor once."""
    problem, tiling = experiment.problem, experiment.asked
    read = {name: each.size * problem.itemsize for name, each in tensors.items()}
    tolerance = SIXTEEN_BITS * 4 * (np.abs(exact).max() + np.abs(tensors["K"]).max())
    written = {"O": exact.size * problem.itemsize}
    asked = [*more, problem.scale, tiling.block_q, tiling.block_kv]
    return Task(
        tensors, asked, "O", exact, float(tolerance), read, f"O is not what float64 gives {over}", written
    )


def watched(
    name: str, function: Callable, experiment: Experiment, stretch: float, seed: int, file: str, notes: list
) -> dict[str, Any]:
    """Run a file's function of a task on one problem, and judge it: plain values; raises NotServedError."""
    import torch

    problem = experiment.problem
    task = TASKS[name](experiment, Numbers.of(problem, stretch, seed), seed)
    more = [torch.from_numpy(each) if isinstance(each, np.ndarray) else each for each in task.more]
    heads, must = problem.batch * problem.heads, (task.returns, task.exact.shape)
    watch, found, _ = run(function, task.tensors, problem, lambda given: ([*given, *more], {}), must, file)
    error = np.abs(found.double().numpy() - task.exact)
    findings = [*watch.findings]
    if not (error <= task.tolerance).all() and not findings:
        row = int(np.argmax(~(error.reshape(heads * problem.seq_q, -1) <= task.tolerance).all(1)))
        text = f"{task.wrong}, first in row {row % problem.seq_q} of head {row // problem.seq_q}."
        findings.append(Finding("wrong_values", text, watch.stores.get(task.returns), None, task.returns))
    names = [*task.tensors, task.returns]
    read, written = watch.moved
    return verdict(watch, error, task.tolerance, findings) | {
        "read_bytes": {each: read[each] for each in names},
        "written_bytes": {each: written[each] for each in names},
        "flash2_read_bytes": dict.fromkeys(names, 0) | task.read,
        "flash2_written_bytes": dict.fromkeys(names, 0) | task.written,
        "steps": of_head(watch, None, problem),
        "notes": notes,
    }

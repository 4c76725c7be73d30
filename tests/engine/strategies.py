"""Small experiments of every kind, and what they mean element by element: the slow twins of the engine."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from engine import Experiment
from engine.algorithms import offered
from engine.problem.bounds import visible
from engine.problem.inputs import make_inputs
from engine.problem.problem import Problem
from engine.problem.terms import SINK, SLOPE
from engine.trace.rows import ALPHA, DIVISION, MASK, MAXIMUM, SUM

SEQUENCES = st.one_of(st.integers(1, 200), st.sampled_from([1, 15, 16, 17, 63, 64, 65, 128]))
BLOCKS = st.sampled_from([16, 32, 64, 128])
WINDOWS = st.none() | st.integers(1, 220) | st.tuples(st.integers(0, 90), st.integers(0, 90))


def lengths_of(keys: int) -> st.SearchStrategy[list[int]]:
    """Lengths of documents, some of them empty, that add up to so many keys."""
    cuts = st.lists(st.integers(0, keys), min_size=1, max_size=5).map(sorted)
    return cuts.map(lambda ends: [end - start for start, end in zip([0, *ends], [*ends, keys], strict=True)])


@st.composite
def experiments(
    draw, algorithms=None, same_length=False, masked=True, most_heads=4, terms=True
) -> Experiment:
    """Any experiment small enough to look at every element of its mask."""
    kv_heads = draw(st.integers(1, most_heads))
    seq = draw(SEQUENCES)
    seq_kv = seq if same_length else draw(SEQUENCES)
    prefix = draw(st.integers(0, 220)) if masked and draw(st.integers(0, 3)) == 0 else 0
    one_document = not masked or prefix
    return Experiment.of(
        prefix=prefix,
        algorithm=draw(st.sampled_from(algorithms or offered())),
        batch=draw(st.integers(1, 2)),
        kv_heads=kv_heads,
        heads=kv_heads * draw(st.integers(1, 3)),
        seq=seq,
        seq_kv=seq_kv,
        head_dim=draw(st.sampled_from([1, 5, 16, 40])),
        dtype=draw(st.sampled_from(["float16", "bfloat16", "float32"])),
        causal=masked and draw(st.booleans()),
        window=None if one_document else draw(WINDOWS),
        documents=1 if one_document else draw(st.sampled_from([1, 1, 2, 3, 7, 500]) | lengths_of(seq_kv)),
        head_dim_v=draw(st.sampled_from([None, None, None, 3, 24])) if terms else None,
        softcap=draw(st.sampled_from([None, None, None, 2.0, 30.0])) if terms else None,
        sinks=terms and draw(st.integers(0, 3)) == 0,
        slopes=terms and draw(st.integers(0, 3)) == 0,
        block_q=draw(BLOCKS),
        block_kv=draw(BLOCKS),
        hardware="h200",
    )


def on_one_gpu() -> st.SearchStrategy[Experiment]:
    """Any experiment on one GPU, the backward pass and split keys among them."""
    split = st.builds(
        lambda one, splits: one.changed(splits=splits),
        experiments(algorithms=("split_kv",)),
        st.sampled_from([1, 2, 3, 5, 8, 40]),
    )
    return experiments((*offered(), "backward")) | split


def dense_mask(problem: Problem) -> np.ndarray:
    """[seq_q, seq_kv] bool: what each query sees, from the definition."""
    position = np.arange(problem.seq_q)[:, None] + problem.seq_kv - problem.seq_q
    keys = np.arange(problem.seq_kv)[None, :]
    seen = np.ones((problem.seq_q, problem.seq_kv), bool)
    mask = problem.mask
    if mask.causal:
        seen &= keys <= position
    if mask.window is not None:
        seen &= (keys > position - mask.window) & (keys <= position + mask.ahead)
    if isinstance(mask.documents, int):
        count = min(mask.documents, problem.seq_kv)
        document = np.zeros(problem.seq_kv, int)
        for start in range(1, count):
            document[start * problem.seq_kv // count :] += 1
    else:
        document = np.repeat(np.arange(len(mask.documents)), mask.documents)
    if mask.prefix:
        return seen | (keys < mask.prefix)
    return seen & (document[keys] == document[np.clip(position, 0, None)])


def softmax(scores: np.ndarray) -> np.ndarray:
    """Weights of the last axis, in float64."""
    weights = np.exp(scores - scores.max(-1, keepdims=True).astype(float))
    return weights / weights.sum(-1, keepdims=True)


def one_head(experiment: Experiment, seed: int = 0) -> tuple[np.ndarray, ...]:
    """q, k and v of a scenario's first head."""
    return tuple(array[0] for array in make_inputs(experiment.problem, seed))


def tile_counts(experiment: Experiment, group: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Visible elements and elements of every tile, [query blocks, key blocks].

    group: how often every query is repeated, for heads that share keys.
    """
    mask, tiling = np.repeat(dense_mask(experiment.problem), group, axis=0), experiment.tiling
    rows, keys = (range(0, n, b) for n, b in zip(mask.shape, (tiling.block_q, tiling.block_kv), strict=True))
    each = mask.astype(int), np.ones(mask.shape, int)
    seen, size = (np.add.reduceat(np.add.reduceat(one, rows, axis=0), keys, axis=1) for one in each)
    return seen, size


class Visit(NamedTuple):
    """A row at one key block."""

    before: float  # m
    m: float
    sum_before: float  # l
    sum: float
    alpha: float
    largest: float  # of its scores
    out: np.ndarray  # O, of all keys so far


def online(experiment: Experiment, tensors, row: int, flaw: str = "", threshold=0.0) -> dict[int, Visit]:
    """Algorithm 1 of FlashAttention-2 over one row in float64, by key block in the order of the algorithm.

    flaw: the line that is left out. threshold: bits by which a score must pass m before that is raised.
    """
    problem, block = experiment.problem, experiment.tiling.block_kv
    q, k, v = tensors
    first = row // experiment.tiling.block_q * experiment.tiling.block_q
    rows = np.arange(first, min(first + experiment.tiling.block_q, problem.seq_q))
    m, total, out, found = -np.inf, 0.0, np.zeros(v.shape[1]), {}
    starts = range(0, problem.seq_kv, block)
    for at in reversed(starts) if experiment.algorithm in ("flash3", "flash4") else starts:
        keys = np.arange(at, min(at + block, problem.seq_kv))
        if not visible(problem, rows, keys).any():
            continue
        s = np.float64(k[keys] @ q[row]) * problem.scale
        if flaw != MASK:
            s = np.where(visible(problem, np.array([row]), keys)[0], s, -np.inf)
        rises = (s.max() - m) * np.log2(np.e) > threshold if np.isfinite(s.max()) else False
        new = 0.0 if flaw == MAXIMUM else s.max() if rises else m
        if np.isneginf(new):
            continue
        alpha = 1.0 if flaw in (ALPHA, MAXIMUM) else np.exp(m - new)
        p, before = np.exp(s - new), (m, total)
        total = total * (1.0 if flaw == SUM else alpha) + p.sum()
        out, m = out * alpha + p @ v[keys], new
        given = out.copy() if flaw == DIVISION else out / total
        found[at // block] = Visit(before[0], m, before[1], total, alpha, s.max(), given)
    return found


def exact_attention(problem: Problem, q, k, v) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """O [seq_q, d of v], lse [seq_q] and masked scores [seq_q, seq_kv] of one head in float64."""
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    scores = q @ k.T / np.sqrt(problem.head_dim)
    if problem.softcap:
        scores = problem.softcap * np.tanh(scores / problem.softcap)
    if problem.slopes:
        position = np.arange(problem.seq_q)[:, None] + problem.seq_kv - problem.seq_q
        scores -= SLOPE * abs(position - np.arange(problem.seq_kv))
    scores = np.where(dense_mask(problem), scores, -np.inf)
    m = scores.max(1)
    m = np.maximum(m, SINK) if problem.sinks else m
    weights = np.exp(scores - np.where(np.isneginf(m), 0, m)[:, None])
    total = weights.sum(1) + (np.exp(SINK - m) if problem.sinks else 0)
    known = np.where(total == 0, 1, total)
    return weights @ v / known[:, None], m + np.log(known), scores


def exact_scores(problem: Problem, q, k, v, d_out) -> tuple[np.ndarray, ...]:
    """Of one head in float64: lse and delta [seq_q], P and dS [seq_q, seq_kv], dS without softcap's part."""
    _, lse, scores = exact_attention(problem, q, k, v)
    weights = np.exp(scores - np.where(np.isneginf(lse), 0, lse)[:, None])
    d_weights = d_out.astype(np.float64) @ v.astype(np.float64).T
    delta = (weights * d_weights).sum(1)
    return lse, delta, weights, weights * (d_weights - delta[:, None])


def exact_gradients(problem: Problem, q, k, v, d_out) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """dQ [seq_q, d], dK and dV [seq_kv, d] of one head in float64: the derivatives of softmax(Q K^T) V."""
    q, k, v, d_out = (array.astype(np.float64) for array in (q, k, v, d_out))
    _, _, weights, d_scores = exact_scores(problem, q, k, v, d_out)
    d_scores = d_scores / np.sqrt(problem.head_dim)
    if problem.softcap:
        d_scores /= np.cosh(q @ k.T / np.sqrt(problem.head_dim) / problem.softcap) ** 2
    return d_scores @ k, d_scores.T @ q, weights.T @ d_out


def returned(job):
    """What a job returns, its updates passed over."""
    try:
        while True:
            next(job)
    except StopIteration as end:
        return end.value

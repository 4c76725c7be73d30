"""Numbers of 8 bits, e4m3: what attention of them loses, computed and recorded."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from engine.experiment import Experiment
from engine.problem.dtype import round_e4m3
from engine.problem.inputs import make_inputs
from engine.recordings.nearest import WIDTH, differing, doublings, length, masked, nearest
from engine.recordings.recording import Recording
from engine.recordings.timing import Fp8Timing
from engine.studies.block_scales import E4M3, KEYS, RARE, WIDE, Format, Scheme, apart, attention
from engine.trace.rows import masked_scores

ROWS, HEAD_DIM = 256, 64
ROTATED = "scales by block, rotated"
SCALED = {  # of how many numbers each has its scale
    "one scale per tensor": Scheme("", 0, E4M3, "float32"),
    "scales by block": Scheme("", -1, E4M3, "float32"),
    ROTATED: Scheme("", -1, E4M3, "float32"),
}


@lru_cache(maxsize=1)
def rounding_errors() -> tuple[float, float]:
    """Root mean square error of O over its root mean square, inputs in e4m3 and in float16.

    Attention of 256 tokens, d 64, of normal entries: Q, K and V rounded, and nothing else.
    """
    generator = np.random.Generator(np.random.PCG64(0))
    tensors = [generator.standard_normal((ROWS, HEAD_DIM)) for _ in range(3)]
    exact, *found = (
        attention(None, q * HEAD_DIM**-0.5, k, v, ROWS)
        for q, k, v in (map(of, tensors) for of in (np.asarray, round_e4m3, np.float16))
    )
    return tuple(apart(each, exact) for each in found)


def head_errors(experiment: Experiment) -> dict[str, dict[str, float]]:
    """By whose numbers, and by how they are scaled: the error of O over O, both root mean squares.

    Of the last rows of the scenario's first head under its mask, and of normal numbers of its shape, without
    and with one in a thousand that is ten times as wide; Q, K, V and the weights rounded, and nothing else.
    """
    keys = min(experiment.problem.seq_kv, KEYS)
    one = experiment.changed(
        batch=1, heads=1, kv_heads=1, seq=min(experiment.problem.seq_q, keys), seq_kv=keys
    )
    head = [array[0] for array in make_inputs(one.problem)]
    draw = np.random.Generator(np.random.PCG64(2))
    normal = [draw.standard_normal(array.shape, np.float32) for array in head]
    outliers = [np.where(draw.random(array.shape) < 1 / RARE, WIDE * array, array) for array in normal]
    turn = np.linalg.qr(draw.standard_normal((one.problem.head_dim,) * 2))[0].astype(np.float32)
    rows = np.arange(one.problem.seq_q)[-ROWS:]
    return {
        name: {scaled: _head_error(one, numbers, rows, scheme, turn if scaled == ROTATED else None)
               for scaled, scheme in SCALED.items()}
        for name, numbers in (("this head", head), ("normal", normal), ("with outliers", outliers))
    }  # fmt: skip


def _head_error(one: Experiment, numbers: list, rows: np.ndarray, scheme: Scheme, turn) -> float:
    q, k, v = numbers
    turned = (q, k) if turn is None else (q @ turn, k @ turn)
    small = [scheme.rounded(np.ascontiguousarray(each)) for each in (*turned, v)]
    exact, found = (
        _over(masked_scores(one, a, b, rows), c, of) for a, b, c, of in ((q, k, v, None), (*small, E4M3))
    )
    return apart(found, exact)


def _over(scores: np.ndarray, v: np.ndarray, of: Format | None) -> np.ndarray:
    """[rows, d of V] O of rows of scores that see a key, their weights rounded relative to the largest."""
    scores = scores[np.isfinite(scores).any(1), : len(v)].astype(np.float64)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    rounded = weights if of is None else of.rounded((weights * of.largest).astype(np.float32)) / of.largest
    return rounded @ v / weights.sum(1, keepdims=True)


def recorded_fp8(recording: Recording | None, experiment: Experiment) -> tuple[Fp8Timing, ...]:
    """Recorded attention in float16 and FP8, of the timed problem nearest to the scenario; empty if none."""
    rows = [row for row in recording.fp8 if row.times] if recording else []
    row = nearest(rows, experiment, differing(masked), WIDTH, doublings(length))
    return tuple(each for each in rows if each.problem == row.problem)


def fp8_worth(rows: Sequence[Fp8Timing]) -> tuple[float, float] | None:
    """What scales by block and the rotation give, of the rows of one problem; None where one is missing.

    How many times faster than float16 on normal inputs, and how many times smaller their error is than with
    one scale per tensor on inputs with outliers.
    """
    found = {(row.numbers, row.inputs): row for row in rows}
    wanted = ("float16", "normal"), ("rotated", "normal"), ("tensor", "outliers"), ("rotated", "outliers")
    if not all(key in found for key in wanted):
        return None
    usual, turned, plain, spread = (found[key] for key in wanted)
    return usual.times.p50 / turned.times.p50, plain.relative_error / spread.relative_error

"""Claims about the algorithm as code: what is rescaled where, passes over a row, what a listing lacks."""

from __future__ import annotations

from math import inf

import numpy as np

from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.problem.inputs import make_inputs
from engine.recordings.recording import Recording
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Tensor
from engine.studies.by_hand import online_output, online_weights, passes, safe_weights
from engine.studies.claims import sources
from engine.studies.claims.verdict import (
    COMPUTED,
    COUNTED,
    DEPENDS,
    OFF,
    PARTLY,
    RIGHT,
    WRONG,
    Claim,
    Finding,
    over,
    said,
)
from engine.studies.recomputation import FLOPS_RATIO, ONE_KERNEL, STORED, TWO_KERNELS

SMALL = Experiment.of(algorithm="flash2", heads=1, seq=256, head_dim=64)
VERSIONS = ("flash1", "flash2", "flash3")
LANES = 32  # of a warp
NEAR = 1e-6  # relative: what rounding explains, and more


def _passes(_: Recording | None) -> tuple[Finding, ...]:
    safe, online, fused = map(passes, (safe_weights, online_weights, online_output))
    return (
        said("passes over a row, safe softmax", "", 2, safe, COUNTED),
        Finding("online softmax, its weights", "", None, online, COUNTED),
        Finding("online softmax, for O = P V alone", "", None, fused, COUNTED),
    )


def listing_errors() -> tuple[float, float]:
    """Largest errors of O, relative to the largest number of the right O, of what a listing leaves out.

    Without the scale 1 / sqrt(d); and with each lane of a warp dividing by the sum over its own keys, every
    32nd, as lane j % 32 has column j of O.
    """
    q, k, v = (array[0].astype(np.float64) for array in make_inputs(SMALL.problem))
    raw = q @ k.T
    right = _weights(raw * SMALL.problem.scale)
    exact = right / right.sum(1, keepdims=True) @ v
    unscaled = _weights(raw)
    unscaled = unscaled / unscaled.sum(1, keepdims=True) @ v
    by_lane = np.stack([right[:, lane::LANES].sum(1) for lane in range(LANES)], 1)
    unreduced = right @ v / by_lane[:, np.arange(v.shape[1]) % LANES]
    largest = np.abs(exact).max()
    return tuple(float(np.abs(each - exact).max() / largest) for each in (unscaled, unreduced))


def _weights(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores - scores.max(1, keepdims=True))


def _listing(_: Recording | None) -> tuple[Finding, ...]:
    unscaled, unreduced = listing_errors()
    return (
        Finding("error of O without 1 / √d", "error", (0, NEAR), unscaled, COMPUTED, decides=True),
        Finding(
            "error of O, sums not added over the warp", "error", (0, NEAR), unreduced, COMPUTED, decides=True
        ),
    )


def _schedule(version: str) -> Schedule:
    return simulate(SMALL.changed(algorithm=version)).schedule


def _rescaled(_: Recording | None) -> tuple[Finding, ...]:
    """α once a visit; the division by l comes with O's store, after all visits of a query block."""
    schedule = _schedule("flash2")
    blocks = len(schedule.query_rows)
    operations = schedule.columns.operation
    stored = (operations == Operation.STORE) & (schedule.columns.tensor == Tensor.O)
    return (
        said("times that O is multiplied by α, per query block", "", 1, _times(operations, blocks), COUNTED),
        said("times that O is divided by l, per query block", "", 1, int(stored.sum()) / blocks, COUNTED),
    )


def _times(operations: np.ndarray, blocks: int) -> float:
    return int((operations == Operation.RESCALE).sum()) / blocks


def _flops(_: Recording | None) -> tuple[Finding, ...]:
    forward = [simulate(SMALL.changed(algorithm=name)).traffic.flops for name in ("standard", "flash2")]
    back = [FLOPS_RATIO[way] / FLOPS_RATIO[STORED] for way in (ONE_KERNEL, TWO_KERNELS)]
    return (
        said("forward, flash over unfused, no mask", "×", 1, forward[1] / forward[0], COUNTED),
        over("backward, recomputing over storing P", "×", (1, 1), back, "one kernel or two", COUNTED),
    )


def _accumulates(_: Recording | None) -> tuple[Finding, ...]:
    def reads(version: str) -> float:
        problem = SMALL.problem
        read = simulate(SMALL.changed(algorithm=version)).traffic.per_head.requested.read[Tensor.O]
        return read / (problem.seq_q * problem.head_dim * problem.itemsize)

    what = "times that O is read back from memory"
    return (over(what, "", (1, inf), map(reads, VERSIONS), "versions 1, 2 and 3", COUNTED),)


CLAIMS = (
    Claim(
        24,
        sources.CODE,
        "A CUDA listing of flash attention: S = Q Kᵀ without a factor, and each thread divides by the sum of "
        "weights that it has added up.",
        r"O = \mathrm{softmax}\!\left(\tfrac{1}{\sqrt d}\, Q K^\top\right) V",
        "numbers",
        SMALL,
        _listing,
        {
            WRONG: "It lacks 1 / √d, which makes the softmax far sharper, and never adds the sums of a "
            "warp's threads, each of which has seen a part of the keys.",
        },
    ),
    Claim(
        25,
        sources.CODE,
        "Version 2 moves the rescaling out of the inner loop.",
        r"O' = e^{\,m - m'} O + P V \ \text{at each visit}, \qquad O / l \ \text{once}",
        "softmax",
        SMALL,
        _rescaled,
        {
            PARTLY: "Only the division by l is moved out. O is still multiplied by α at every key block, or "
            "the earlier blocks would have too much weight.",
        },
    ),
    Claim(
        29,
        sources.CODE,
        "Standard softmax takes two passes over a row.",
        r"m = \max_j s_j, \qquad l = \sum_j e^{\,s_j - m}, \qquad p_j = e^{\,s_j - m} / l",
        "softmax",
        SMALL,
        _passes,
        {
            OFF: "A safe softmax takes three: maximum, sum, weights. Online softmax takes "
            "two, and one only where the weights are not wanted but O = P V."
        },
    ),
    Claim(
        34,
        sources.CONTEXT,
        "Flash attention does the same number of FLOPs as standard attention.",
        r"4 N^2 d, \qquad \text{backward } 8, 10 \text{ or } 14\ N^2 d",
        "gradients",
        SMALL.changed(algorithm="backward"),
        _flops,
        {
            PARTLY: "This is right forward. Backward S is computed again, in this project's two kernels dP "
            "too. With a mask flash skips tiles, which the unfused product computes.",
            RIGHT: "This is right.",
        },
    ),
    Claim(
        41,
        sources.TECHNIQUES,
        "Partial results of O accumulate in HBM.",
        r"\text{O is read back}\ \lceil N / B_c \rceil\ \text{times, or never}",
        "tiling",
        SMALL.changed(algorithm="flash1"),
        _accumulates,
        {DEPENDS: "This is so in version 1 alone. Since version 2 O stays on the chip until it is finished."},
    ),
)

"""What Triton's interpreter takes for a call, known beforehand: without a GPU the kernels run in it."""

import math

import numpy as np

from engine.experiment import Experiment
from engine.problem.bounds import key_bounds
from engine.studies.drawable import at_length, drawable

LONGEST = 3.0  # seconds per call
MOST_TILES = (16, 12, 8, 6, 4, 3, 2, 1)  # across: the first that is quick enough
INTERPRETED = "interpreted: for correctness, not speed"


def interpreter_seconds(experiment: Experiment) -> float:
    """What one call of an experiment's algorithm would take in Triton's interpreter, roughly."""
    problem, tiling = experiment.problem, experiment.tiling
    bounds = key_bounds(problem, tiling)
    visits = np.maximum(bounds.stop - bounds.first, 0).sum()
    if experiment.record.unfused:
        visits = len(bounds.first) * -(-problem.seq_kv // tiling.block_kv)
    fixed, scores = experiment.record.interpreter_ms
    tile = fixed + scores * tiling.block_q * tiling.block_kv / 1e3
    return float(problem.batch * problem.heads * visits * tile / 1e3)


def quick(experiment: Experiment, seconds: float, scores: float = math.inf) -> Experiment:
    """The experiment, or the same with fewer queries and keys, so that the interpreter takes so long at most.

    scores: of all heads, that there may be; at one tile across it may take longer, or have more.
    """
    for most in MOST_TILES:
        sibling = drawable(experiment, most)
        problem = sibling.problem
        few = problem.heads * problem.seq_q * problem.seq_kv <= scores
        if few and interpreter_seconds(sibling) <= seconds:
            break
    return sibling


def too_long(experiment: Experiment) -> str | None:
    """A sentence where the interpreter would take longer than LONGEST, with the most keys that it manages."""
    if experiment.record.interpreter_ms is None:
        return "Triton's interpreter does not run it"
    seconds = interpreter_seconds(experiment)
    if seconds <= LONGEST:
        return None
    keys = 1
    while interpreter_seconds(at_length(experiment, 2 * keys)) <= LONGEST:
        keys *= 2
    largest = f"largest here is N = {keys:,}" if keys > 1 else "no length is short enough here"
    return f"would take about {seconds:,.0f} s per call in the interpreter; {largest}"

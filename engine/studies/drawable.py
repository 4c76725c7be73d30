"""A sibling of an experiment that is small enough to draw."""

from dataclasses import replace

from engine.experiment import Experiment
from engine.model.launch import launch
from engine.parameter import LARGEST_SEQUENCE
from engine.problem.bounds import blocks
from engine.problem.problem import Problem

MOST_BLOCKS = 20_000  # of threads, that a browser moves smoothly


def drawable(experiment: Experiment, most: int = 64) -> Experiment:
    """The same, or with queries, keys and window shrunk by one factor: `most` x `most` tiles."""
    problem, tiling = experiment.problem, experiment.tiling
    across = max(problem.seq_q / tiling.block_q, problem.seq_kv / tiling.block_kv)
    if across <= most:
        return experiment

    def shrunk(length: int) -> int:
        return max(1, int(length * most / across))

    return experiment.changed(
        seq=shrunk(problem.seq_q), seq_kv=shrunk(problem.seq_kv), mask=problem.mask.shrunk(shrunk)
    )


def watchable(experiment: Experiment, most: int = MOST_BLOCKS) -> Experiment:
    """The experiment itself, or the same with its length halved until at most `most` blocks of threads run.

    Where one block of queries per head is too many, with fewer heads, and at last with fewer splits.
    """
    while launch(experiment).blocks > most:
        problem, asked = experiment.problem, experiment.asked
        smaller = _halved(problem, experiment.tiling.block_q)
        if smaller == problem:
            experiment = replace(experiment, asked=replace(asked, splits=asked.splits // 2))
        else:
            experiment = replace(experiment, problem=smaller)
    return experiment


def _halved(problem: Problem, block_q: int) -> Problem:
    if problem.seq_q > block_q or problem.seq_kv > block_q:
        seq_q, seq_kv = (blocks(length, 2) for length in (problem.seq_q, problem.seq_kv))
        mask = problem.mask.shrunk(lambda length: blocks(length, 2)).resized(seq_kv, problem.seq_kv)
        return replace(problem, mask=mask, seq_q=seq_q, seq_kv=seq_kv)
    if problem.batch > 1:
        return replace(problem, batch=problem.batch // 2)
    if problem.kv_heads > 1:
        kv_heads = problem.kv_heads // 2
        return replace(problem, kv_heads=kv_heads, heads=kv_heads * problem.group)
    return replace(problem, heads=max(1, problem.heads // 2))


def at_length(experiment: Experiment, keys: int) -> Experiment:
    """The same experiment with so many keys, and queries in proportion; a single query stays one."""
    problem = experiment.problem
    one = problem.seq_q == 1 < problem.seq_kv
    queries = 1 if one else max(1, round(keys * problem.seq_q / problem.seq_kv))
    mask = problem.mask.resized(keys, problem.seq_kv)
    longer = replace(problem, seq_q=min(queries, LARGEST_SEQUENCE), seq_kv=keys, mask=mask)
    return replace(experiment, problem=longer)

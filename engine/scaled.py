"""A sibling of an experiment that is small enough to draw."""

from __future__ import annotations

from engine.experiment import Experiment


def drawable(experiment: Experiment, most: int = 64) -> Experiment:
    """The experiment itself, or the same with fewer queries and keys: at most `most` x `most` tiles.

    Blocks, heads and head_dim stay; queries, keys and window shrink by one factor: the picture keeps its
    shape.
    """
    problem, tiling = experiment.problem, experiment.blocks
    across = max(problem.seq_q / tiling.block_q, problem.seq_kv / tiling.block_kv)
    if across <= most:
        return experiment
    window = problem.mask.window

    def shrunk(length: int) -> int:
        return max(1, int(length * most / across))

    return experiment.changed(
        seq=shrunk(problem.seq_q),
        seq_kv=shrunk(problem.seq_kv),
        window=None if window is None else shrunk(window),
    )

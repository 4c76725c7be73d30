"""The model over a range: over all algorithms, over the sequence length, over block sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from engine.experiment import COMPARED, LARGEST_SEQUENCE, OFFERED, Experiment
from engine.simulation import Simulation, simulate

SMALLEST_LENGTH = 64
BLOCKS = (16, 32, 64, 128, 256)


@dataclass(frozen=True)
class OverLength:
    """Simulations of every algorithm, [lengths] each; a length is the number of keys."""

    lengths: tuple[int, ...]
    simulations: Mapping[str, tuple[Simulation, ...]]


def at_length(experiment: Experiment, keys: int) -> Experiment:
    """The same experiment with so many keys, and queries in proportion."""
    problem = experiment.problem
    queries = max(1, round(keys * problem.seq_q / problem.seq_kv))
    return experiment.changed(seq=min(queries, LARGEST_SEQUENCE), seq_kv=keys)


def side_by_side(experiment: Experiment) -> tuple[str, ...]:
    """What is shown with an experiment: the algorithms of one tiling, and flash3 where that is asked."""
    return OFFERED if experiment.algorithm == "flash3" else COMPARED


def by_algorithm(experiment: Experiment) -> dict[str, Simulation]:
    """The experiment under every algorithm that is shown with it."""
    return {name: simulate(experiment.changed(algorithm=name)) for name in side_by_side(experiment)}


def over_length(experiment: Experiment) -> OverLength:
    """Every algorithm over powers of two of the length, to the largest there is."""
    if experiment.problem.seq_q == experiment.problem.seq_kv:  # then its own length says nothing
        experiment = at_length(experiment, LARGEST_SEQUENCE)
    return _over_length(experiment)


@lru_cache(maxsize=64)
def _over_length(experiment: Experiment) -> OverLength:
    powers = range(SMALLEST_LENGTH.bit_length() - 1, LARGEST_SEQUENCE.bit_length())
    lengths = tuple(2**power for power in powers)
    return OverLength(
        lengths,
        {
            name: tuple(simulate(at_length(experiment.changed(algorithm=name), keys)) for keys in lengths)
            for name in side_by_side(experiment)
        },
    )


@lru_cache(maxsize=64)
def over_blocks(experiment: Experiment) -> dict[tuple[int, int], Simulation]:
    """The experiment at every pair (block_q, block_kv) of the usual sizes."""
    return {
        (rows, keys): simulate(experiment.changed(block_q=rows, block_kv=keys))
        for rows in BLOCKS
        for keys in BLOCKS
    }

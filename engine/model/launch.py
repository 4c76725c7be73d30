"""One file an algorithm: the loop nest that its kernels run."""

from __future__ import annotations

from functools import lru_cache

from engine.algorithms import backward, flash1, flash2, flash3, split_kv, standard
from engine.experiment import Experiment
from engine.schedule.schedule import Schedule

_BUILDERS = {
    "standard": standard.build,
    "flash1": flash1.build,
    "flash2": flash2.build,
    "flash3": flash3.build,
    "split_kv": split_kv.build,
    "backward": backward.build,
}


@lru_cache(maxsize=32)
def schedule_of(experiment: Experiment) -> Schedule:
    """The schedule of one head of an experiment; few are kept, as one can have columns of many megabytes."""
    return _BUILDERS[experiment.algorithm](experiment.problem, experiment.blocks)

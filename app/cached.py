"""Engine results that many readers share. They are immutable, so they are kept as they are, never copied."""

from __future__ import annotations

from functools import lru_cache

from engine.experiment import Experiment


@lru_cache(maxsize=512)
def simulation(experiment: Experiment):
    """The engine's Simulation of an experiment; a few kilobytes each, as schedules stay loop nests."""
    from engine import simulate

    return simulate(experiment)

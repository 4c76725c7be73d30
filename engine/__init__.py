"""The tile scheduler and all that is computed from it: bytes, steps, numbers and seconds."""

from engine.experiment import Experiment, ExperimentError
from engine.model.simulation import Simulation, simulate

__all__ = ["Experiment", "ExperimentError", "Simulation", "simulate"]

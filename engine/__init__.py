"""The tile scheduler and everything computed from it: experiments in, bytes, steps, numbers and seconds out."""

from engine.experiment import Experiment, ExperimentError
from engine.simulation import Simulation, simulate

__all__ = ["Experiment", "ExperimentError", "Simulation", "simulate"]

"""From fewer bytes to less time: what a call takes at least, one reason after the other."""

from dataclasses import dataclass

from engine.experiment import Experiment
from engine.model.block_seconds import EXP, HBM, TENSOR
from engine.model.simulation import Simulation, simulate


@dataclass(frozen=True)
class Reason:
    """Modelled seconds from one of its ends to the other, and what takes them."""

    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Place:
    """Where a call stands under the roofline: FLOPs per byte across HBM, and FLOPs per modelled second."""

    intensity: float
    rate: float


def busy(simulation: Simulation, unit: str) -> float:
    """Seconds in which a unit of the GPU works, all kernels together."""
    return sum(kernel[unit] for kernel in simulation.modelled.busy.values())


def reasons(experiment: Experiment) -> tuple[Reason, ...]:
    """Standard attention's time, then an experiment's: its bytes alone, with its products, with what they do
    not hide of the softmax, and with all else, which is its modelled time.
    """
    standard, own = simulate(experiment.changed(algorithm="standard")), simulate(experiment)
    total = own.modelled.seconds
    moved, multiplied, exponentials = (busy(own, unit) for unit in (HBM, TENSOR, EXP))
    products = max(moved, multiplied)
    both = max(multiplied, exponentials) if own.launch.pipeline.overlapped else multiplied + exponentials
    softmax = min(total, max(products, both))
    return (
        Reason("standard attention", 0.0, standard.modelled.seconds),
        Reason("its bytes alone", 0.0, moved),
        Reason("matrix products", moved, products),
        Reason("softmax", products, softmax),
        Reason("loads, waits, launch, tail", softmax, total),
    )


def bytes_less(experiment: Experiment) -> float:
    """How many times fewer bytes cross HBM than in standard attention."""
    standard = simulate(experiment.changed(algorithm="standard"))
    return standard.traffic.dram.total / simulate(experiment).traffic.dram.total


def places(experiment: Experiment) -> tuple[Place, ...]:
    """A place for each reason: standard attention's, then where the experiment would stand with them."""
    standard, own = simulate(experiment.changed(algorithm="standard")), simulate(experiment)
    first, *others = reasons(experiment)
    found = [Place(standard.traffic.intensity("dram"), standard.traffic.flops / first.end)]
    intensity = own.traffic.intensity("dram")
    return (*found, *(Place(intensity, own.traffic.flops / each.end) for each in others))

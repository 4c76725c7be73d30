"""What fusing gains at every length: how many times fewer bytes across HBM, how many times less time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from engine.algorithms import flash2, standard
from engine.experiment import Experiment
from engine.model.block_seconds import EXP, HBM, TENSOR
from engine.model.simulation import Simulation, simulate
from engine.parameter import LARGEST_SEQUENCE
from engine.recordings.counters import recorded_counters
from engine.recordings.recording import Recording
from engine.studies.survey import by_length

UNFUSED = standard.ALGORITHM.key


class Gain(NamedTuple):
    """Unfused attention over a fused algorithm, on one problem."""

    keys: int  # of the problem
    bytes: float  # ratio of the bytes that cross HBM
    seconds: float  # ratio of the times
    fused: Experiment  # the fused algorithm, on its tiles


def fused_of(experiment: Experiment) -> Experiment:
    """The experiment itself where it is fused, and of one GPU; else under FlashAttention-2."""
    unfused = experiment.record.unfused or not experiment.record.on_one_gpu
    return experiment.changed(algorithm=flash2.ALGORITHM.key) if unfused else experiment


def modelled_gains(experiment: Experiment, most: int = LARGEST_SEQUENCE) -> tuple[Gain, ...]:
    """Over powers of two of the length, up to the most keys, modelled."""
    survey, fused = by_length(experiment).up_to(most), fused_of(experiment).algorithm
    pairs = zip(survey.simulations[UNFUSED], survey.simulations[fused], strict=True)
    return tuple(_modelled(*pair) for pair in pairs)


def modelled_gain(experiment: Experiment) -> Gain:
    return _modelled(simulate(experiment.changed(algorithm=UNFUSED)), simulate(fused_of(experiment)))


def products_share(experiment: Experiment) -> float:
    """What a fused kernel computes of unfused attention's matrix products, of which no mask skips any."""
    unfused = simulate(experiment.changed(algorithm=UNFUSED))
    return simulate(fused_of(experiment)).traffic.flops / unfused.traffic.flops


def _modelled(unfused: Simulation, fused: Simulation) -> Gain:
    fewer = unfused.traffic.dram.total / fused.traffic.dram.total
    faster = unfused.modelled.seconds / fused.modelled.seconds
    return Gain(fused.experiment.problem.seq_kv, fewer, faster, fused.experiment)


def recorded_gains(recording: Recording, experiment: Experiment) -> tuple[Gain, ...]:
    """Recorded under a profiler, of the scenario's problem and tiling at any length, less what L2 kept."""
    fused = fused_of(experiment)
    alike = [row for row in recorded_counters(recording) if _alike(row.experiment, experiment, fused)]
    found = {(row.experiment.problem, row.experiment.record.unfused): row for row in alike}
    pairs = [(found[problem, True], found.get((problem, False))) for problem, unfused in found if unfused]
    gains = [
        Gain(b.experiment.problem.seq_kv, a.dram_bytes / b.dram_bytes, a.seconds / b.seconds, b.experiment)
        for a, b in pairs
        if b
    ]
    return tuple(sorted(gains, key=lambda gain: gain.keys))


def gain_at(gains: Sequence[Gain], keys: int) -> Gain | None:
    return next((gain for gain in gains if gain.keys == keys), None)


def _alike(row: Experiment, experiment: Experiment, fused: Experiment) -> bool:
    """Whether a row is of one of the two, each on its tiles, and of the problem at any length."""
    wanted, own = experiment.problem, row.problem
    if row.hardware != experiment.hardware or row.algorithm not in (UNFUSED, fused.algorithm):
        return False
    if wanted.seq_q != wanted.seq_kv or own.seq_q != own.seq_kv or own.head_dim != wanted.head_dim:
        return False
    if own.mask != wanted.mask or replace(own, seq_q=wanted.seq_q, seq_kv=wanted.seq_kv) != wanted:
        return False  # most rows are found before this, without making another problem of each
    like = fused if row.algorithm == fused.algorithm else experiment.changed(algorithm=UNFUSED)
    return (row.tiling.block_q, row.tiling.block_kv) == (like.tiling.block_q, like.tiling.block_kv)


def reasons(experiment: Experiment) -> tuple[tuple[str, float, float], ...]:
    """(what takes them, modelled seconds from and to): standard attention's, then an experiment's.

    That is its bytes alone, with its products, with what they do not hide of the softmax, and with all else,
    which is its modelled time.
    """
    standard, own = simulate(experiment.changed(algorithm="standard")), simulate(experiment)
    total = own.modelled.seconds
    busy = own.modelled.busy.values()  # seconds of each unit, by kernel
    moved, multiplied, exponentials = (sum(each[unit] for each in busy) for unit in (HBM, TENSOR, EXP))
    products = max(moved, multiplied)
    both = max(multiplied, exponentials) if own.launch.pipeline.overlapped else multiplied + exponentials
    softmax = min(total, max(products, both))
    return (
        ("standard attention", 0.0, standard.modelled.seconds),
        ("its bytes alone", 0.0, moved),
        ("matrix products", moved, products),
        ("softmax", products, softmax),
        ("loads, waits, launch, tail", softmax, total),
    )


def bytes_less(experiment: Experiment) -> float:
    """How many times fewer bytes cross HBM than in standard attention."""
    standard = simulate(experiment.changed(algorithm="standard"))
    return standard.traffic.dram.total / simulate(experiment).traffic.dram.total


def places(experiment: Experiment) -> tuple[tuple[float, float], ...]:
    """(FLOPs per byte across HBM, FLOP/s) under the roofline, after each reason."""
    both = simulate(experiment.changed(algorithm="standard")).traffic, simulate(experiment).traffic
    return tuple(
        (moved.intensity("dram"), moved.flops / end)
        for n, (_, _, end) in enumerate(reasons(experiment))
        for moved in [both[n > 0]]
    )

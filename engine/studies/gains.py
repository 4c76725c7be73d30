"""What fusing gains at every length: how many times fewer bytes across HBM, how many times less time.

And what computing P again in the backward pass costs, against keeping it from the forward pass.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from engine.algorithms import flash2, standard
from engine.experiment import Experiment
from engine.model.block_seconds import EXP, HBM, TENSOR
from engine.model.device_memory import memory_parts
from engine.model.simulation import Simulation, simulate
from engine.parameter import LARGEST_SEQUENCE
from engine.recordings.counters import recorded_counters
from engine.recordings.recording import Recording
from engine.schedule.step import BY_KEY, Tensor, block_bytes
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


STORED, ONE_KERNEL, TWO_KERNELS = "P stored", "one kernel", "two kernels"
# matrix products of a tile: dV, dP, dQ, dK; with S again; with S and dP in both kernels
PRODUCTS = {STORED: 4, ONE_KERNEL: 5, TWO_KERNELS: 7}
FLOPS, KEPT, MOVED = "FLOPs", "kept in memory", "crosses HBM"


def recomputation(experiment: Experiment) -> dict[str, dict[str, int]]:
    """What the backward pass computes, keeps and moves, over batch and heads: with P stored, in two kernels.

    FLOPS: with P stored on all tiles, as unfused attention skips none. KEPT: bytes besides Q, K, V and O: P,
    or lse, delta and lse in units of log2. MOVED: bytes across HBM, with P stored those that must, else as
    modelled; keys that heads share pass once for all of them.
    """
    backward = experiment.changed(algorithm="backward")
    problem, traffic, memory = backward.problem, simulate(backward).traffic, memory_parts(backward)
    heads = problem.batch * problem.heads
    keys = sum(block_bytes(problem, tensor).of(0, problem.seq_kv) for tensor in BY_KEY)
    spared = keys * problem.batch * (problem.heads - problem.kv_heads)
    scores = problem.seq_q * problem.seq_kv * heads
    amounts = {
        FLOPS: (PRODUCTS[STORED] * scores * (problem.head_dim + problem.v_dim), traffic.flops),
        KEPT: (
            block_bytes(problem, Tensor.P).of(problem.seq_q, problem.seq_kv) * heads,
            sum(memory[tensor] for tensor in (Tensor.LSE, Tensor.DELTA, Tensor.LSE_LOG2)),
        ),
        MOVED: (standard_backward_bytes(backward) * heads - spared, traffic.dram.total),
    }
    return {name: dict(zip((STORED, TWO_KERNELS), pair, strict=True)) for name, pair in amounts.items()}


def standard_backward_bytes(experiment: Experiment) -> int:
    """Bytes that the unfused backward pass must move, one head, whatever the mask: 7 N^2 + 8 N d elements.

    P read twice, dP and dS written, dP read once, dS twice; dO, V, K, Q read (dO twice), dV, dQ, dK written.
    """
    problem = experiment.problem
    n, m, d = problem.seq_q, problem.seq_kv, (problem.head_dim + problem.v_dim) / 2
    return round(problem.itemsize * (7 * n * m + 4 * n * d + 4 * m * d))

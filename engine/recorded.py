"""Recordings beside the model: recorded curves as rows, and each recorded scenario simulated again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log2

from engine.comparison import BASELINE, Row, gpu_named, modelled_row
from engine.experiment import OFFERED, Experiment, ExperimentError, Problem
from engine.measuring.bench import field_flops
from engine.recording import Counters, Recording, Timing
from engine.simulation import simulate

FORWARD, BACKWARD = "forward", "backward"
OWN = "flash2"  # the provider whose backward pass the model is of
BACKWARD_FLOPS = 2.5  # over the forward pass's, by the field's convention
BACKWARD_BLOCKS = {128: (128, 64)}  # query and key rows by head dimension, 64 x 64 for others
MODEL_BLOCKS = (128, 64)  # query and key rows, where a recording leaves the blocks to the kernel


def nearest(recording: Recording, experiment: Experiment) -> tuple[int, bool] | None:
    """(head dimension, causal) of the recorded timings closest to a scenario; None if there are none."""
    problem = experiment.problem
    shapes = {(row.problem.head_dim, row.problem.mask.causal) for row in recording.timings}
    causal = not problem.mask.looks_ahead
    return min(
        shapes,
        key=lambda shape: (shape[1] != causal, abs(shape[0] - problem.head_dim), shape[0]),
        default=None,
    )


def timings_of(
    recording: Recording, head_dim: int, causal: bool, direction: str = FORWARD
) -> tuple[Timing, ...]:
    """Its timings of one shape, by provider as recorded, then by length."""
    rows = [
        row
        for row in recording.timings
        if (row.problem.head_dim, row.problem.mask.causal, row.direction) == (head_dim, causal, direction)
    ]
    order = list(dict.fromkeys(row.provider for row in rows))
    return tuple(sorted(rows, key=lambda row: (order.index(row.provider), row.problem.seq_kv)))


def recorded_rows(timings: Sequence[Timing]) -> list[Row]:
    """Timings in the figures of a measured row; the speed-up is over unfused PyTorch at that length."""
    timed = [row for row in timings if row.times is not None]
    base = {row.problem.seq_kv: row.times.p50 for row in timed if row.provider == BASELINE}
    return [
        {
            "provider": row.provider,
            "label": row.label,
            "keys": row.problem.seq_kv,
            "p20": row.times.p20,
            "p50": row.times.p50,
            "p80": row.times.p80,
            "tflops": row.tflops,
            "tokens_per_second": row.problem.batch * row.problem.seq_q / row.times.p50,
            "speedup": base[row.problem.seq_kv] / row.times.p50 if row.problem.seq_kv in base else None,
        }
        for row in timed
    ]


def overtakes(rows: Sequence[Row], provider: str, other: str = BASELINE) -> int | None:
    """The length from which on a provider is the faster of two; None if it never is, or one is missing."""
    times = [
        {row["keys"]: row["p50"] for row in rows if row["provider"] == name} for name in (provider, other)
    ]
    first = None
    for keys in sorted(times[0].keys() & times[1].keys()):
        faster = times[0][keys] < times[1][keys]
        first = (first or keys) if faster else None
    return first


def ran_out(timings: Sequence[Timing]) -> list[Timing]:
    """The shortest row of each provider that ran out of memory."""
    found: dict[str, Timing] = {}
    for row in sorted(timings, key=lambda row: row.problem.seq_kv):
        if row.skipped is not None and "out of memory" in row.skipped:
            found.setdefault(row.provider, row)
    return list(found.values())


@dataclass(frozen=True)
class Counted:
    """What the GPU's counters say of one scenario, beside the model of the same; bytes and seconds."""

    experiment: Experiment
    read: float
    modelled_read: int
    dram_read: float
    modelled_dram_read: int
    seconds: float
    modelled_seconds: float

    @property
    def what(self) -> str:
        """The scenario in a few words."""
        return described(self.experiment)


def described(experiment: Experiment) -> str:
    """A scenario in a few words."""
    problem, tiling = experiment.problem, experiment.blocks
    mask = f", window {problem.mask.window:,}" if problem.mask.window else ", causal" * problem.mask.causal
    heads = f"{problem.heads}" if problem.heads == problem.kv_heads else f"{problem.heads}/{problem.kv_heads}"
    dtype = f", {problem.dtype}" * (problem.dtype != "float16")
    batch = f"batch {problem.batch}, " if problem.batch > 1 else ""
    return (
        f"{experiment.algorithm}, N {problem.seq_kv:,}, {batch}heads {heads}, d {problem.head_dim}{mask}, "
        f"blocks {tiling.block_q}×{tiling.block_kv}{dtype}"
    )


def counted(recording: Recording) -> list[Counted]:
    """Its counted scenarios that the model knows, each simulated now; none if it does not know the GPU."""
    gpu = gpu_named(recording.device.gpu)
    if gpu is None:
        return []
    return [one for row in recording.counters if _has_model(row) and (one := _counted(row, gpu.key))]


def _has_model(row: Counters) -> bool:
    known = row.provider in OFFERED and row.direction == FORWARD and bool(row.kernels)
    return known and (row.provider == "flash3" or None not in (row.block_q, row.block_kv))


@lru_cache(maxsize=512)
def _counted(row: Counters, hardware: str) -> Counted | None:
    try:
        experiment = experiment_of(row.problem, row.provider, row.block_q, row.block_kv, hardware)
    except ExperimentError:  # blocks in a stranger's file
        return None
    simulation = simulate(experiment)
    return Counted(
        experiment,
        row.total("tile_read"),
        simulation.traffic.requested.total_read,
        row.total("dram_read"),
        simulation.traffic.dram.total_read,
        row.total("seconds"),
        simulation.modelled.seconds,
    )


def experiment_of(problem: Problem, algorithm: str, block_q, block_kv, hardware: str) -> Experiment:
    """What was recorded as a scenario of the model; blocks, rows, are None where the algorithm has its own."""
    tiling = {"block_q": block_q, "block_kv": block_kv}
    return Experiment(problem=problem).changed(algorithm=algorithm, hardware=hardware, **tiling)


def furthest(pairs: Iterable[tuple[float, float]]) -> float:
    """The largest relative deviation of (modelled, counted)."""
    return max(abs(modelled / real - 1) for modelled, real in pairs)


def modelled_backward(timings: Sequence[Timing], hardware: str) -> list[Row]:
    """The model of this project's backward kernels on recorded problems, in blocks about like their own.

    FLOPs as the field counts them: 2.5 times the forward pass's, whatever is computed twice.
    """
    rows = []
    for keys, problem in sorted({row.problem.seq_kv: row.problem for row in timings}.items()):
        blocks = BACKWARD_BLOCKS.get(problem.head_dim, (64, 64))
        seconds = simulate(experiment_of(problem, "backward", *blocks, hardware)).modelled.seconds
        tflops = BACKWARD_FLOPS * field_flops(problem) / seconds / 1e12
        rows.append({"provider": OWN, "keys": keys, "p50": seconds, "tflops": tflops})
    return rows


@dataclass(frozen=True)
class BothWays:
    """Recorded medians of one implementation and problem, forward and backward alone, seconds."""

    problem: Problem
    forward: float
    backward: float

    @property
    def ratio(self) -> float:
        """How many forward passes a backward pass takes."""
        return self.backward / self.forward


def both_ways(recording: Recording, head_dim: int, causal: bool, keys: int) -> BothWays | None:
    """This project's forward and backward pass at the recorded length nearest to a number of keys."""
    times = {
        direction: {
            row.problem: row.times.p50
            for row in timings_of(recording, head_dim, causal, direction)
            if row.provider == OWN and row.times is not None
        }
        for direction in (FORWARD, BACKWARD)
    }
    problems = times[FORWARD].keys() & times[BACKWARD].keys()
    if not problems:
        return None
    problem = min(problems, key=lambda one: (abs(log2(one.seq_kv / keys)), one.seq_kv))
    return BothWays(problem, times[FORWARD][problem], times[BACKWARD][problem])


def modelled_like(timings: Sequence[Timing], hardware: str) -> list[Row]:
    """The model on recorded problems with blocks of MODEL_BLOCKS, in the figures of a measured row."""
    problems = {row.problem.seq_kv: row.problem for row in timings}
    return [
        modelled_row(experiment_of(problem, name, *MODEL_BLOCKS, hardware), keys)
        for name in OFFERED
        for keys, problem in sorted(problems.items())
    ]

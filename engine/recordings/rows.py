"""Recordings beside the model: recorded curves as rows, and each recorded scenario simulated again."""

from collections.abc import Sequence
from typing import Any

from engine.algorithms import ALGORITHMS, FORWARD, backward, flash2, offered, standard
from engine.algorithms.backward import KEY_GRADIENTS, QUERY_GRADIENTS, ROW_TERMS, own_tilings
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.problem.bounds import BACKWARD_FLOPS, field_flops
from engine.problem.cache import kept_with
from engine.problem.hardware import GPUS
from engine.problem.problem import Problem
from engine.recordings.nearest import WIDTH, differing, head_dim, masked, nearest
from engine.recordings.recording import Recording
from engine.recordings.timing import Timing

BASELINE = "eager"  # what a speed-up is a speed-up over: PyTorch's unfused attention
STAND_IN = "sdpa_flash"  # or PyTorch's flash backend, where that was not timed: in backward passes


Row = dict[str, Any]


def modelled_row(experiment: Experiment, keys: int) -> Row:
    """The modelled time of one experiment; the speed-up is over the standard algorithm."""
    problem, seconds = experiment.problem, simulate(experiment).modelled.seconds
    return {
        "provider": experiment.algorithm,
        "keys": keys,
        "p50": seconds,
        "tflops": field_flops(problem) / seconds / 1e12,
        "tokens_per_second": problem.batch * problem.seq_q / seconds,
        "speedup": simulate(experiment.changed(algorithm=standard.ALGORITHM.key)).modelled.seconds / seconds,
    }


BACKWARD_PROVIDER = flash2.ALGORITHM.key  # the provider whose backward pass the model is of
MODEL_BLOCKS = (128, 64)  # query and key rows, where neither a row nor its kernel has blocks of its own


def nearest_shape(recording: Recording, experiment: Experiment) -> tuple[int, bool] | None:
    """(head dimension, causal) of the recorded timings closest to a scenario; None if there are none."""
    row = nearest(_shapes(recording), experiment, differing(masked), WIDTH)
    return row and (row.problem.head_dim, row.problem.mask.causal)


@kept_with(1)
def _shapes(recording: Recording) -> tuple[Timing, ...]:
    """A timing of each shape, by head dimension."""
    rows = sorted(recording.timings, key=head_dim)
    return tuple({(head_dim(row), row.problem.mask): row for row in rows}.values())


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
    """Timings in the figures of a measured row; the speed-up is over `baseline` at that length."""
    timed, over = [row for row in timings if row.times is not None], baseline(timings)
    base = {row.problem.seq_kv: row.times.p50 for row in timed if row.provider == over}
    return [
        {
            "provider": row.provider,
            "label": row.label,
            "keys": row.problem.seq_kv,
            **row.figures,
            "speedup": base[row.problem.seq_kv] / row.times.p50 if row.problem.seq_kv in base else None,
        }
        for row in timed
    ]


def baseline(timings: Sequence[Timing]) -> str | None:
    """The provider that speed-ups of these timings are over; None where neither was timed."""
    timed = {row.provider for row in timings if row.times is not None}
    return next((name for name in (BASELINE, STAND_IN) if name in timed), None)


def experiment_of(problem: Problem, algorithm: str, block_q, block_kv, hardware: str) -> Experiment:
    """What was recorded as a scenario of the model; blocks are None where it has its own."""
    tiling = {"block_q": block_q, "block_kv": block_kv}
    return Experiment(problem=problem).changed(algorithm=algorithm, hardware=hardware, **tiling)


def modelled_backward(timings: Sequence[Timing], hardware: str) -> list[Row]:
    """The model of this project's backward kernels on recorded problems, each in its own blocks.

    FLOPs as the field counts them: 2.5 times the forward pass's, whatever is computed twice.
    """
    rows = []
    for keys, problem in sorted({row.problem.seq_kv: row.problem for row in timings}.items()):
        by_keys, by_queries = (
            simulate(experiment_of(problem, backward.ALGORITHM.key, *blocks, hardware)).modelled.parts
            for *blocks, _, _ in own_tilings(problem, GPUS[hardware].device).values()
        )
        seconds = by_keys[KEY_GRADIENTS] + by_queries[ROW_TERMS] + by_queries[QUERY_GRADIENTS]
        tflops = BACKWARD_FLOPS * field_flops(problem) / seconds / 1e12
        rows.append({"provider": BACKWARD_PROVIDER, "keys": keys, "p50": seconds, "tflops": tflops})
    return rows


def modelled_timings(timings: tuple[Timing, ...], hardware: str) -> tuple[Row, ...]:
    """The model on recorded problems, in kernels' own blocks or MODEL_BLOCKS, in a measured row's units."""
    problems = {row.problem.seq_kv: row.problem for row in timings}
    return tuple(
        modelled_row(experiment_of(problem, name, *MODEL_BLOCKS, hardware).in_own_tiling(), keys)
        for name in offered()
        if ALGORITHMS[name].kernel
        for keys, problem in sorted(problems.items())
    )

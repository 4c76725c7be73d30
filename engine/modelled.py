"""How long a schedule takes on a GPU: modelled from rates, never measured.

A kernel takes as long as its slowest resource, plus what it cannot hide. The rates are the vendor's peaks
times a share that kernels reach, measured or fitted once on an H200; every other GPU is assumed to reach the
same share of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from engine.experiment import Experiment
from engine.footprint import footprint
from engine.hardware import Gpu
from engine.pipeline import Pipeline, pipeline_of
from engine.schedule import EXPONENTIALS, Operation, Phase, Schedule
from engine.traffic import Traffic, counts, requested_bytes
from engine.traffic import traffic as traffic_of

MATRIX_SHARE = 0.8  # a large matrix product: 769 to 808 of 989 TFLOP/s, the card's power is the limit
MEMORY_SHARE = 0.89  # a copy: 4.27 of 4.8 TB/s
CACHE_SHARE = 0.4  # of 64 bytes a clock and SM from L2: about 6 TB/s on an H200
CACHE_BYTES_PER_CLOCK = 64
VECTOR_OPERATIONS = 5  # a score: scale and subtract m, maximum, sum, convert to P's dtype, rescale O's share
LATENCY = 0.7e-6  # s, one round trip to memory with its address arithmetic
ROUND_TRIPS = (
    3  # that a program waits for one after another: its first loads, its first products, its last store
)
VISIT_ROUND_TRIPS = (
    2  # a visit of flash1: O, m and l must arrive before it starts and be stored before it ends
)
LAUNCH = 4e-6  # s, start of a kernel
BETWEEN_PRODUCTS = (Operation.MAXIMUM, Operation.SCORE_GRADIENT, Operation.ROW_TERMS)  # float32 arithmetic


@dataclass(frozen=True)
class Modelled:
    """A modelled time.

    Attributes:
        seconds: of all kernels together, over batch and heads.
        bound: what holds the slowest kernel up: "arithmetic", "L2", "DRAM" or "latency".
        parts: seconds of every kernel, by its name.
    """

    seconds: float
    bound: str
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Rates:
    """What a GPU reaches, 1/s: FLOPs of matrix products, exponentials, float32 operations, L2 bytes."""

    matrix: float
    exponentials: float
    vector: float
    cache: float

    @classmethod
    def of(cls, gpu: Gpu, dtype: str) -> Rates:
        """The rates that a GPU reaches in a dtype."""
        return cls(
            matrix=MATRIX_SHARE * gpu.matrix_flops[dtype],
            exponentials=gpu.exponentials_per_second,
            vector=gpu.matrix_flops["float32"] / 2,
            cache=CACHE_SHARE * CACHE_BYTES_PER_CLOCK * gpu.sms * gpu.clock_hz,
        )


def modelled(
    experiment: Experiment, schedule: Schedule, traffic: Traffic, pipeline: Pipeline | None = None
) -> Modelled:
    """Modelled time of an experiment on its GPU: its kernels one after another.

    pipeline is what they do at the same time; by default what the algorithm's kernel does.
    """
    pipeline = pipeline or pipeline_of(experiment.algorithm)
    resident = max(1, footprint(experiment).blocks_per_sm)
    kernels = {
        phase.name: _kernel_times(experiment, schedule, phase, traffic, resident, pipeline)
        for phase in schedule.phases
    }
    parts = {
        name: pipeline.with_copies(times["arithmetic"], max(times["L2"], times["DRAM"])) + times["latency"]
        for name, times in kernels.items()
    }
    slowest = kernels[max(parts, key=parts.get)]
    return Modelled(sum(parts.values()), max(slowest, key=slowest.get), parts)


def _kernel_times(
    experiment: Experiment,
    schedule: Schedule,
    phase: Phase,
    traffic: Traffic,
    resident: int,
    pipeline: Pipeline,
) -> dict[str, float]:
    """Seconds that one kernel keeps each resource busy."""
    gpu, problem = experiment.gpu, experiment.problem
    rates = Rates.of(gpu, problem.dtype)
    one_head = counts(replace(schedule, phases=(phase,)))
    programs, longest = _programs(schedule, phase)
    heads = problem.batch * problem.kv_heads if phase.shared else traffic.heads
    programs *= heads
    active = min(programs, gpu.sms) / gpu.sms
    # the fullest SM's work against an even spread: waves round up, and one program cannot be split
    busiest = max(-(-programs // gpu.sms) / programs, longest / heads) * gpu.sms
    on_chip = (Operation.RESCALE, Operation.WEIGHTS)
    scores = one_head.exponentials if any(step.operation in on_chip for step in phase.each) else 0
    softmax = one_head.exponentials / rates.exponentials + VECTOR_OPERATIONS * scores / rates.vector
    arithmetic = pipeline.arithmetic(one_head.flops / rates.matrix, softmax)
    waves = 1 if pipeline.specialised else -(-programs // (gpu.sms * resident))
    return {
        "arithmetic": arithmetic * traffic.heads * busiest,
        "L2": requested_bytes(replace(schedule, phases=(phase,))).total / (rates.cache * active),
        "DRAM": _dram_bytes(schedule, phase, traffic) / (MEMORY_SHARE * gpu.memory_bytes_per_second),
        "latency": LAUNCH + LATENCY * _round_trips(experiment, phase, pipeline) * waves,
    }


def _dram_bytes(schedule: Schedule, phase: Phase, traffic: Traffic) -> float:
    """A kernel's share of the modelled DRAM bytes: what several kernels read is divided evenly among them."""

    def moves(phase: Phase) -> set[tuple]:
        return {(step.operation, step.tensor) for step in phase.before + phase.each + phase.after}

    movers = Counter(move for each in schedule.phases for move in moves(each))
    amounts = {Operation.LOAD: traffic.dram.read, Operation.STORE: traffic.dram.written}
    return sum(
        amounts[operation][tensor] / movers[operation, tensor]
        for operation, tensor in moves(phase)
        if operation in amounts
    )


def _programs(schedule: Schedule, phase: Phase) -> tuple[int, float]:
    """Programs that one head's kernel is launched as, and the longest one's share of the head's work."""
    if phase.name == "attention" and phase.outer == "key":  # flash1 walks all key blocks in one program
        return 1, 1.0
    if phase.name == "scores":
        return int(phase.visits.sum()), 0.0
    if phase.name == "softmax":
        return schedule.problem.seq_q, 0.0
    return len(phase.visits), float(phase.visits.max() / max(1, phase.visits.sum()))


def _round_trips(experiment: Experiment, phase: Phase, pipeline: Pipeline) -> int:
    """Trips to memory that a program waits for; the short programs of unfused attention hide each other's."""
    if experiment.algorithm == "standard":
        return 0
    if experiment.algorithm == "flash1":
        return ROUND_TRIPS + VISIT_ROUND_TRIPS * int(phase.visits.sum())
    if not pipeline.asynchronous:  # each visit's K and V, asked for once the last visit is done
        return ROUND_TRIPS + round(phase.visits.mean())
    return ROUND_TRIPS


def step_seconds(experiment: Experiment, schedule: Schedule) -> np.ndarray:
    """[steps] float64: modelled seconds of every step of one head, each kernel's time spread over its steps.

    All heads run side by side, so one head's steps add up to the time of the whole launch.
    """
    seconds = modelled(experiment, schedule, traffic_of(experiment, schedule)).parts
    gpu, columns = experiment.gpu, schedule.columns
    rates = Rates.of(gpu, experiment.problem.dtype)
    scores = schedule.query_rows[columns.query_block].astype(np.float64)
    scores *= np.where(columns.key_block < 0, experiment.problem.seq_kv, schedule.key_rows[columns.key_block])
    cost = columns.flops / rates.matrix
    cost += (columns.read_bytes.astype(np.float64) + columns.written_bytes) / rates.cache
    cost += np.where(np.isin(columns.operation, EXPONENTIALS), scores / rates.exponentials, 0)
    cost += np.where(
        np.isin(columns.operation, BETWEEN_PRODUCTS), VECTOR_OPERATIONS * scores / rates.vector, 0
    )
    for index, phase in enumerate(schedule.phases):
        steps = columns.phase == index
        cost[steps] *= seconds[phase.name] / cost[steps].sum()
    return cost

"""How long a schedule takes on a GPU: modelled from rates, never measured.

A kernel takes as long as its slowest resource, plus what it cannot hide. The rates are the vendor's peaks
times a share that kernels reach, measured or fitted once on an H200; every other GPU is assumed to reach the
same share of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from engine.experiment import Experiment
from engine.footprint import footprint
from engine.hardware import Gpu
from engine.schedule import Operation, Phase, Schedule
from engine.traffic import Traffic, counts
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


def modelled(experiment: Experiment, schedule: Schedule, traffic: Traffic) -> Modelled:
    """Modelled time of an experiment on its GPU: its kernels one after another."""
    resident = max(1, footprint(experiment).blocks_per_sm)
    kernels = {
        phase.name: _kernel_times(experiment, schedule, phase, traffic, resident) for phase in schedule.phases
    }
    parts = {
        name: max(times[bound] for bound in ("arithmetic", "L2", "DRAM")) + times["latency"]
        for name, times in kernels.items()
    }
    slowest = kernels[max(parts, key=parts.get)]
    return Modelled(sum(parts.values()), max(slowest, key=slowest.get), parts)


def _kernel_times(
    experiment: Experiment, schedule: Schedule, phase: Phase, traffic: Traffic, resident: int
) -> dict[str, float]:
    """Seconds that one kernel keeps each resource busy."""
    gpu, problem = experiment.gpu, experiment.problem
    rates = Rates.of(gpu, problem.dtype)
    one_head = counts(replace(schedule, phases=(phase,)))
    programs, longest = _programs(schedule, phase)
    programs *= traffic.heads
    active = min(programs, gpu.sms) / gpu.sms
    # the fullest SM's work against an even spread: waves round up, and one program cannot be split
    busiest = max(-(-programs // gpu.sms) / programs, longest / traffic.heads) * gpu.sms
    scores = one_head.exponentials if any(step.operation == Operation.RESCALE for step in phase.each) else 0
    arithmetic = (
        one_head.flops / rates.matrix
        + one_head.exponentials / rates.exponentials
        + VECTOR_OPERATIONS * scores / rates.vector
    )
    moved = {(step.operation, step.tensor) for step in phase.before + phase.each + phase.after}
    dram = sum(traffic.dram.read[tensor] for operation, tensor in moved if operation == Operation.LOAD)
    dram += sum(traffic.dram.written[tensor] for operation, tensor in moved if operation == Operation.STORE)
    return {
        "arithmetic": arithmetic * traffic.heads * busiest,
        "L2": one_head.requested.total * traffic.heads / (rates.cache * active),
        "DRAM": dram / (MEMORY_SHARE * gpu.memory_bytes_per_second),
        "latency": LAUNCH + LATENCY * _round_trips(experiment, phase) * -(-programs // (gpu.sms * resident)),
    }


def _programs(schedule: Schedule, phase: Phase) -> tuple[int, float]:
    """Programs that one head's kernel is launched as, and the longest one's share of the head's work."""
    if phase.outer == "key":
        return 1, 1.0
    if phase.name == "scores":
        return int(phase.visits.sum()), 0.0
    if phase.name == "softmax":
        return schedule.problem.seq_q, 0.0
    return len(phase.visits), float(phase.visits.max() / max(1, phase.visits.sum()))


def _round_trips(experiment: Experiment, phase: Phase) -> int:
    """Trips to memory that a program waits for; the short programs of unfused attention hide each other's."""
    if experiment.algorithm == "standard":
        return 0
    if experiment.algorithm == "flash1":
        return ROUND_TRIPS + VISIT_ROUND_TRIPS * int(phase.visits.sum())
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
    exponential = (columns.operation == Operation.RESCALE) | (columns.operation == Operation.SOFTMAX)
    cost += np.where(exponential, scores / rates.exponentials, 0)
    cost += np.where(columns.operation == Operation.MAXIMUM, VECTOR_OPERATIONS * scores / rates.vector, 0)
    for index, phase in enumerate(schedule.phases):
        steps = columns.phase == index
        cost[steps] *= seconds[phase.name] / cost[steps].sum()
    return cost

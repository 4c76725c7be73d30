"""Which steps cross HBM, modelled, and how long each takes: the DRAM bytes of `engine.model.l2`, by step.

A kernel starts with empty caches, so the first step that touches a tile fetches it, and what a kernel leaves
is written once. A step that touches the tile again crosses with the chance that it is gone by then: what the
kernel fetches beyond the first time, spread evenly over all that it asks for again. All heads run side by
side, and one head has its even share: of K and V that several heads read, of whatever L2 loses.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from engine.model.launch import Launch
from engine.model.rates import SCORE_OPERATIONS, Rates
from engine.model.seconds import modelled_time
from engine.model.traffic import Traffic, compulsory_bytes
from engine.model.traffic import traffic as traffic_of
from engine.schedule.schedule import Schedule
from engine.schedule.step import EXPONENTIALS, PARTIALS, Operation, Tensor


@dataclass(frozen=True)
class Crossings:
    """What the steps of one head move across HBM; arrays are [steps], bytes float64."""

    # read, written: by each step; all of them add up to `Traffic.dram` over the heads
    read: np.ndarray
    written: np.ndarray
    first: np.ndarray  # bool, whether the step is the first of its kernel to load its tile, or to store it


def crossings(launch: Launch, traffic: Traffic) -> Crossings:
    columns = launch.schedule.columns
    first, read, written = np.zeros(len(columns), bool), np.zeros(len(columns)), np.zeros(len(columns))
    for operation, index, tensor, once, again in parts_of(launch, traffic):
        loads = operation == Operation.LOAD
        asked, moved = (columns.read_bytes, read) if loads else (columns.written_bytes, written)
        steps = (columns.operation == operation) & (columns.phase == index) & (columns.tensor == tensor)
        steps = np.flatnonzero(steps)
        first[steps] = touches = _first_touches(launch.schedule, steps, tensor)
        moved[steps] = spread(asked[steps].astype(np.float64), touches, once, again) / traffic.heads
    return Crossings(read, written, first)


def parts_of(launch: Launch, traffic: Traffic) -> Iterator[tuple[Operation, int, Tensor, float, float]]:
    """(operation, kernel, tensor, bytes that cross once, bytes that cross again), over batch and heads.

    They add up to `traffic.dram`: less than kernels fetch where less is asked for.
    """
    phases = [replace(launch.schedule, phases=(kernel.phase,)) for kernel in launch.kernels]
    for operation, way in ((Operation.LOAD, "read"), (Operation.STORE, "written")):
        fetched = [
            (index, tensor, once, getattr(refetched, way).get(tensor, (0.0,))[0])
            for index, (phase, refetched) in enumerate(zip(phases, traffic.refetched, strict=True))
            for tensor, once in getattr(compulsory_bytes(phase), way).items()
            if once
        ]
        for index, tensor, once, again in fetched:
            every = sum(each[2] + each[3] for each in fetched if each[1] == tensor)
            share = getattr(traffic.dram, way)[tensor] / every
            yield operation, index, tensor, once * share, again * share


def spread(asked: np.ndarray, touches: np.ndarray, once: float, again: float) -> np.ndarray:
    """[steps] bytes: those of first touches in proportion to what each asks for, and the others likewise."""
    repeated = asked[~touches].sum()
    if not repeated:
        return asked * ((once + again) / asked.sum())
    return asked * np.where(touches, once / asked[touches].sum(), again / repeated)


def _first_touches(schedule: Schedule, steps: np.ndarray, tensor: Tensor) -> np.ndarray:
    """[steps] bool: which steps of one kernel, all on one tensor, are the first on their tile."""
    if tensor in PARTIALS:  # every split has its own
        return np.ones(len(steps), bool)
    columns, amount, keys = schedule.columns, schedule.amounts[tensor], len(schedule.key_rows) + 1
    tile = np.zeros(len(steps), np.int64)
    if amount.by_query:
        tile += (columns.query_block[steps] + 1) * keys
    if amount.by_key:
        tile += columns.key_block[steps] + 1
    at = np.full((len(schedule.query_rows) + 1) * keys, -1)
    at[tile[::-1]] = np.arange(len(steps))[::-1]  # of several the first stands, as it is written last
    touches = np.zeros(len(steps), bool)
    touches[at[at >= 0]] = True
    return touches


BETWEEN_PRODUCTS = (Operation.MAXIMUM, Operation.SCORE_GRADIENT, Operation.ROW_TERMS)  # float32 arithmetic


def step_seconds(launch: Launch, traffic: Traffic | None = None) -> np.ndarray:
    """[steps] float64: modelled seconds of every step of one head, each kernel's time spread over its steps.

    All heads run side by side, so one head's steps add up to the time of the whole launch. `traffic` is the
    launch's, where it is known already.
    """
    schedule, problem = launch.schedule, launch.problem
    seconds, columns = modelled_time(launch, traffic or traffic_of(launch)).parts, schedule.columns
    rates = Rates.of(launch.gpu, problem.dtype)
    scores = schedule.query_rows[columns.query_block].astype(np.float64)
    scores *= np.where(columns.key_block < 0, problem.seq_kv, schedule.key_rows[columns.key_block])
    cost = columns.flops / rates.matrix
    cost += (columns.read_bytes.astype(np.float64) + columns.written_bytes) / rates.cache
    cost += np.where(np.isin(columns.operation, EXPONENTIALS), scores / rates.exponentials, 0)
    cost += np.where(
        np.isin(columns.operation, BETWEEN_PRODUCTS), SCORE_OPERATIONS * scores / rates.vector, 0
    )
    for index, phase in enumerate(schedule.phases):
        steps = columns.phase == index
        cost[steps] *= seconds[phase.name] / cost[steps].sum()
    return cost

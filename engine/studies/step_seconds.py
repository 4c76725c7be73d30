"""A kernel's modelled time spread over its steps, one after another."""

import numpy as np

from engine.model.launch import Launch
from engine.model.rates import SCORE_OPERATIONS, Rates
from engine.model.seconds import modelled_time
from engine.model.traffic import Traffic
from engine.model.traffic import traffic as traffic_of
from engine.schedule.step import EXPONENTIALS, Operation

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

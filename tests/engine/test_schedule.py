"""Schedules against a slow twin that walks the loops, and totals against sums over every step."""

import numpy as np
import pytest
from hypothesis import given

from engine import Experiment
from engine.model.launch import schedule_of
from engine.model.traffic import counts
from engine.schedule.step import Operation, Tensor, block_bytes, matrix_flops
from tests.engine.strategies import on_one_gpu


def walked(schedule) -> list[tuple]:
    """Every step as (phase, operation, tensor, query block, key block, blocks moved), loop by loop."""
    steps = []
    for index, phase in enumerate(schedule.phases):

        def add(group, outer, inner, index=index, phase=phase):
            query, key = (outer, inner) if phase.outer == "query" else (inner, outer)
            steps.extend((index, step.operation, step.tensor, query, key, step.times) for step in group)

        for program in range(len(phase.visits)):
            outer = program // phase.splits
            add(phase.before, outer, -1)
            inners = range(phase.first[program], phase.stop[program])
            for inner in reversed(inners) if phase.reverse else inners:
                add(phase.each, outer, inner)
            add(phase.after, outer, -1)
    return steps


def rows_of(rows: np.ndarray, block: int) -> int:
    return int(rows.sum() if block < 0 else rows[block])


@given(on_one_gpu())
def test_columns_are_the_loops_walked_step_by_step(experiment):
    schedule = schedule_of(experiment)
    columns = schedule.columns
    names = (columns.phase, columns.operation, columns.tensor, columns.query_block, columns.key_block)
    steps = [step[:-1] for step in walked(schedule)]
    assert list(zip(*(column.tolist() for column in names), strict=True)) == steps
    assert schedule.steps == len(columns)


@given(on_one_gpu())
def test_every_step_moves_its_block_and_multiplies_its_tile(experiment):
    schedule = schedule_of(experiment)
    columns, problem = schedule.columns, experiment.problem
    for at, (_, operation, tensor, query, key, times) in enumerate(walked(schedule)):
        rows, keys = rows_of(schedule.query_rows, query), rows_of(schedule.key_rows, key)
        box = experiment.algorithm == "flash3" and operation == Operation.LOAD  # whole, by TMA
        asked = (schedule.tiling.block_q, schedule.tiling.block_kv) if box else (rows, keys)
        moved = times * block_bytes(problem, tensor).of(*asked) if tensor != Tensor.NONE else 0
        product = operation in (Operation.SCORES, Operation.ACCUMULATE)
        assert columns.read_bytes[at] == (moved if operation == Operation.LOAD else 0)
        assert columns.written_bytes[at] == (moved if operation == Operation.STORE else 0)
        assert columns.flops[at] == (matrix_flops(problem).of(rows, keys) if product else 0)


@given(on_one_gpu())
def test_totals_from_the_loop_nests_are_the_sums_over_all_steps(experiment):
    schedule = schedule_of(experiment)
    totals = counts(schedule)
    assert totals.requested == schedule.columns.moved()
    assert totals.flops == int(schedule.columns.flops.sum(dtype=np.int64))


def test_a_step_larger_than_two_gigabytes_does_not_overflow():
    experiment = Experiment.of(
        algorithm="standard", heads=1, seq=1024, seq_kv=2**20, block_q=1024, block_kv=1024, dtype="float32"
    )
    schedule = schedule_of(experiment)
    assert schedule.columns.read_bytes.max() == 1024 * 2**20 * 4
    assert counts(schedule).requested == schedule.columns.moved()


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2"])
def test_a_million_tokens_are_counted_without_unrolling(algorithm):
    experiment = Experiment.of(algorithm=algorithm, heads=1, seq=2**20, block_q=64, block_kv=64)
    schedule = schedule_of(experiment)
    assert counts(schedule).tiles_visited == 2**28
    assert "columns" not in vars(schedule)

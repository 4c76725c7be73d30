"""Counted bytes against the papers' formulas, exactly, and what must hold of any traffic."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Experiment, simulate
from engine.schedule.step import Tensor
from tests.engine.closed_form import flash1_bytes, flash2_bytes, flops, io_order, standard_bytes
from tests.engine.strategies import experiments, on_one_gpu, tile_counts

BETWEEN = Tensor.S, Tensor.P, Tensor.PARTIAL, Tensor.PARTIAL_LSE  # from kernel to kernel: may stay in L2


@settings(max_examples=120)
@given(experiments(algorithms=("standard", "flash1", "flash2"), terms=False), st.booleans())
def test_bytes_and_flops_are_those_of_the_papers(experiment, causal):
    """flash2's causal or not; of unfused attention those that it must move, whatever the mask."""
    algorithm = experiment.algorithm
    if algorithm != "standard":
        causal = causal and algorithm == "flash2"
        experiment = experiment.changed(window=None, documents=1, prefix=0, causal=causal)
    traffic = simulate(experiment.changed(batch=1, heads=1, kv_heads=1)).traffic
    of = {"standard": standard_bytes, "flash1": flash1_bytes, "flash2": flash2_bytes}[algorithm]
    moved = traffic.compulsory if algorithm == "standard" else traffic.requested
    assert moved.total == of(experiment)
    if not experiment.problem.mask.hides or algorithm == "standard":
        assert traffic.flops == flops(experiment)


@given(on_one_gpu())
def test_compulsory_is_least_and_requested_most(experiment):
    traffic = simulate(experiment).traffic
    for tensor in traffic.requested.read:
        assert traffic.compulsory.read[tensor] <= traffic.requested.read[tensor]
        assert traffic.compulsory.written[tensor] <= traffic.requested.written[tensor]
        assert traffic.dram.read[tensor] <= traffic.requested.read[tensor]
        assert traffic.compulsory.written[tensor] <= traffic.dram.written[tensor]
        if tensor not in BETWEEN:
            assert traffic.compulsory.read[tensor] <= traffic.dram.read[tensor]


@given(experiments())
def test_heads_and_batch_are_a_factor(experiment):
    problem = experiment.problem
    traffic = simulate(experiment).traffic
    one = simulate(experiment.changed(batch=1, heads=1, kv_heads=1)).traffic
    factor = problem.batch * problem.heads
    assert traffic.requested == one.requested.times(factor)
    assert (traffic.flops, traffic.exponentials) == (one.flops * factor, one.exponentials * factor)
    assert traffic.per_head == one.per_head
    shared = problem.batch * problem.kv_heads
    assert traffic.compulsory.read[Tensor.K] == one.compulsory.read[Tensor.K] * shared


@given(experiments(algorithms=("flash1", "flash2")))
def test_operations_are_those_of_the_visited_tiles(experiment):
    seen, size = tile_counts(experiment)
    rows = size[:, 0] // min(experiment.tiling.block_kv, experiment.problem.seq_kv)
    counts = simulate(experiment).traffic.per_head
    assert counts.flops == 2 * (experiment.problem.head_dim + experiment.problem.v_dim) * size[seen > 0].sum()
    assert counts.exponentials == size[seen > 0].sum() + (rows * (seen > 0).sum(1)).sum()


def test_keys_that_no_query_sees_are_not_compulsory():
    experiment = Experiment.of(heads=1, seq=64, seq_kv=1024, window=64, block_q=64, block_kv=64)
    traffic = simulate(experiment).traffic
    assert traffic.compulsory.read[Tensor.K] == 2 * 64 * 64 * 2


@pytest.mark.parametrize(("dtype", "itemsize"), [("float16", 2), ("bfloat16", 2), ("float32", 4)])
def test_a_number_takes_the_bytes_of_its_dtype_and_a_statistic_four(dtype, itemsize):
    """Q, K, V and O are N d numbers each, lse is N of float32."""
    moved = simulate(Experiment.of(heads=1, seq=1024, head_dim=64, dtype=dtype)).traffic.compulsory
    matrix = 1024 * 64 * itemsize
    assert {tensor: read for tensor, read in moved.read.items() if read} == dict.fromkeys(
        (Tensor.Q, Tensor.K, Tensor.V), matrix
    )
    assert (moved.written[Tensor.O], moved.written[Tensor.LSE]) == (matrix, 1024 * 4)
    scores = simulate(Experiment.of(algorithm="standard", heads=1, seq=1024, dtype=dtype)).traffic.compulsory
    assert scores.written[Tensor.S] == scores.read[Tensor.P] == 1024 * 1024 * itemsize


def test_intensity_is_flops_a_byte_and_names_a_bad_kind():
    traffic = simulate(Experiment.of(seq=1024)).traffic
    for kind in ("compulsory", "dram", "requested"):
        assert traffic.intensity(kind) == traffic.flops / getattr(traffic, kind).total
    assert traffic.intensity("requested") < traffic.intensity("dram")
    with pytest.raises(ValueError, match="kind is 'sram'"):
        traffic.intensity("sram")


def test_counted_bytes_follow_theorem_two_in_d_squared():
    """N^2 d^2 / M with blocks that fill the chip: twice d and half Br ask for four times the bytes."""
    small, large = (
        Experiment.of(heads=1, seq=2**14, head_dim=d, block_q=block, block_kv=64)
        for d, block in ((64, 256), (128, 128))
    )
    ratio = io_order(large)[1] / io_order(small)[1]
    counted = simulate(large).traffic.requested.total / simulate(small).traffic.requested.total
    assert counted == pytest.approx(ratio, rel=0.05)

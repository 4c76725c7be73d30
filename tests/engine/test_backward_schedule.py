"""The backward pass: its schedule against a walk of the mask, its bytes against formulas, its numbers against
float64, its tile requests against a GPU's own counters, and what other ways back would cost.
"""

import numpy as np
import pytest
from hypothesis import given

from engine import Experiment, simulate
from engine.problem.dtype import round_to
from engine.problem.inputs import make_inputs, make_output_gradient
from engine.problem.problem import Problem
from engine.schedule.step import Operation, Tensor
from engine.studies.gains import FLOPS, KEPT, MOVED, STORED, TWO_KERNELS, recomputation
from engine.trace.execute import GradientTrace, execute, execute_backward
from engine.trace.memory import SramOverflow
from engine.trace.rows import gradient_rows
from tests.engine.closed_form import flops, two_kernel_backward_bytes
from tests.engine.strategies import (
    exact_attention,
    exact_gradients,
    exact_scores,
    experiments,
    one_head,
    tile_counts,
)
from tests.engine.test_execute import EPSILON

BACKWARD = experiments(algorithms=("backward",))


def run(experiment: Experiment, seed: int = 1) -> tuple[GradientTrace, tuple]:
    """The executed backward pass of one key head, and q, k, v, d_out that it was run on."""
    problem = experiment.problem
    q, k, v = make_inputs(problem, seed, heads=problem.heads)
    d_out = make_output_gradient(problem, seed, heads=problem.heads)
    forward = experiment.changed(algorithm="flash2")
    traces = [execute(forward, head, k[0], v[0]) for head in q]
    out, lse = np.stack([trace.out for trace in traces]), np.stack([trace.lse for trace in traces])
    return execute_backward(experiment, q, k[0], v[0], out, lse, d_out), (q, k[0], v[0], d_out)


def test_finite_differences_agree_with_the_formulas_that_the_others_are_held_to():
    problem = Problem(heads=1, kv_heads=1, seq_q=7, seq_kv=9, head_dim=4)
    generator = np.random.default_rng(3)
    inputs = [generator.standard_normal(shape) for shape in ((7, 4), (9, 4), (9, 4))]
    d_out = generator.standard_normal((7, 4))
    for at, gradient in enumerate(exact_gradients(problem, *inputs, d_out)):
        for place in ((0, 0), (3, 2), (6, 1)):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [array.copy() for array in inputs]
                moved[at][place] += step
                ends.append((exact_attention(problem, *moved)[0] * d_out).sum())
            assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(gradient[place], rel=1e-6, abs=1e-8)


@given(BACKWARD)
def test_the_gradients_are_those_of_float64_of_the_bytes_that_the_traffic_says(experiment):
    group = experiment.problem.group
    experiment = experiment.changed(batch=1, heads=group, kv_heads=1)  # one key head and its group
    problem, simulation = experiment.problem, simulate(experiment)
    if not simulation.footprint.fits:
        return
    trace, (q, k, v, d_out) = run(experiment)
    assert trace.counted == simulation.traffic.requested  # with heads that share keys
    assert trace.peak_sram_bytes <= simulation.footprint.sram_bytes
    if simulation.traffic.tiles_visited:
        assert trace.peak_sram_bytes == simulation.footprint.sram_bytes
    exact = [exact_gradients(problem, head, k, v, own) for head, own in zip(q, d_out, strict=True)]
    d_q = np.stack([gradients[0] for gradients in exact])
    d_k, d_v = (sum(gradients[at] for gradients in exact) for at in (1, 2))
    # every product takes values rounded to the dtype; errors add up over the sums at random
    largest = max(np.abs(array).max() for array in (q, k, d_out)) * max(1.0, np.abs(v).max())
    for given_, true in ((trace.d_q, d_q), (trace.d_k, d_k), (trace.d_v, d_v)):
        allowed = 2 * np.abs(true).max() + largest * (4 + np.sqrt(problem.head_dim))
        assert np.abs(given_ - true).max() <= 4 * EPSILON[problem.dtype] * allowed * np.sqrt(len(q))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", EPSILON)
def test_the_gradients_are_off_by_what_their_dtype_rounds_and_no_more(dtype, causal):
    """Of a problem without cancellation: half a unit in the last place at each of a few roundings."""
    one = Experiment.of(algorithm="backward", heads=1, seq=192, head_dim=64, dtype=dtype, causal=causal)
    trace, (q, k, v, d_out) = run(one)
    exact = exact_gradients(one.problem, q[0], k, v, d_out[0])
    for given_, true in zip((trace.d_q[0], trace.d_k, trace.d_v), exact, strict=True):
        off = np.linalg.norm(given_ - true) / np.linalg.norm(true)
        assert EPSILON[dtype] / 20 < off < (8 if dtype == "float32" else 2) * EPSILON[dtype]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_p_is_rounded_before_it_gives_dv(dtype):
    """One tile by hand: P^T dO takes P in 16 bits, as tensor cores do."""
    one = Experiment.of(algorithm="backward", heads=1, seq=64, head_dim=64, dtype=dtype)
    trace, (q, k, _, d_out) = run(one)
    scores = q[0].astype(np.float64) @ k.T.astype(np.float64) / 8
    p = np.exp(scores - scores.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    rounded = round_to(p, dtype).astype(np.float64)
    alike = [(round_to(weights.T @ d_out[0], dtype) == trace.d_v).mean() for weights in (rounded, p)]
    assert alike[0] > 0.99
    assert alike[1] < 0.9


@given(BACKWARD)
def test_both_kernels_visit_the_tiles_in_which_the_mask_leaves_something(experiment):
    seen = list(map(tuple, np.argwhere(tile_counts(experiment)[0])))
    schedule = simulate(experiment).schedule
    columns = schedule.columns
    scores = columns.operation == Operation.SCORES
    for phase, order in ((1, lambda tile: tile[::-1]), (2, lambda tile: tile)):
        own = scores & (columns.phase == phase)
        visited = list(zip(columns.query_block[own].tolist(), columns.key_block[own].tolist(), strict=True))
        assert visited == sorted(seen, key=order)  # key blocks outside, then query blocks outside
    assert simulate(experiment).traffic.per_head.tiles_visited == len(seen)


@given(experiments(algorithms=("backward",), masked=False, terms=False))
def test_the_tiles_ask_for_what_the_formulas_of_two_kernels_say(experiment):
    own_keys = simulate(experiment.changed(kv_heads=experiment.problem.heads)).traffic
    assert own_keys.per_head.requested.total == two_kernel_backward_bytes(experiment)
    assert own_keys.requested == own_keys.per_head.requested.times(own_keys.heads)
    found = simulate(experiment)
    assert found.traffic.per_head.flops == flops(experiment, products=7)


def test_heads_that_share_keys_bring_them_once_and_take_one_sum_of_their_gradients_away():
    shared = simulate(Experiment.of(algorithm="backward", heads=8, kv_heads=2, seq=256)).traffic
    own = simulate(Experiment.of(algorithm="backward", heads=8, seq=256)).traffic
    assert own.requested.written[Tensor.D_K] == 4 * shared.requested.written[Tensor.D_K]
    assert own.requested.written[Tensor.D_Q] == shared.requested.written[Tensor.D_Q]
    # K of 256 keys: once a key head for dK and dV, and four times a query head for dQ
    rows = 256 * 64 * 2
    assert shared.requested.read[Tensor.K] == 2 * rows + 8 * 4 * rows


def test_what_does_not_fit_is_refused_and_wrong_shapes_are_named():
    large = {"heads": 1, "seq": 256, "head_dim": 128, "block_q": 256, "block_kv": 256}
    with pytest.raises(SramOverflow, match=r"needs \d+ KiB, but an H200 allows 227 KiB per block"):
        run(Experiment.of(algorithm="backward", **large))
    small = Experiment.of(algorithm="backward", heads=2, kv_heads=1, seq=32, head_dim=16)
    rows, keys = np.zeros((2, 32, 16), np.float32), np.zeros((32, 16), np.float32)
    with pytest.raises(ValueError, match=r"^lse has shape \(2, 31\); it must be \(2, 32\)$"):
        execute_backward(small, rows, keys, keys, rows, np.zeros((2, 31), np.float32), rows)


@given(BACKWARD)
def test_rows_followed_alone_are_those_of_float64(experiment):
    experiment = experiment.changed(batch=1, heads=1, kv_heads=1)
    problem, width = experiment.problem, experiment.tiling.block_kv
    q, k, v = one_head(experiment)
    d_out = make_output_gradient(problem)[0]
    rows = np.unique(np.array([0, problem.seq_q // 2, problem.seq_q - 1]))
    followed = gradient_rows(experiment, q, k, v, d_out, rows)
    lse, delta, weights, d_scores = exact_scores(problem, q, k, v, d_out)
    blind = np.isneginf(lse)
    np.testing.assert_array_equal(np.isneginf(followed.lse), blind[rows])
    np.testing.assert_allclose(followed.lse[~blind[rows]], lse[rows][~blind[rows]], rtol=1e-4, atol=1e-4)
    near = (
        8 * EPSILON[problem.dtype] * (1 + np.abs(d_out.astype(float) @ v.T).max())
    )  # O is rounded before it gives delta
    np.testing.assert_allclose(followed.delta, delta[rows], atol=near * np.sqrt(problem.head_dim))
    for tiles, exact in ((followed.weight, weights), (followed.score_gradient, d_scores)):
        starts = range(0, problem.seq_kv, width)
        by_tile = np.stack([exact[rows, start : start + width].sum(1) for start in starts], 1)
        np.testing.assert_allclose(tiles, by_tile, atol=near * np.sqrt(problem.head_dim) + 1e-4)


@given(BACKWARD)
def test_recomputation_trades_flops_for_the_matrix_and_moves_shared_keys_once(experiment):
    costs, problem = recomputation(experiment), experiment.problem
    heads, n, m = problem.batch * problem.heads, problem.seq_q, problem.seq_kv
    assert costs[FLOPS][TWO_KERNELS] == simulate(experiment).traffic.flops
    product = heads * n * m * (problem.head_dim + problem.v_dim)
    assert costs[FLOPS][STORED] == 4 * product  # unfused attention skips nothing that a mask hides
    if not problem.mask.hides:
        assert costs[FLOPS][TWO_KERNELS] == 7 * product or problem.head_dim_v
    assert costs[KEPT] == {STORED: heads * n * m * problem.itemsize, TWO_KERNELS: heads * n * 12}
    # element by element: P-sized passes and rows a head; K, V, dK and dV a key head
    key_heads, d = problem.batch * problem.kv_heads, (problem.head_dim + problem.v_dim) / 2
    moved = heads * (7 * n * m + 4 * n * d) + key_heads * 4 * m * d
    assert costs[MOVED][STORED] == moved * problem.itemsize

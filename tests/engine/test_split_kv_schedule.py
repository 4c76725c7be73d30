"""Split keys: the schedule is the kernel's, parts merge to exact attention, bytes are those a GPU counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Experiment, simulate
from engine.problem.inputs import make_inputs
from engine.recordings.file import recordings
from engine.schedule.step import Tensor
from engine.trace.execute import execute
from tests.engine.closed_form import split_kv_bytes
from tests.engine.strategies import dense_mask, experiments
from tests.engine.test_execute import EPSILON, check

SPLITS = st.sampled_from([1, 2, 3, 5, 8, 40])
OWN_BLOCKS = 16, 128  # of the kernel for one query, its heads in groups of 16 at most


@st.composite
def split(draw, **options) -> Experiment:
    """Any small experiment with its keys split."""
    return draw(experiments(algorithms=("split_kv",), **options)).changed(splits=draw(SPLITS))


def one_key_head(experiment: Experiment, seed: int = 1):
    """q [group * seq_q, d] with packed rows, k and v [seq_kv, d]; and q by head, [group, seq_q, d]."""
    problem = experiment.problem
    q, k, v = make_inputs(problem, seed, heads=problem.heads // problem.kv_heads)
    return q.swapaxes(0, 1).reshape(-1, problem.head_dim), k[0], v[0], q


def packed_mask(experiment: Experiment) -> np.ndarray:
    """[group * seq_q, seq_kv] bool: the definition, every query repeated for the heads that share keys."""
    problem = experiment.problem
    return np.repeat(dense_mask(problem), problem.heads // problem.kv_heads, axis=0)


@given(split())
def test_visited_tiles_are_those_that_the_packed_rows_see(experiment):
    mask, tiling = packed_mask(experiment), experiment.tiling
    counts = simulate(experiment).traffic.per_head
    tiles = [
        mask[i : i + tiling.block_q, j : j + tiling.block_kv]
        for i in range(0, len(mask), tiling.block_q)
        for j in range(0, mask.shape[1], tiling.block_kv)
    ]
    assert counts.tiles_visited == sum(tile.any() for tile in tiles)
    assert counts.tiles_full == sum(tile.all() for tile in tiles)
    dims = experiment.problem.head_dim + experiment.problem.v_dim
    assert counts.flops == 2 * dims * sum(tile.size for tile in tiles if tile.any())


@given(split())
def test_splits_share_the_key_blocks_of_a_row_block_evenly_and_in_order(experiment):
    schedule = simulate(experiment).schedule
    phase, splits, bounds = schedule.phases[0], experiment.tiling.splits, schedule.bounds
    for block in range(len(bounds.first)):
        programs = range(block * splits, (block + 1) * splits)
        visited = [key for at in programs for key in range(phase.first[at], phase.stop[at])]
        assert visited == list(range(bounds.first[block], bounds.stop[block]))
        share = -(-len(visited) // splits)
        left = [min(share, max(0, len(visited) - at * share)) for at in range(splits)]
        assert phase.visits[list(programs)].tolist() == left


@given(split())
def test_the_combined_parts_are_attention_of_the_bytes_that_are_asked_for(experiment):
    rows, k, v, q = one_key_head(experiment)
    found, simulation = execute(experiment, rows, k, v), simulate(experiment)
    for head, mine in enumerate(q):
        rows_of_head = slice(head, None, len(q))
        check(found.out[rows_of_head], found.lse[rows_of_head], experiment.problem, (mine, k, v))
    asked = simulation.traffic.per_head.requested
    assert found.counted == asked == simulation.schedule.columns.moved()
    assert found.peak_sram_bytes <= simulation.footprint.sram_bytes
    heads = experiment.problem.batch * experiment.problem.kv_heads
    assert simulation.traffic.requested == asked.times(heads)  # keys of a key head once a row block


@given(split(most_heads=1, terms=False))
def test_every_part_is_attention_over_its_own_keys(experiment):
    """Each split's O and lse against dense float64 softmax over the keys of its blocks alone."""
    problem, tiling = experiment.problem, experiment.tiling
    rows, k, v, _ = one_key_head(experiment)
    found, mask = execute(experiment, rows, k, v), packed_mask(experiment)
    phase = simulate(experiment).schedule.phases[0]
    scores = rows.astype(np.float64) @ k.T.astype(np.float64) / np.sqrt(problem.head_dim)
    keys = np.arange(problem.seq_kv) // tiling.block_kv
    epsilon = EPSILON[problem.dtype]
    for at in range(len(phase.visits)):
        block, part = divmod(at, tiling.splits)
        own = slice(block * tiling.block_q, min((block + 1) * tiling.block_q, len(rows)))
        seen = mask[own] & (keys >= phase.first[at]) & (keys < phase.stop[at])
        weights = np.where(seen, np.exp(scores[own]), 0)
        total = weights.sum(1, keepdims=True)
        exact = weights @ v.astype(np.float64) / np.where(total == 0, 1, total)
        np.testing.assert_allclose(found.parts[0][part][own], exact, atol=8 * epsilon * np.abs(v).max())
        with np.errstate(divide="ignore"):
            expected = np.log(total[:, 0])
        np.testing.assert_allclose(found.parts[1][part][own], expected, rtol=1e-4, atol=1e-4)


@given(split(masked=False, terms=False))
def test_the_bytes_are_those_of_the_formula(experiment):
    for causal in (False, True):
        one = experiment.changed(causal=causal)
        assert simulate(one).traffic.per_head.requested.total == split_kv_bytes(one)


def test_one_split_leaves_no_parts_and_needs_no_second_kernel():
    simulation = simulate(Experiment.of(algorithm="split_kv", seq=1, seq_kv=4096))
    assert [phase.name for phase in simulation.schedule.phases] == ["split"]
    assert simulation.traffic.requested.written[Tensor.PARTIAL] == 0
    assert simulation.experiment.tiling.splits == 1


def test_the_bytes_are_those_that_a_gpu_counted():
    """An H200's counters of the real kernels; lse moves in sectors of 32 bytes there, 8 times its size."""
    rows = [row for row in recordings()[0].counters if row.provider == "split_kv" and row.kernels]
    assert len(rows) >= 4
    for row in rows:
        splits = int(row.kernels[0].grid.split(" x ")[0]) // (row.problem.batch * row.problem.kv_heads)
        experiment = Experiment(problem=row.problem).changed(
            algorithm="split_kv", splits=splits, block_q=OWN_BLOCKS[0], block_kv=OWN_BLOCKS[1]
        )
        traffic = simulate(experiment).traffic
        lse = traffic.requested.read[Tensor.PARTIAL_LSE]
        assert row.total("tile_read") == pytest.approx(traffic.requested.total_read + 7 * lse, rel=2e-4)
        assert row.total("dram_read") == pytest.approx(traffic.dram.total_read, rel=0.02)

"""What a kernel gives with a line left out, held against a loop over tiles that leaves it out."""

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.problem.bounds import visible
from engine.problem.inputs import make_inputs
from engine.trace.broken import ALPHA, DIMS, DIVISION, FLAWS, MASK, MAXIMUM, SUM, errors

SCENARIOS = {
    "causal": {"seq": 192, "head_dim": 32, "heads": 1, "causal": True, "block_q": 64, "block_kv": 32},
    "ragged": {"seq": 150, "head_dim": 16, "heads": 1, "block_q": 64, "block_kv": 32},
    "from the last": {"seq": 256, "head_dim": 64, "heads": 1, "causal": True, "algorithm": "flash3"},
}


def left_out(flaw: str, experiment: Experiment, q, k, v, row: int) -> dict[int, np.ndarray]:
    """O of a row after each key block, by Algorithm 1 of FlashAttention-2 without one of its lines."""
    problem, block = experiment.problem, experiment.tiling.block_kv
    first = row // experiment.tiling.block_q * experiment.tiling.block_q
    rows = np.arange(first, min(first + experiment.tiling.block_q, problem.seq_q))
    m, total, out, found = -np.inf, 0.0, np.zeros(v.shape[1]), {}
    tiles = [slice(at, min(at + block, problem.seq_kv)) for at in range(0, problem.seq_kv, block)]
    for number, tile in list(enumerate(tiles))[:: -1 if experiment.algorithm == "flash3" else 1]:
        keys = np.arange(tile.start, tile.stop)
        if not visible(problem, rows, keys).any():
            continue
        s = np.float64(k[tile] @ q[row]) * problem.scale
        if flaw != MASK:
            s = np.where(visible(problem, np.array([row]), keys)[0], s, -np.inf)
        new = 0.0 if flaw == MAXIMUM else max(m, s.max())
        if np.isneginf(new):
            continue
        alpha = 1.0 if flaw in (ALPHA, MAXIMUM) else np.exp(m - new)
        p = np.exp(s - new)
        total = total * (1.0 if flaw == SUM else alpha) + p.sum()
        out, m = out * alpha + p @ v[tile], new
        found[number] = out.copy() if flaw == DIVISION else out / total
    return found


@pytest.mark.parametrize("flaw", FLAWS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_o_is_off_by_what_a_loop_without_that_line_gives(name, flaw):
    experiment = Experiment.of(**SCENARIOS[name])
    q, k, v = (each[0] for each in make_inputs(experiment.problem))
    rows = np.array([7, 70, experiment.problem.seq_q - 1])
    given = errors(experiment, q, k, v, rows)[flaw]
    right, wrong = (
        [left_out(which, experiment, q, k, v[:, :DIMS], row) for row in rows] for which in ("", flaw)
    )
    largest = max(np.abs(out).max() for row in right for out in row.values())
    for row, (exact, other) in enumerate(zip(right, wrong, strict=True)):
        for block, out in exact.items():
            assert given[row, block] == pytest.approx(np.abs(other[block] - out).max() / largest, abs=2e-3)


def test_numbers_that_overflow_float16_need_the_maximum():
    experiment = Experiment.of(seq=64, head_dim=16, heads=1, block_q=32, block_kv=32)
    q, k, v = (each[0] for each in make_inputs(experiment.problem))
    off = errors(experiment, 40 * q, k, v, np.arange(64))
    assert np.isinf(off[MAXIMUM][:, -1]).any()
    assert np.isfinite(off[ALPHA]).all()

"""Warps that share a tile: the same O whichever way it is cut, and the bytes by counting what must meet."""

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.problem.inputs import make_inputs
from engine.studies.warp_partition import WARPS, partitions


@pytest.mark.parametrize(("rows", "keys", "dim"), [(64, 64, 64), (128, 64, 128), (128, 32, 40), (16, 16, 8)])
def test_both_give_the_tiles_output_and_only_one_exchanges(rows, keys, dim):
    experiment = Experiment.of(seq=512, head_dim=dim, block_q=rows, block_kv=keys)
    q, k, v = (
        each[0].astype(float) for each in make_inputs(experiment.changed(seq=rows, seq_kv=keys).problem)
    )
    scores = q @ k.T / np.sqrt(dim)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    found = partitions(experiment)
    for each in found.values():
        np.testing.assert_allclose(each.out, weights @ v, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(each.l, weights.sum(1), rtol=1e-5)
        assert each.visits == -(-512 // rows) * -(-512 // keys)
    # float32: every warp's maxima to every other; each row's parts of O and l to whoever adds it
    maxima, parts = WARPS * (WARPS - 1) * rows * 4, (WARPS - 1) * rows * (dim + 1) * 4
    passed = 2 * maxima, 2 * (maxima + parts)  # written and read
    assert found["keys"].passed == (0, 0, *[passed[0]] * 3, passed[1])
    assert found["keys"].waits[-1] == 2
    assert not any((*found["queries"].passed, *found["queries"].waits))

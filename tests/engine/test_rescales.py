"""How often heads rescale: counted row by row in a loop."""

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.problem.heads import Heads
from engine.problem.inputs import make_inputs
from engine.studies.rescales import WINDOWS, rescales


def test_rises_and_small_ones_are_those_of_a_loop():
    experiment = Experiment.of(seq=96, heads=2, head_dim=16, block_q=16, block_kv=16, causal=True)
    found = rescales(experiment)
    for head, (q, k, _) in enumerate(zip(*make_inputs(experiment.problem, heads=2), strict=True)):
        rose = small = visited = left = 0
        outside = back = bits = first = 0.0
        for row in range(96):
            scores = q[row].astype(float) @ k[: row + 1].T.astype(float) / 4
            m = kept = scores[:16].max()
            for start in range(16, row + 1, 16):
                new = max(m, scores[start : start + 16].max())
                visited, rose = visited + 1, rose + (new > m)
                small += m < new < m + 8 / np.log2(np.e)
                m = new
                if scores[start : start + 16].max() > kept + 8 / np.log2(np.e):
                    left, kept = left + 1, scores[start : start + 16].max()
            weights = np.exp(scores - scores.max())
            share = weights / weights.sum()
            first += share[0] / 96
            back += sum(part * (row - key) for key, part in enumerate(share)) / 96
            bits -= sum(part * np.log2(part) for part in share) / 96
            outside += weights[: max(0, row + 1 - WINDOWS[0])].sum() / weights.sum() / 96
        one = found[head]
        assert (one.rises, one.kept) == pytest.approx((rose / visited, small / rose))
        assert one.rescaled == pytest.approx(left / visited)
        assert (one.distance, one.entropy, one.first) == pytest.approx((back, bits, first), abs=1e-5)
        assert one.outside[WINDOWS[0]] == pytest.approx(outside, abs=1e-6)
        assert one.error < 1e-5


def test_where_keys_come_last_first_it_is_a_rising_head_that_never_rescales():
    """FlashAttention-4's order and blocks: by a loop over the same 128 keys, from the last on."""
    drawn = np.random.default_rng(0)
    q, k, v = (drawn.standard_normal((1, 512, 16)) for _ in range(3))
    q[0, :, 0] = 8
    k[0, :, 0] = np.linspace(0, 8, 512)
    forth, back = (
        rescales(Experiment.of(algorithm=each, inputs=Heads.of(q, k, v), block_q=16, block_kv=128))[0]
        for each in ("flash2", "flash4")
    )
    assert (forth.rises, back.rises, back.rescaled) == (1, 0, 0)
    scores = q[0, ::4] @ k[0].T / 4
    rose = (np.diff(np.maximum.accumulate(scores.reshape(128, 4, 128).max(2), 1)) > 8 / np.log2(np.e)).mean()
    assert forth.rescaled <= rose + 1 / 3
    assert max(forth.error, back.error) < 1e-5

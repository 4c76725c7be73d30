"""The four tokens: every number against arithmetic written out here, without the engine."""

from math import exp, sqrt

import numpy as np
import pytest

from engine.studies.by_hand import by_hand, in_tiles, online_softmax

Q, K, V = (
    [(1, 0), (0, 1), (1, 1), (1, -2)],
    [(1, 0), (0, 1), (1, 2), (2, 1)],
    [(1, 0), (0, 1), (2, 0), (0, 2)],
)
S = [[(a * c + b * d) / sqrt(2) for c, d in K] for a, b in Q]


def test_scores_weights_and_output_are_what_a_pocket_calculator_says():
    hand = by_hand()
    assert hand.scores == pytest.approx(np.array(S))
    for row, scores in enumerate(S):
        total = sum(map(exp, scores))
        assert hand.weights[row] == pytest.approx([exp(score) / total for score in scores])
        out = [sum(exp(s) * v[column] for s, v in zip(scores, V, strict=True)) / total for column in (0, 1)]
        assert hand.out[row] == pytest.approx(out)
        assert hand.tiled[row] == pytest.approx(out, rel=1e-6)
    assert 0 < hand.difference < 1e-6


def test_m_l_and_alpha_of_a_tile_are_those_of_the_scores_so_far():
    (scores, *_), hand = S, by_hand()
    first, second = max(scores[:2]), max(scores)
    assert hand.m == pytest.approx([first, second])
    weights = [exp(score - first) for score in scores[:2]]
    assert hand.first_weights == pytest.approx(weights)
    assert hand.l == pytest.approx([sum(weights), sum(exp(score - second) for score in scores)])
    assert hand.alpha[1] == pytest.approx(exp(first - second))


def test_online_softmax_reads_a_row_twice_for_its_weights():
    weights, passes = online_softmax()
    assert weights == pytest.approx(by_hand().weights[0])
    assert passes == 2


def test_both_loop_orders_give_the_same_o_and_the_first_moves_more():
    one, two = (in_tiles(name) for name in ("flash1", "flash2"))
    assert one.out == pytest.approx(two.out, rel=1e-6)
    # float32: Q, K, V, O of 4 x 2 numbers; version 1 brings Q, O and m, l twice, version 2 K and V
    assert one.counted.total == 4 * (2 * 8 + 8 + 8 + 2 * 2 * 8 + 2 * 2 * 8)
    assert two.counted.total == 4 * (8 + 2 * 8 + 2 * 8 + 8 + 4)

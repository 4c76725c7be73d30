"""A state in place of a cache: chunks give what the recurrence gives, and counts are those of plain loops."""

import numpy as np
import pytest

from engine.problem.hardware import GPUS
from engine.studies import linear_attention as studies


def drawn(tokens: int, dim: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """q, k and v [tokens, dim] of unit spread, q scaled, and the logarithms of gates [tokens]: float32."""
    generator = np.random.Generator(np.random.PCG64(seed))
    q, k, v = (generator.standard_normal((tokens, dim), np.float32) for _ in range(3))
    gates = generator.random(tokens, np.float32) * np.float32(0.2)
    return q * np.float32(dim**-0.5), k, v, -gates


@pytest.mark.parametrize(("tokens", "dim", "chunk"), [(1, 8, 16), (64, 16, 16), (100, 24, 32), (37, 5, 64)])
def test_chunks_are_the_recurrence_and_move_every_tensor_once(tokens, dim, chunk):
    given = drawn(tokens, dim)
    found, _ = studies.execute(*given, chunk)
    np.testing.assert_allclose(found.out, studies.recurrent(*given), rtol=1e-3, atol=1e-4)
    q, k, v, gates = (each.astype(float) for each in given)
    dense = np.zeros((tokens, dim))  # every pair of tokens by itself
    for query in range(tokens):
        for key in range(query + 1):
            dense[query] += q[query] @ k[key] * np.exp(gates[key + 1 : query + 1].sum()) * v[key]
    np.testing.assert_allclose(found.out, dense, rtol=1e-3, atol=1e-4)
    assert found.read == dict.fromkeys("QKV", 2 * tokens * dim) | {"gates": 2 * tokens, "O": 0}
    assert found.written["O"] == 2 * tokens * dim
    moved = sum(found.read.values()) + sum(found.written.values())
    assert moved == studies.prompt(tokens, True, dim, chunk).moved


def test_a_gate_of_one_forgets_nothing_and_of_nothing_all():
    q, k, v, gates = drawn(40, 8)
    _, kept = studies.execute(q, k, v, 0 * gates, 8)
    np.testing.assert_allclose(kept, k.T.astype(float) @ v.astype(float), rtol=1e-3, atol=1e-4)
    gone, _ = studies.execute(q, k, v, 0 * gates - 60, 8)
    np.testing.assert_allclose(gone.out, (q * k).sum(1)[:, None] * v, rtol=1e-3, atol=1e-5)


def test_flops_and_bytes_are_those_of_the_products():
    flops = 0
    for _ in range(4):  # chunks of 64: Q K^T and its product with V, Q S, K^T V
        flops += 2 * (64 * 64 * 128 + 64 * 64 * 128 + 64 * 128 * 128 + 128 * 128 * 64)
    assert studies.prompt(200, True).flops == flops
    assert studies.prompt(200, False).flops == sum(4 * 128 * (query + 1) for query in range(200))
    assert studies.decoded(5000, True).kept == studies.decoded(9, True).kept == 128 * 128 * 4
    assert studies.decoded(5000, False).moved == 5000 * 128 * 2 * 2
    assert studies.decoded(5000, False, 8).moved * 8 == studies.decoded(5000, False).moved


@pytest.mark.parametrize("key", ["h200", "b200"])
@pytest.mark.parametrize("group", [None, 1, 8])
def test_they_meet_where_it_is_said_and_not_before(key, group):
    gpu, at = GPUS[key], studies.meets(GPUS[key], group)

    def faster(tokens):
        cost = studies.prompt if group is None else lambda *given: studies.decoded(*given, group)
        return cost(tokens, True).seconds(gpu) < cost(tokens, False).seconds(gpu)

    assert [faster(at - 1), faster(at)] == [False, True]
    if group:  # the state of 128 x 128 in 4 bytes, read and written, over K and V of a token
        assert at == 2 * 128 * 128 * 4 * group // (2 * 128 * 2) + 1


def test_a_state_gives_back_less_the_more_it_holds():
    state, attention = ([*each.values()] for each in studies.recalled().values())
    assert state == sorted(state)
    for count, off in list(zip(studies.STORED, state, strict=True))[3:]:
        assert off == pytest.approx(np.sqrt((count - 1) / 128), rel=0.2)  # as random keys overlap by 1 in √d
    assert max(attention) < 0.1

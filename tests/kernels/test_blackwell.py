"""FlashAttention-4's kernel for Blackwell, run as threads on the CPU: it was never run on the chip."""

import math

import pytest
import torch
from attention_cases import in_turn
from gluon_threads import DeadlockError

from kernels import reference_attention
from kernels.blackwell import forward

SHAPES = [  # batch, heads, key heads, queries, keys
    (1, 1, 1, 256, 128),
    (1, 2, 1, 300, 300),
    (2, 4, 2, 130, 513),
    (1, 1, 1, 1, 700),  # the second tile has no row
    (1, 1, 1, 700, 260),  # causal rows that see no key
]


@pytest.fixture
def on_threads(put_on_threads):
    put_on_threads(forward, "flash4_kernel", forward)


def drawn(shape, head_dim, stretch=1.0):
    torch.manual_seed(0)
    batch, heads, kv_heads, seq_q, seq_kv = shape
    q = stretch * torch.randn(batch, heads, seq_q, head_dim)
    return q, *torch.randn(2, batch, kv_heads, seq_kv, head_dim)


@pytest.mark.parametrize(
    ("shape", "causal", "head_dim", "stretch"),  # at 12 maxima rise by more than the threshold
    in_turn(SHAPES, [False, True], [64, 128], [1.0, 12.0]),
    ids=str,
)
def test_its_groups_finish_with_the_right_result(on_threads, shape, head_dim, causal, stretch):
    q, k, v = drawn(shape, head_dim, stretch)
    out, lse = forward.forward(q, k, v, causal=causal)
    exact, exact_lse = reference_attention(q, k, v, causal=causal)
    torch.testing.assert_close(out.double(), exact, atol=4e-4, rtol=0)  # a quarter of P is off by 8.6e-5
    torch.testing.assert_close(lse.double(), exact_lse.double(), atol=1e-4, rtol=0)


def test_rescaling_is_rare_and_needed(on_threads, monkeypatch):
    """O is multiplied where a row of a tile rises by more than 2^8, and wrong if it were not."""
    rescaled = []

    def counted(o, factor, D):
        rescaled.append(int((factor < 1).sum()))
        o.store(o.load() * factor[:, None])

    q, k, v = drawn((1, 1, 1, 256, 1024), 64, 4.0)
    scores = (q @ k.mT)[0, 0] / 8 * math.log2(math.e)
    m, rose = scores[:, -128:].amax(1), 0
    for block in reversed(range(7)):
        largest = scores[:, 128 * block : 128 * block + 128].amax(1)
        rose += int((largest - m > 8).sum())
        m = torch.where(largest - m > 8, largest, m)
    monkeypatch.setattr(forward, "_scaled", counted)
    exact, _ = reference_attention(q, k, v)
    torch.testing.assert_close(forward.forward(q, k, v)[0].double(), exact, atol=4e-4, rtol=0)
    assert sum(rescaled) == rose > 0
    assert len(rescaled) < 14  # of two tiles and seven key blocks after the first
    monkeypatch.setattr(forward, "_scaled", lambda o, factor, D: None)
    assert (forward.forward(q, k, v)[0].double() - exact).abs().max() > 1e-2


@pytest.mark.parametrize("group", ["_soften", "_correct", "_copy"])
def test_without_one_of_its_groups_all_wait_for_ever(on_threads, monkeypatch, group):
    monkeypatch.setattr(forward, group, lambda *_: None)
    with pytest.raises(DeadlockError):
        forward.forward(*drawn((1, 1, 1, 256, 384), 64))


@pytest.mark.parametrize(("head_dim", "word"), [(96, "64 or 128"), (256, "64 or 128")])
def test_other_head_dims_are_refused(head_dim, word):
    q, k, v = drawn((1, 1, 1, 8, 8), head_dim)
    with pytest.raises(ValueError, match=word):
        forward.forward(q, k, v)

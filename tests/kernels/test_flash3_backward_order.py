"""flash3's backward kernel, its partitions as threads on the CPU: none waits for ever, the sums are right."""

import math

import pytest
import torch
from attention_cases import ON_CPU, in_turn
from gluon_threads import DeadlockError, Products
from triton.experimental.gluon import language as gl

from kernels import reference_attention
from kernels.algorithms.flash3 import backward as flash3_backward
from kernels.algorithms.flash3 import forward as flash3
from kernels.algorithms.flash3.dq_sums import store_sums
from kernels.backward.shared_key_blocks import Shares
from kernels.call.call import Call
from kernels.call.options import Options
from kernels.call.terms import score_of
from kernels.hopper import backward_common, backward_wide
from kernels.reference import visible_mask

HEAD_DIMS = [64, 128, 256]
MASKS = {"none": (False, None), "causal": (True, None), "one": (True, 1), "window": (True, 150)}
SHAPES = [
    (1, 1, 1, 1, 1),
    (1, 2, 1, 1, 300),
    (2, 4, 2, 130, 190),
    (1, 2, 1, 320, 130),  # causal rows that see no key
    (1, 1, 1, 130, 450),  # with a window, keys that no row sees
]


def in_order(sums, block_q):
    """dQ / scale [batch, heads, rows, head_dim] of sums in the order in which the kernel adds."""
    batch, heads, rows, head_dim = sums.shape
    parts = sums.view(batch, heads, rows // block_q, block_q * head_dim // 4096, 8, 4, 8, 4, 2, 2)
    parts = parts.permute(0, 1, 2, 3, 5, 8, 6, 4, 7, 9).reshape(*parts.shape[:4], 64, 64)
    if block_q == 64:
        parts = parts.transpose(3, 4)  # of the columns
    return parts.reshape(batch, heads, rows, head_dim)


def check(shape, head_dim, causal, window, apart=0.0, cut=None):
    """apart: by how much queries and keys are moved away from each other, which lowers all scores."""
    torch.manual_seed(0)
    batch, heads, kv_heads, seq_q, seq_kv = shape
    q, d_out = torch.randn(2, batch, heads, seq_q, head_dim)
    k, v = torch.randn(2, batch, kv_heads, seq_kv, head_dim)
    q, k = q + apart, k - apart
    wide = flash3.padded(head_dim)
    scale, block_q = head_dim**-0.5, flash3_backward.TILING[wide]["BLOCK_Q"]
    leaves = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    out, lse = reference_attention(*leaves, causal=causal, window=window, scale=scale)
    exact = torch.autograd.grad((out * d_out).sum(), leaves)

    padded = -(-seq_q // block_q) * block_q
    delta = torch.zeros(batch, heads, padded)
    delta[..., :seq_q] = (out * d_out).sum(-1)
    lse_log2 = torch.full_like(delta, math.inf)
    lse_log2[..., :seq_q] = torch.where(lse == -math.inf, 0.0, lse * math.log2(math.e))
    d_k, d_v = torch.full_like(k, math.nan), torch.full_like(v, math.nan)
    block_kv = 64 if wide == 256 else 128
    call = Call(*shape, head_dim, causal, window, scale, "flash2", block_q, block_kv, None)
    of_d_q, of_shares = batch * heads * padded, 2 * cut.count * block_kv if cut else 0
    sums = torch.full((of_shares + of_d_q, wide), math.nan)[of_shares:].zero_()
    beyond = flash3_backward.Beyond(seq_q, seq_kv, seq_q == seq_kv)
    flash3_backward._launch(
        (q, k, v, d_out, lse_log2, delta, d_k, d_v), sums, call, cut, score_of(call, None), beyond
    )
    if cut:
        together = flash3_backward.heads_together(call, q.element_size(), seq_q)
        store_sums((torch.empty_like(q), d_k, d_v), sums, call, cut, together)
    d_q = in_order(sums.view(batch, heads, padded, wide), block_q)[:, :, :seq_q, :head_dim] * scale
    for ours, right in zip((d_q, d_k, d_v), exact, strict=True):
        torch.testing.assert_close(ours.double(), right, atol=2e-5 * (1 + apart) ** 2, rtol=0)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_keys_past_the_end_count_for_nothing_however_low_the_others_scores(on_threads, head_dim):
    """Their score is 0: beside scores below -90 their weight would be infinite, and dQ not a number."""
    check((1, 1, 1, 70, 90), head_dim, False, None, apart=4.0 * (64 / head_dim) ** 0.25)


@ON_CPU
@pytest.mark.parametrize("head_dim", [72, 96, 160])
def test_shared_key_blocks_of_head_dims_between(on_threads, head_dim):
    """Whose sums a Triton kernel adds."""
    check((1, 1, 1, 130, 64 if head_dim > 128 else 128), head_dim, False, None, cut=Shares(0, 2, 2, 0, 1))


@pytest.mark.parametrize(("shape", "mask", "head_dim"), in_turn(SHAPES, MASKS, HEAD_DIMS), ids=str)
def test_partitions_finish_with_the_right_sums(on_threads, shape, mask, head_dim):
    check(shape, head_dim, *MASKS[mask])


CORNERS = [*((191, None), (192, None), (192, 190)), *((192, 125), (193, 126), (194, 65))]


@pytest.mark.parametrize(("corner", "head_dim"), in_turn(CORNERS, HEAD_DIMS, by=2), ids=str)
def test_a_tile_with_one_hidden_pair_is_masked(on_threads, corner, head_dim):
    """Past the last key, above the diagonal, before the window: a corner of a tile is enough."""
    keys, window = corner
    check((1, 1, 1, 130, keys), head_dim, keys > 191, window)


@pytest.mark.parametrize("window", [None, 64, 66, 128, 150])  # 66: one pair in a last block
@pytest.mark.parametrize(("heads", "rows", "keys"), [(1, 320, 320), (2, 192, 192), (1, 130, 450)])
def test_queries_at_the_edges_that_see_no_key_of_a_consumer(on_threads, heads, rows, keys, window):
    check((1, heads, 1, rows, keys), 64 if (rows == 192) == (window in (None, 66)) else 128, True, window)


@pytest.mark.parametrize("window", [None, 64, 128, 192])
def test_queries_that_see_no_key_of_a_consumer_are_not_multiplied(on_threads, monkeypatch, window):
    """Counted in the mask itself: of 64 queries each, and half a block of 128 at the diagonal."""
    seen = visible_mask(640, 640, Options(True, window))
    visits = int(seen.unflatten(0, (-1, 64)).unflatten(2, (-1, 64)).any(dim=1).any(dim=2).sum())
    monkeypatch.setattr(Products, "SIZES", [])
    check((1, 1, 1, 640, 640), 128, True, window)
    assert Products.SIZES.count((64, 128, 64)) == 2 * visits  # S and dP
    assert Products.SIZES.count((64, 64, 128)) == 2 * visits  # dV and dK

    monkeypatch.setattr(Products, "SIZES", [])
    check((1, 1, 1, 640, 640), 64, True, window)
    blocks = int(seen.unflatten(0, (-1, 128)).unflatten(2, (-1, 128)).any(dim=1).any(dim=2).sum())
    assert Products.SIZES.count((64, 64, 128)) == 2 * (2 * blocks - 5)  # S and dP but of halves, which are 5
    assert Products.SIZES.count((64, 128, 64)) == 2 * (2 * blocks - 5)


@ON_CPU
@pytest.mark.parametrize(("coarse", "fine"), [(2, 3), (3, 0)])
@pytest.mark.parametrize(
    ("shape", "head_dims"),  # the second of whole query blocks, of two heads
    [((1, 1, 1, 320, 450), (64, 128)), ((1, 4, 2, 384, 190), (128, 256)), ((2, 1, 1, 390, 200), (256, 64))],
    ids=str,
)
def test_key_blocks_that_several_blocks_of_threads_share(on_threads, shape, coarse, fine, head_dims):
    """Two in so many shares each, and the last one more finely."""
    head_dim = head_dims[fine > 0]
    key_blocks = shape[0] * shape[2] * -(-shape[4] // (64 if head_dim == 256 else 128))
    cut = Shares(key_blocks - 2 - (fine > 0), 2 * coarse, coarse, fine, fine or 1)
    check(shape, head_dim, False, None, cut=cut)


@pytest.mark.parametrize("together", [1, 2**40])
def test_heads_in_sets_of_any_size(on_threads, monkeypatch, together):
    monkeypatch.setattr(flash3_backward, "L2_FOR_ROWS", together)
    check((1, 3, 3, 150, 300), 64, True, None)


def test_fewer_buffers_for_what_is_handed_over_are_caught(on_threads, monkeypatch):
    """The consumer that computes dS would write it over the one that the other's products still read."""
    monkeypatch.setattr(backward_wide, "D_SCORES", gl.constexpr(1))
    with pytest.raises((DeadlockError, AssertionError)):
        check((1, 1, 1, 450, 130), 256, False, None)


@pytest.mark.parametrize(("causal", "buffers"), [(False, 2), (True, 1)])
def test_fewer_buffers_for_what_is_exchanged_are_caught(on_threads, monkeypatch, causal, buffers):
    """A consumer would write its dS over the one that the other still reads."""
    monkeypatch.setattr(backward_common, "EXCHANGES", gl.constexpr(buffers))
    with pytest.raises((DeadlockError, AssertionError)):
        check((1, 1, 1, 450, 450 if causal else 130), 128, causal, None)

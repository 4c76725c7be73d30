"""flash3's backward kernel, its partitions as threads on the CPU: none waits for ever, the sums are right."""

import math

import pytest
import torch
from attention_cases import ON_CPU, in_turn
from gluon_threads import DeadlockError, Descriptor, Parts, Products, Sequences
from triton.experimental.gluon import language as gl

from kernels import reference_attention
from kernels.algorithms.flash3 import backward as flash3_backward
from kernels.algorithms.flash3 import forward as flash3
from kernels.algorithms.flash3.dq_sums import store_sums
from kernels.backward.shared_key_blocks import Shares
from kernels.call.call import Call
from kernels.call.key_ranges import seen_of
from kernels.call.options import Options
from kernels.call.terms import Terms, score_of, terms_with
from kernels.hopper import backward, backward_common, backward_wide
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


@pytest.fixture
def on_threads(monkeypatch, put_on_threads):
    put_on_threads(backward, "gradient_kernel", flash3)
    monkeypatch.setattr(flash3_backward, "_descriptor_of_terms", Descriptor)
    monkeypatch.setattr(flash3_backward, "_descriptor_of_sequences", Sequences)
    monkeypatch.setattr(flash3_backward, "_descriptor_of_sums", Parts)


def in_order(sums, block_q):
    """dQ / scale [batch, heads, rows, head_dim] of sums in the order in which the kernel adds."""
    batch, heads, rows, head_dim = sums.shape
    parts = sums.view(batch, heads, rows // block_q, block_q * head_dim // 4096, 8, 4, 8, 4, 2, 2)
    parts = parts.permute(0, 1, 2, 3, 5, 8, 6, 4, 7, 9).reshape(*parts.shape[:4], 64, 64)
    if block_q == 64:
        parts = parts.transpose(3, 4)  # of the columns
    return parts.reshape(batch, heads, rows, head_dim)


def check(shape, head_dim, causal, window, apart=0.0, cut=None, softcap=None):
    """apart: by how much queries and keys are moved away from each other, which lowers all scores."""
    torch.manual_seed(0)
    batch, heads, kv_heads, seq_q, seq_kv = shape
    q, d_out = torch.randn(2, batch, heads, seq_q, head_dim)
    k, v = torch.randn(2, batch, kv_heads, seq_kv, head_dim)
    q, k = q + apart, k - apart
    wide = flash3.padded(head_dim)
    scale, block_q = head_dim**-0.5, flash3_backward.TILING[wide]["BLOCK_Q"]
    leaves = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    out, lse = reference_attention(*leaves, causal=causal, window=window, scale=scale, softcap=softcap)
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
    score = score_of(call, Terms(None, softcap=softcap))
    beyond = flash3_backward.Beyond(seq_q, seq_kv, seq_q == seq_kv)
    flash3_backward._launch((q, k, v, d_out, lse_log2, delta, d_k, d_v), sums, call, cut, score, beyond)
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


@pytest.mark.parametrize(
    ("mask", "shape", "head_dim"),
    [("none", SHAPES[4], 64), ("causal", SHAPES[3], 128), ("window", SHAPES[2], 256)],
)
def test_softcap(on_threads, shape, mask, head_dim):
    check(shape, head_dim, *MASKS[mask], softcap=9.0)


SHARED = pytest.param(Shares(0, 2, 2, 0, 1), id="shared", marks=ON_CPU)  # whose sums a Triton kernel adds


@pytest.mark.parametrize("cut", [pytest.param(None, id="whole"), SHARED])
@pytest.mark.parametrize("head_dim", [72, 96, 160])
def test_head_dims_between(on_threads, head_dim, cut):
    check((1, 1, 1, 130, 64 if head_dim > 128 else 128), head_dim, cut is None, None, cut=cut)


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


def differentiated(
    shape, head_dim, v_dim=None, with_lse=False, packed=None, change=None, scale=None, **given
):
    """All of the backward pass, the kernel on threads: each gradient, and the exact one.

    packed: where sequences begin among the queries and the keys. change: of the tensors, once results are
    known.
    """
    torch.manual_seed(0)
    batch, heads, kv_heads, seq_q, seq_kv = shape
    v_dim, options = v_dim or head_dim, Options(**given)
    q, d_out = (torch.randn(batch, heads, seq_q, columns) for columns in (head_dim, v_dim))
    k, v = (torch.randn(batch, kv_heads, seq_kv, columns) for columns in (head_dim, v_dim))
    d_lse = torch.randn(q.shape[:3]) if with_lse else None
    leaves = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    if options.sinks is not None:
        leaves.append(options.sinks.double().requires_grad_())
        given = given | {"sinks": leaves[3]}
    out, lse = _by_sequence(*leaves[:3], packed, scale=scale, **given)
    exact = torch.autograd.grad((out * d_out).sum() + (lse * (d_lse if with_lse else 0)).sum(), leaves)
    seen = seen_of(q, k, options)
    if packed is not None:
        seen = seen._replace(starts=packed[0], key_starts=packed[1])
    plain = options.causal if not options.window else False
    terms = None if given.keys() <= {"causal"} and packed is None else terms_with(None, q, options, seen)
    call = Call(
        *shape, head_dim, plain and terms is None, None, scale or head_dim**-0.5, "flash2", 128, 64, None,
        v_dim=None if v_dim == head_dim else v_dim,
    )  # fmt: skip
    tensors = q, k, v, out.detach().float(), lse.detach().float(), d_out
    if change is not None:
        change(*tensors)
    return flash3_backward.flash3_backward(*tensors, d_lse, call, terms=terms), exact


def _by_sequence(q, k, v, packed, **given):
    """O and lse of each sequence by itself; of what belongs to none, 0 and -inf."""
    if packed is None:
        return reference_attention(q, k, v, **given)
    out, lse = q.new_zeros(*q.shape[:3], v.shape[3]), torch.full(q.shape[:3], -math.inf)
    spans = [zip(starts.tolist(), starts[1:].tolist(), strict=False) for starts in packed]
    for (row, row_end), (key, key_end) in zip(*spans, strict=True):
        if row < row_end and key < key_end:
            own = q[:, :, row:row_end], k[:, :, key:key_end], v[:, :, key:key_end]
            some, some_lse = reference_attention(*own, **given)
            out = torch.cat([out[:, :, :row], some, out[:, :, row_end:]], 2)
            lse = torch.cat([lse[:, :, :row], some_lse, lse[:, :, row_end:]], 2)
    return out, lse


def check_pass(shape, head_dim, v_dim=None, **given):
    for ours, right in zip(*differentiated(shape, head_dim, v_dim, **given), strict=False):
        if ours is not None:
            torch.testing.assert_close(ours.double(), right, atol=3e-5, rtol=0)


SIZES = [(321, 321), (250, 130), (1, 300)]  # queries, keys
SINKS, SLOPES = torch.tensor([0.5, -9.0]), torch.tensor([0.5, 0.02])
TERMS = [
    *({"window": sides} for sides in ((100, 50), (None, 70), (70, None), (0, 0), (10**9, 10**9))),
    *({"prefix": keys, "causal": True} for keys in (150, 1000)),
    {"window": 64, "sinks": SINKS},
    {"causal": True, "alibi_slopes": SLOPES},
    {"causal": True, "alibi_slopes": SLOPES, "softcap": 9.0, "sinks": SINKS},
]


@ON_CPU
@pytest.mark.parametrize(("given", "shape", "head_dim"), in_turn(TERMS, SIZES, HEAD_DIMS), ids=str)
def test_masks_and_terms(on_threads, given, shape, head_dim):
    check_pass((1, 2, 1, *shape), head_dim, with_lse=shape[0] == shape[1], **given)


@ON_CPU
@pytest.mark.parametrize("mask", [{}, {"causal": True}], ids=str)
def test_values_of_a_head_dim_of_their_own(on_threads, mask):
    check_pass((1, 2, 1, 200, 130), 192, v_dim=128, **mask)


LENGTHS = [([1, 127, 129, 0, 64, 3], (64,)), ([8] * 9, (192, 128)), ([0, 0, 5, 200, 0], (128,))]
OF_DOCUMENTS = [{}, {"causal": True}, {"window": (40, 20)}, {"window": 128}]


@ON_CPU
@pytest.mark.parametrize(
    ("lengths", "mask", "how"), in_turn(LENGTHS, OF_DOCUMENTS, [(2, 0), (1, -3), (1, 70)]), ids=str
)
def test_documents(on_threads, lengths, mask, how):
    """Blocks end where a document does: as many queries as keys, fewer, and more."""
    (lengths, head_dim), (batch, more) = lengths, how
    total = sum(lengths)
    check_pass((batch, 1, 1, total + more, total), *head_dim, documents=lengths, **mask)


@ON_CPU
@pytest.mark.parametrize(("given", "dtype"), [({}, torch.int32), (TERMS[-1], torch.int64)], ids=str)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_packed_sequences_of_lengths_on_the_device(on_threads, monkeypatch, head_dim, given, dtype):
    """With queries and keys of their own each; what follows the last sequence has no gradient."""
    monkeypatch.setattr(torch, "empty_like", lambda tensor: torch.full_like(tensor, math.nan))
    rows, keys = [5, 130, 0, 64, 200, 7], [200, 130, 64, 0, 157, 1]
    packed = [torch.tensor([0, *each]).cumsum(0).to(dtype) for each in (rows, keys)]

    def spoil(q, k, v, out, lse, d_out):
        for tensor, end in ((q, sum(rows)), (d_out, sum(rows)), (k, sum(keys)), (v, sum(keys))):
            tensor[:, :, end:] = math.nan
        if "sinks" in given:  # of which that is the log-sum-exp where no key is seen
            lse[lse == -math.inf] = 0.5

    shape = 1, 2, 1, sum(rows) + 140, sum(keys) + 33
    given = {name: value for name, value in given.items() if name != "alibi_slopes"}
    found, exact = differentiated(shape, head_dim, packed=packed, change=spoil, **given)
    for ours, right in zip(found[:3], exact, strict=False):
        torch.testing.assert_close(ours.double(), right, atol=3e-5, rtol=0)
    if "sinks" in given:
        torch.testing.assert_close(found[3].double(), exact[3], atol=1e-4, rtol=0)


@ON_CPU
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_no_number_of_one_document_reaches_another(on_threads, head_dim):
    given = {"documents": [70, 100, 1, 90], "causal": True}

    def spoil(*tensors):
        for tensor in tensors:
            tensor[:, :, 70:170] = math.nan

    clean, _ = differentiated((1, 1, 1, 261, 261), head_dim, **given)
    spoilt, _ = differentiated((1, 1, 1, 261, 261), head_dim, change=spoil, **given)
    for ours, right in zip(spoilt[:3], clean, strict=False):
        for mine in (slice(0, 70), slice(170, 261)):
            assert torch.equal(ours[:, :, mine], right[:, :, mine])


@ON_CPU
def test_starts_that_do_not_rise_write_nowhere_else(on_threads):
    """What lies on a GPU is not looked at before: any numbers do, and none leads out of the tensors."""
    for numbers in ([0, 400, 100, 300], [0, -50, 900, 1], [7, 3, 1000, -9], [0, 2**30, -(2**30), 5]):
        starts = torch.tensor([0, 100, 200, 300])
        numbers = torch.tensor(numbers)
        differentiated(
            (1, 2, 1, 300, 300),
            64,
            packed=(starts, starts),
            causal=True,
            change=lambda *_, own=starts, other=numbers: own.copy_(other),
        )


@ON_CPU
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_gradients_of_out_and_of_lse(on_threads, head_dim):
    check_pass((2, 2, 1, 70, 90), head_dim, causal=True, scale=0.1, with_lse=True)


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


@ON_CPU
def test_gradients_where_all_key_blocks_are_shared(on_threads, monkeypatch):
    """From the pass that an H200 would take, whose memory holds NaN at first, to the sums of shares."""
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, **how: empty(*size, **how).fill_(math.nan))
    call = Call(1, 2, 1, 600, 200, 128, False, None, 0.1, "flash2", 64, 128, None)
    assert flash3_backward.shared(call, 132) == Shares(0, 20, 10, 0, 1)
    check_pass((1, 2, 1, 600, 200), 128)


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

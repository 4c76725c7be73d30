"""flash3 with what models have beside a plain mask, run as threads on the CPU, against float64."""

import math

import pytest
import torch
from attention_cases import in_turn

from kernels import reference_attention
from kernels.algorithms.flash3 import forward as flash3
from kernels.call.call import Call
from kernels.call.key_ranges import Seen, seen_of
from kernels.call.options import Options
from kernels.call.terms import terms_with

pytestmark = pytest.mark.usefixtures("on_threads")


def tensors(batch, heads, kv_heads, seq_q, seq_kv, head_dim, v_dim=None):
    torch.manual_seed(0)
    q = torch.randn(batch, heads, seq_q, head_dim)
    k = torch.randn(batch, kv_heads, seq_kv, head_dim)
    return q, k, torch.randn(batch, kv_heads, seq_kv, v_dim or head_dim)


def run(q, k, v, options, seen=None):
    """O and lse of flash3, in memory that holds NaN before."""
    sizes = *q.shape[:2], k.shape[1], q.shape[2], *k.shape[2:]
    v_dim = None if v.shape[3] == q.shape[3] else v.shape[3]
    call = Call(*sizes, False, None, sizes[-1] ** -0.5, "flash3", 128, 64, None, v_dim=v_dim)
    terms = terms_with(None, q, options, seen or seen_of(q, k, options))
    out = q.new_full((*q.shape[:3], v.shape[3]), math.nan)
    lse = torch.full(q.shape[:3], math.nan)
    scale = flash3.score_of(call, terms)
    flash3._launch(q, k, v, out, lse, *flash3.plain_part(terms.seen), scale, None, terms)
    return out, lse


def check(shape, atol=1e-5, **given):
    q, k, v = tensors(*shape)
    options = Options(**given)
    out, lse = run(q, k, v, options)
    exact_out, exact_lse = reference_attention(q, k, v, **given)
    torch.testing.assert_close(out.double(), exact_out, atol=atol, rtol=0)
    torch.testing.assert_close(lse.double(), exact_lse.double(), atol=atol, rtol=0)


HEAD_DIMS = [(72,), (80,), (96,), (112,), (192,), (248,), (192, 128)]
PLAIN = [{}, {"causal": True}, {"window": (60, 30)}]


@pytest.mark.parametrize(("head_dim", "mask"), in_turn(HEAD_DIMS, PLAIN, by=2), ids=str)
def test_head_dims_between_and_values_of_their_own(head_dim, mask):
    check((1, 2, 1, 200, 300, *head_dim), **mask)


SINKS, SLOPES = torch.tensor([0.5, -9.0]), torch.tensor([0.5, 0.02])
MASKS = [
    *({"window": sides} for sides in ((100, 50), (None, 70), (70, None), (0, 0), (10**9, 10**9))),
    *({"prefix": keys, "causal": True} for keys in (150, 1000)),
    {"softcap": 20.0},
    {"window": 64, "sinks": SINKS},
    {"causal": True, "alibi_slopes": SLOPES},
    {"causal": True, "alibi_slopes": SLOPES, "softcap": 9.0, "sinks": SINKS},
]


TILINGS, SIZES = ((64, 0), (64, 10**9), (256, 0)), ((321, 449), (449, 321), (1, 300))  # few keys; rows, keys


@pytest.mark.parametrize("turn", range(3))
@pytest.mark.parametrize("given", MASKS, ids=str)
def test_masks_and_terms(monkeypatch, given, turn):
    """Each in every tiling and of every size, which take turns."""
    (head_dim, few), (rows, keys) = TILINGS[turn], SIZES[(turn + MASKS.index(given)) % 3]
    monkeypatch.setattr(flash3, "FEW_KEYS", few)
    check((1, 2, 1, rows, keys, head_dim), **given)


LENGTHS = [[1, 127, 128, 129, 0, 64, 3], [8] * 20, [0, 0, 5, 300, 0]]


TILED = [((64,), 0), ((128,), 10**9), ((192, 128), 0)]
OF_DOCUMENTS = [{}, {"causal": True}, {"window": (40, 20)}, {"window": 128}]


@pytest.mark.parametrize(
    ("tiled", "mask", "how"),
    in_turn(TILED, OF_DOCUMENTS, [*zip(LENGTHS, (2, 1, 1), (0, -3, 70), strict=True)], by=2),
    ids=str,
)
def test_documents(monkeypatch, tiled, mask, how):
    """Tiles end where a document does: as many queries as keys, fewer, and more."""
    (head_dim, few), (lengths, batch, more) = tiled, how
    monkeypatch.setattr(flash3, "FEW_KEYS", few)
    check((batch, 1, 1, sum(lengths) + more, sum(lengths), *head_dim), documents=lengths, **mask)


CAPPED = {"causal": True, "softcap": 20.0, "sinks": SINKS}


@pytest.mark.parametrize(("given", "dtype"), [({}, torch.int32), (CAPPED, torch.int64)], ids=str)
def test_packed_sequences_of_lengths_on_the_device(given, dtype):
    """With queries and keys of their own each; what follows the last sequence sees nothing."""
    rows, keys = [5, 130, 0, 64, 300, 7], [200, 130, 64, 0, 257, 1]
    starts, key_starts = (torch.tensor([0, *each]).cumsum(0).to(dtype) for each in (rows, keys))
    q, k, v = tensors(1, 2, 1, sum(rows) + 140, sum(keys) + 33, 64)
    k[:, :, sum(keys) :], v[:, :, sum(keys) :] = math.nan, math.nan
    options = Options(**given)
    sides = (None, 0) if options.causal else (None, None)
    out, lse = run(q, k, v, options, Seen(sides, None, starts, key_starts))
    for first, count, key, held in zip(starts, rows, key_starts, keys, strict=False):
        if not count:
            continue
        mine, own = slice(first, first + count), slice(key, key + held)
        if held:
            exact, exact_lse = reference_attention(q[:, :, mine], k[:, :, own], v[:, :, own], **given)
        else:
            exact = torch.zeros_like(q[:, :, mine])
            sinks = torch.full((2,), -math.inf) if options.sinks is None else SINKS
            exact_lse = sinks[None, :, None].expand(lse[:, :, mine].shape)
        torch.testing.assert_close(out[:, :, mine].double(), exact.double(), atol=1e-5, rtol=0)
        torch.testing.assert_close(lse[:, :, mine].double(), exact_lse.double(), atol=1e-5, rtol=0)
    assert (out[:, :, sum(rows) :] == 0).all()


def test_no_number_of_one_document_reaches_another():
    lengths = [100, 130, 1, 200]
    q, k, v = tensors(1, 2, 1, 431, 431, 64)
    clean, clean_lse = run(q, k, v, Options(documents=lengths, causal=True))
    for each in (q, k, v):
        each[:, :, 100:230] = math.nan
    out, lse = run(q, k, v, Options(documents=lengths, causal=True))
    for mine in (slice(0, 100), slice(230, 431)):
        assert torch.equal(out[:, :, mine], clean[:, :, mine])
        assert torch.equal(lse[:, :, mine], clean_lse[:, :, mine])


def test_starts_that_do_not_rise_write_nowhere_else():
    """What lies on a GPU is not looked at before: any numbers do, and none leads out of the tensors."""
    q, k, v = tensors(1, 2, 1, 300, 300, 64)
    for numbers in ([0, 400, 100, 300], [0, -50, 900, 1], [7, 3, 1000, -9], [0, 2**30, -(2**30), 5]):
        starts = torch.tensor(numbers, dtype=torch.int32)
        run(q, k, v, Options(), Seen((None, 0), None, starts, starts))

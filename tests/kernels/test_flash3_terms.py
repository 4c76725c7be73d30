"""flash3 with what models have beside a plain mask: both passes, as threads on the CPU, against float64."""

import math

import pytest
import torch
from attention_cases import ON_CPU, in_turn
from flash3_cases import check, drawn, exact, few_keys, run

from kernels.algorithms.flash3 import backward as flash3_backward
from kernels.backward.shared_key_blocks import Shares
from kernels.call.call import Call

pytestmark = [pytest.mark.usefixtures("on_threads"), ON_CPU]
NAN = math.nan
SINKS, SLOPES = torch.tensor([0.5, -9.0]), torch.tensor([0.5, 0.02])
TERMS = [
    *({"window": sides} for sides in ((100, 50), (None, 70), (70, None), (0, 0), (10**9, 10**9))),
    *({"prefix": keys, "causal": True} for keys in (150, 1000)),
    {"softcap": 20.0},
    {"window": 64, "sinks": SINKS},
    {"causal": True, "alibi_slopes": SLOPES},
    {"causal": True, "alibi_slopes": SLOPES, "softcap": 9.0, "sinks": SINKS},
]
TILINGS = [(64, 0), (128, 10**9), (256, 0)]  # head dim, and how many keys count as few
SIZES = [(321, 321), (250, 130), (1, 300)]  # queries, keys
BETWEEN = [(72,), (80,), (96,), (112,), (160,), (192,), (248,), (192, 128)]
LENGTHS = [([1, 127, 128, 129, 0, 64, 3], (64,)), ([8] * 20, (192, 128)), ([0, 0, 5, 300, 0], (128,))]
OF_DOCUMENTS = [{}, {"causal": True}, {"window": (40, 20)}, {"window": 128}]


@pytest.mark.parametrize(("dims", "mask"), in_turn(BETWEEN, [*OF_DOCUMENTS[:3]], by=1), ids=str)
def test_head_dims_between_and_values_of_their_own(dims, mask):
    check((1, 2, 1, 200, 260), dims, **mask)


@pytest.mark.parametrize(
    ("given", "sizes", "tiling"),
    [*in_turn(TERMS, SIZES[:2], TILINGS), *in_turn(TERMS[::3], SIZES[2:], TILINGS)],
    ids=str,
)
def test_masks_and_terms(monkeypatch, given, sizes, tiling):
    head_dim, few = tiling
    few_keys(monkeypatch, few)
    check((1, 2, 1, *sizes), head_dim, **given, scale=0.1 if sizes == SIZES[1] else None)


@pytest.mark.parametrize(
    ("lengths", "mask", "how"), in_turn(LENGTHS, OF_DOCUMENTS, [(2, 0), (1, -3), (1, 70)]), ids=str
)
def test_documents(monkeypatch, lengths, mask, how):
    """Tiles end where a document does: as many queries as keys, fewer, and more."""
    (lengths, dims), (batch, more) = lengths, how
    few_keys(monkeypatch, 0 if more else 10**9)
    check((batch, 1, 1, sum(lengths) + more, sum(lengths)), dims, documents=lengths, **mask)


@pytest.mark.parametrize(
    ("given", "dtype"), [({}, torch.int32), ({"causal": True, "softcap": 9.0, "sinks": SINKS}, torch.int64)]
)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_packed_sequences_of_lengths_on_the_device(head_dim, given, dtype):
    """With queries and keys of their own each; what follows the last sequence is NaN, and counts nowhere."""
    rows, keys = [5, 130, 0, 64, 200, 7], [200, 130, 64, 0, 157, 1]
    packed = [torch.tensor([0, *each]).cumsum(0).to(dtype) for each in (rows, keys)]
    tensors = drawn((1, 2, 1, sum(rows) + 140, sum(keys) + 33), head_dim)
    right = exact(*tensors, packed=packed, **given)
    for tensor, end in zip(tensors[:4], (sum(rows), sum(keys), sum(keys), sum(rows)), strict=True):
        tensor[:, :, end:] = NAN
    tensors[4][..., sum(rows) :] = 0
    ours = run(*tensors, packed=packed, **given)
    ends = sum(rows), sum(rows), sum(rows), sum(keys), sum(keys), None
    for one, expected, end in zip(ours, right, ends, strict=False):
        if one.dim() == 4:
            assert not one[:, :, end:].any()
        one, expected = (each[:, :, :end] if each.dim() > 1 else each for each in (one, expected))
        torch.testing.assert_close(one.double(), expected, atol=1e-4 if end is None else 3e-5, rtol=0)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_no_number_of_one_document_reaches_another(head_dim):
    given = {"documents": [70, 100, 1, 90], "causal": True}
    tensors = drawn((1, 1, 1, 261, 261), head_dim)
    clean = run(*tensors, **given)
    for each in tensors:
        each[:, :, 70:170] = NAN
    for ours, right in zip(run(*tensors, **given)[:5], clean, strict=False):
        for mine in (slice(0, 70), slice(170, 261)):
            assert torch.equal(ours[:, :, mine], right[:, :, mine])


def test_starts_that_do_not_rise_write_nowhere_else():
    """What lies on a GPU is not looked at before: any numbers do, and none leads out of the tensors."""
    for numbers in ([0, 400, 100, 300], [0, -50, 900, 1], [7, 3, 1000, -9], [0, 2**30, -(2**30), 5]):
        starts = torch.tensor(numbers, dtype=torch.int64)
        run(*drawn((1, 2, 1, 300, 300), 64), packed=(starts, starts), causal=True)


def test_gradients_where_all_key_blocks_are_shared():
    """From the pass that an H200 would take to the sums of shares."""
    call = Call(1, 2, 1, 600, 200, 128, False, None, 0.1, "flash2", 64, 128, None)
    assert flash3_backward.shared(call, 132) == Shares(0, 20, 10, 0, 1)
    check((1, 2, 1, 600, 200), 128)

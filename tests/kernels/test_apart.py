"""NaN and infinities stay in the sequence that has them, in values and gradients, whoever shares a tile."""

import math
from functools import cache

import pytest
import torch

from kernels import attention, attention_varlen

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EDGES = torch.tensor([0, 9, 9, 20, 37], dtype=torch.int32, device=DEVICE)  # the second is empty
TOKENS, PAST = 37, 11  # packed, and behind the last
HEADS, KV_HEADS, HEAD_DIM = 2, 1, 16
LOGITS, SLOPES = torch.tensor([[0.5, -1.0], [0.1, 0.3]], device=DEVICE)
TERMS = {"softcap": 3.0, "sinks": LOGITS, "alibi_slopes": SLOPES}
MASKS = {"whole": {}, "causal": {"causal": True}, "terms": {"window": (5, 2), **TERMS}}
BLOCKS = {"block_q": 16, "block_kv": 16}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of what is multiplied here


def drawn(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def tensors():
    """q, k, v, and the gradients of O and lse."""
    shapes = [(HEADS, HEAD_DIM), (KV_HEADS, HEAD_DIM), (KV_HEADS, HEAD_DIM), (HEADS, HEAD_DIM), (HEADS,)]
    return [drawn(TOKENS + PAST, *shape, seed=seed) for seed, shape in enumerate(shapes)]


def run(tensors, algorithm, mask, gradients):
    """O and lse, tokens first, and the gradients of q, k, v and the sinks."""
    *leaves, d_out, d_lse = tensors
    leaves = [each.clone().requires_grad_(gradients) for each in leaves]
    options = {"algorithm": algorithm, "return_lse": True, **BLOCKS, **MASKS[mask]}
    if gradients and "sinks" in options:
        leaves.append(options["sinks"].clone().requires_grad_())
        options["sinks"] = leaves[-1]
    out, lse = attention_varlen(*leaves[:3], EDGES, EDGES, **options)
    found = [out.detach(), lse.detach().t()]
    if gradients:
        found += torch.autograd.grad([out, lse], leaves, [d_out, d_lse.t()])
    return found


@cache
def untouched(algorithm, mask, gradients):
    """What comes out where nothing is spoilt."""
    return run(tensors(), algorithm, mask, gradients)


SEQUENCE, BEHIND = slice(9, 20), slice(TOKENS, None)
OTHERS = zip(("split_kv", "flash1", "standard"), MASKS, strict=True)
SPOILT = [(SEQUENCE, *each) for each in (*(("flash2", mask) for mask in MASKS), *OTHERS)]
SPOILT += [(BEHIND, "flash2", "terms"), (BEHIND, "split_kv", "whole")]


@pytest.mark.parametrize(("where", "algorithm", "mask"), SPOILT, ids=str)
def test_one_sequence_never_reaches_another(where, algorithm, mask):
    gradients = algorithm in ("flash2", "split_kv")
    spoiled = [each.clone() for each in tensors()]
    for each in spoiled:
        for first, value in enumerate((math.nan, math.inf, -math.inf)):
            each[where.start + first] = value
    clean, found = untouched(algorithm, mask, gradients), run(spoiled, algorithm, mask, gradients)
    others = torch.ones(TOKENS + PAST, dtype=torch.bool)
    others[where] = False
    for ours, right in zip(found[:5], clean[:5], strict=True):
        torch.testing.assert_close(ours[others], right[others], atol=1e-6, rtol=1e-5)
    if where.start == TOKENS:  # of no sequence
        for ours, right in zip(found, clean, strict=True):
            torch.testing.assert_close(ours, right, atol=1e-6, rtol=1e-5)
    else:
        assert not found[0][where].isfinite().all()


@pytest.mark.parametrize("algorithm", ["flash2", "split_kv", "flash1", "standard"])
def test_a_value_reaches_the_queries_that_see_its_key(algorithm):
    """As alone, infinities with their sign: key 12 is the fourth of the second document."""
    q, k, v, *_ = (each[:TOKENS].transpose(0, 1)[None] for each in tensors())
    v = v.clone()
    v[:, :, 12, 3], v[:, :, 12, 5], v[:, :, 14, 5] = math.inf, -math.inf, math.inf
    out = attention(q, k, v, documents=[9, 11, 17], causal=True, algorithm=algorithm, **BLOCKS)
    assert out[..., :12, :].isfinite().all()
    assert out[..., 20:, :].isfinite().all()
    assert (out[..., 12:20, 3] == math.inf).all()
    assert (out[..., 12:14, 5] == -math.inf).all()
    assert out[..., 14:20, 5].isnan().all()
    assert out[..., 12:20, [0, 1, 2, 4]].isfinite().all()

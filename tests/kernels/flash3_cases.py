"""Calls of flash3 whose partitions run as threads on the CPU, both passes, and what they must give."""

import torch
from attention_cases import by_sequence

from kernels.algorithms.flash3 import backward, forward
from kernels.call.call import Call
from kernels.call.key_ranges import plain_mask, seen_of
from kernels.call.options import Options
from kernels.call.terms import terms_with

CLOSE = 1e-5, 1e-5, 3e-5, 3e-5, 3e-5, 1e-4  # of O, lse, dQ, dK, dV and the sinks' gradients


def drawn(shape, head_dim, v_dim=None):
    """q, k, v, and the gradients of O and lse."""
    torch.manual_seed(0)
    batch, heads, kv_heads, seq_q, seq_kv = shape
    v_dim = v_dim or head_dim
    q, d_out = (torch.randn(batch, heads, seq_q, columns) for columns in (head_dim, v_dim))
    k, v = (torch.randn(batch, kv_heads, seq_kv, columns) for columns in (head_dim, v_dim))
    return q, k, v, d_out, torch.randn(q.shape[:3])


def run(q, k, v, d_out=None, d_lse=None, packed=None, times=None, **given):
    """O and lse, and with gradients of these those of q, k, v and the sinks; memory holds NaN before.

    packed: where sequences begin among the queries and the keys.
    """
    options, v_dim = Options(**given), None if v.shape[3] == q.shape[3] else v.shape[3]
    causal, window = plain_mask(options) or (False, None)
    window = None if window is None or window >= k.shape[2] else window
    sizes = *q.shape[:2], k.shape[1], q.shape[2], *k.shape[2:]
    scale = options.scale or sizes[-1] ** -0.5
    call = Call(*sizes, causal, window, scale, "flash3", 128, 64, None, v_dim=v_dim)
    terms = None
    if packed is not None or plain_mask(options) is None:
        seen = seen_of(q, k, options)
        if packed is not None:
            seen = seen._replace(starts=packed[0], key_starts=packed[1])
        terms = terms_with(None, q, options, seen)
    out, lse = forward.flash3(q, k, v, call, times, terms)
    if d_out is None:
        return out, lse
    return out, lse, *backward.flash3_backward(q, k, v, out, lse, d_out, d_lse, call, terms=terms)


def exact(q, k, v, d_out=None, d_lse=None, packed=None, **given):
    """The same of each sequence by itself in float64; of what belongs to none, 0 and -inf."""
    leaves = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    sinks = given.pop("sinks", None)
    if sinks is not None:
        leaves.append(sinks.double().requires_grad_())
        given["sinks"] = leaves[3]
    starts = packed or [torch.tensor([0, tensor.shape[2]]) for tensor in (q, k)]
    out, lse = by_sequence(*leaves[:3], starts, **given)
    if d_out is None:
        return out, lse
    of_lse = torch.where(lse.isfinite(), lse, 0) * d_lse[..., : lse.shape[2]]
    total = (out * d_out[:, :, : out.shape[2]]).sum() + of_lse.sum()
    return out, lse, *torch.autograd.grad(total, leaves)


def check(shape, dims, gradients=True, apart=0.0, size=1.0, close=CLOSE, **given):
    """Against float64; apart: by how much queries and keys are moved apart, which lowers all scores.

    size: that of the queries.
    """
    q, k, *others = drawn(shape, *(dims if isinstance(dims, tuple) else (dims,)))
    tensors = size * q + apart, k - apart, *(others if gradients else others[:1])
    ours, right = run(*tensors, **given), exact(*tensors, **given)
    for one, expected, atol in zip(ours, right, close, strict=False):
        atol *= (1 + apart) ** 2
        torch.testing.assert_close(one.double(), expected.detach().double(), atol=atol, rtol=0)


def share(monkeypatch, cut) -> None:
    """Blocks of threads share key blocks so from now on; None where none does."""
    monkeypatch.setattr(backward, "shared", lambda call, processors: cut)


def few_keys(monkeypatch, number) -> None:
    """So many keys count as few from now on, for which tiles are short."""
    monkeypatch.setattr(forward, "FEW_KEYS", number)

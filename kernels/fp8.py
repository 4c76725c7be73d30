"""The public face of attention in FP8: how its numbers are rounded can be chosen."""

import torch

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.fp8.forward import fp8
from kernels.call.value_checks import (
    as_autocast,
    check_untransformed,
    check_without_gradient,
    must,
    resolved,
)
from kernels.dispatch.dispatch import checked, chosen, unserved

SCALES = ("block", "tensor")


def attention_fp8(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    rotate: bool = True,
    scales: str = "block",
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """`attention` with Q, K, V and P rounded to 8 bits (e4m3), on a Hopper GPU; forward only.

    Tensors, causal, scale and what is returned are as `attention` says; q, k and v are float16 or bfloat16,
    head_dim 64, 128 or 256. scales: "block" gives 64 queries, and each block of keys, a scale of their own;
    "tensor" gives one to each of q, k and v. rotate multiplies Q and K by the same orthogonal matrix before
    they are rounded, which spreads outliers over all columns and leaves Q K^T as it was. With its defaults it
    is attention(algorithm="fp8").

    Raises ValueError or TypeError, naming the argument, for what cannot be served, and for gradients.
    """
    if scales not in SCALES:
        must(False, "scales", scales, f"one of {', '.join(SCALES)}")
    check_untransformed(q, k, v)
    q, k, v = as_autocast(*resolved(q, k, v))
    try:
        call, _ = chosen(q, k, v, causal, None, scale, "fp8")
    except ValueError:
        call = checked(q, k, v, causal, None, scale)  # which may say what is wrong with an argument
        reason = unserved(ALGORITHMS["fp8"], q, k, v, call)
        if reason is None:
            raise
        raise ValueError(f"attention_fp8 does not serve this call: {reason}") from None
    check_without_gradient("attention in FP8 has", q=q, k=k, v=v)
    out, lse = fp8(q, k, v, call, rotate=rotate, one_scale=scales == "tensor")
    return (out, lse) if return_lse else out

"""The public face: checks the arguments, chooses an algorithm, runs its kernels."""

from dataclasses import dataclass

import torch

from kernels.arguments import Call, checked
from kernels.backward import backward, tilings
from kernels.flash1 import flash1
from kernels.flash2 import flash2
from kernels.launch import interpreted, multiprocessors
from kernels.split_kv import split_kv, worthwhile
from kernels.standard import standard

FORWARD = {"standard": standard, "flash1": flash1, "flash2": flash2, "split_kv": split_kv}
AUTO = "flash2"
DIFFERENTIABLE = ("flash2", "split_kv")


@dataclass(frozen=True)
class Probed:
    """What a kernel computed, and what it held after every tile it visited.

    out and lse as `attention` returns them. m (running maximum of the scaled scores), l (running sum of
    exp(s - m)) and alpha (the factor that rescaled what was there) are float32 [batch, heads, query_blocks,
    key_blocks, block_q]; NaN where a tile is not visited and in rows past the last query. `standard` takes
    a row at once: its key_blocks is 1 and its alpha NaN, for nothing is rescaled.
    """

    out: torch.Tensor
    lse: torch.Tensor
    m: torch.Tensor
    l: torch.Tensor  # noqa: E741 (the papers' name)
    alpha: torch.Tensor


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    algorithm: str = "auto",
    block_q: int | None = None,
    block_kv: int | None = None,
    splits: int | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale q k^T) v, shaped like q; with return_lse also the log-sum-exp.

    q is [batch, heads, seq_q, head_dim], k and v [batch, kv_heads, seq_kv, head_dim], heads a multiple of
    kv_heads; float32, float16 or bfloat16, head_dim 1 to 256, any strides. lse is natural, float32 [batch,
    heads, seq_q].

    causal lets a query see the keys up to its position, the last query standing at the last key. window
    narrows that to the last `window` keys, the query's own included; it only looks back, so window alone
    sees what window with causal sees. A query that sees no key gives 0 and lse -inf. scale is
    1 / sqrt(head_dim) unless given.

    algorithm is auto, standard (at most 65,536 keys), flash1, flash2 or split_kv; auto is flash2, or split_kv
    where flash2 would leave half of the GPU idle. block_q and block_kv are powers of two from 16 to 1024, the
    rows of split_kv being the queries of all heads that share a key head. splits is for split_kv alone.

    Differentiable, lse too, with auto, flash2 and split_kv; blocks that are given hold for both passes.

    Raises ValueError or TypeError, naming the argument, for what cannot be served; OutOfSharedMemoryError
    where the blocks do not fit the GPU.
    """
    options = {"causal": causal, "window": window, "scale": scale, "block_q": block_q, "block_kv": block_kv}
    call = _call_for_this_gpu(q, k, v, algorithm, {**options, "splits": splits})
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (q, k, v)):
        _check_differentiable(call.algorithm, {"q": q, "k": k, "v": v})
        out, lse = _Differentiable.apply(q, k, v, call, block_q, block_kv)
    else:
        out, lse = FORWARD[call.algorithm](q, k, v, call)
    return (out, lse) if return_lse else out


def probe_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    algorithm: str = "auto",
    block_q: int | None = None,
    block_kv: int | None = None,
) -> Probed:
    """`attention` with the probe on: also m, l and alpha after every tile, see `Probed`."""
    if algorithm == "split_kv":
        raise ValueError(
            "algorithm is 'split_kv', which has no probe: it must be auto, standard, flash1 or flash2"
        )
    options = {"causal": causal, "window": window, "scale": scale, "block_q": block_q, "block_kv": block_kv}
    call = _call(q, k, v, algorithm, {**options, "splits": None})
    key_blocks = 1 if call.algorithm == "standard" else call.key_blocks
    shape = (call.batch, call.heads, call.query_blocks, key_blocks, call.block_q)
    probe = tuple(torch.full(shape, torch.nan, device=q.device) for _ in range(3))
    out, lse = FORWARD[call.algorithm](q, k, v, call, probe)
    return Probed(out, lse, *probe)


def _call(q, k, v, algorithm, options) -> Call:
    return checked(
        q,
        k,
        v,
        algorithm=AUTO if algorithm == "auto" else algorithm,
        algorithms=("auto", *FORWARD),
        interpreted=interpreted(),
        **options,
    )


def _call_for_this_gpu(q, k, v, algorithm, options) -> Call:
    """The call, where auto may split the keys because flash2 would leave the GPU idle."""
    call = _call(q, k, v, algorithm, options)
    own_blocks = options["block_q"] is None and options["block_kv"] is None
    if algorithm == "auto" and own_blocks and q.is_cuda and worthwhile(call, multiprocessors(q.device)):
        return _call(q, k, v, "split_kv", options)
    return call


class _Differentiable(torch.autograd.Function):
    """An algorithm's forward pass with FlashAttention-2's backward pass."""

    @staticmethod
    def forward(q, k, v, call: Call, block_q: int | None, block_kv: int | None):
        return FORWARD[call.algorithm](q, k, v, call)

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, call, block_q, block_kv = inputs
        ctx.save_for_backward(q, k, v, *output)
        ctx.tilings = tilings(call, q.dtype, block_q, block_kv)
        ctx.set_materialize_grads(False)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_out, d_lse):
        q, k, v, out, lse = ctx.saved_tensors
        if d_out is None:
            d_out = torch.zeros_like(out)
        elif d_out.stride(-1) != 1:  # such as the expanded gradient of a sum: slower to read than to copy
            d_out = d_out.contiguous()
        return *backward(q, k, v, out, lse, d_out, d_lse, *ctx.tilings), None, None, None


def _check_differentiable(algorithm: str, tensors: dict[str, torch.Tensor]) -> None:
    if algorithm not in DIFFERENTIABLE:
        name = next(name for name, tensor in tensors.items() if tensor.requires_grad)
        raise ValueError(
            f"algorithm is {algorithm!r} and {name} requires grad, it must be one of"
            f" auto, {', '.join(DIFFERENTIABLE)}, or called under torch.no_grad()"
        )

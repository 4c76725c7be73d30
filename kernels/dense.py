"""The public face: checks the arguments, chooses an algorithm, runs its kernels."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernels.call.key_ranges import plain_mask
from kernels.call.terms import Terms
from kernels.call.value_checks import shown
from kernels.dispatch.dispatch import FORWARD, chosen, differentiated, forward
from kernels.dispatch.operator import attention_operator, differentiable, traced
from kernels.dispatch.ranged import attention_in_ranges, checked_order, chosen_in_ranges, ranges_for
from kernels.launch.block_times import BlockTimes
from kernels.launch.launch import interpreted

UNPROBED = ("flash3", "fp8", "split_kv")
TRACED = ("standard", "flash1", "flash2", "flash3")


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


@dataclass(frozen=True)
class Traced:
    """What a call computed, and which SM ran each of its blocks of threads, and when.

    out and lse as `attention` returns them. blocks, by the kernel's name in the order they ran ("attention",
    or "scores", "softmax" and "output"), is int64 [blocks, 3] in launch order: the SM, and the start and end
    in nanoseconds of the GPU's clock (%globaltimer), which ticks every 32 of them on an H200.
    """

    out: torch.Tensor
    lse: torch.Tensor
    blocks: dict[str, torch.Tensor]


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    scale: float | None = None,
    documents: Sequence[int] | None = None,
    prefix: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    algorithm: str = "auto",
    block_q: int | None = None,
    block_kv: int | None = None,
    splits: int | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale q k^T) v, [batch, heads, seq_q, head_dim of v]; with return_lse also the log-sum-exp.

    q is [batch, heads, seq_q, head_dim], k [batch, kv_heads, seq_kv, head_dim] and v alike, heads a multiple
    of kv_heads; float32, float16 or bfloat16, head_dim 1 to 256, any strides. v may have a head_dim of its
    own, up to 256, or up to 512 where q's is at most 64. lse is natural, float32 [batch, heads, seq_q].

    causal lets a query see the keys up to its position, the last query standing at the last key. window
    narrows that to the last `window` keys, the query's own included; it only looks back, so window alone
    sees what window with causal sees. A pair of numbers (left, right) lets a query at position p see the keys
    p - left to p + right, None being without end. documents are the lengths of sequences packed end to end: a
    query sees the keys of its own. prefix: so many first keys every query sees, causal or not. A query that
    sees no key gives 0 and lse -inf. scale is 1 / sqrt(head_dim) unless given.

    softcap c makes of a score s the score c tanh(s / c). alibi_slopes, [heads] or [batch, heads], are what a
    score falls by per key of distance. sinks, [heads], are logits without a key: they enter the softmax and
    lse, and give nothing.

    algorithm is auto, standard (at most 65,536 keys), flash1, flash2, flash3 (on a Hopper GPU), fp8 (there
    too: `attention_fp8` with its defaults, which auto never takes, as it changes the result) or split_kv.
    auto is split_kv where flash2 would leave half of the GPU idle or few queries come from heads that share
    keys, else flash3 where it serves the tensors and the call is not a very short one, else flash2; flash2
    wherever blocks are given; see `explain`. flash3 takes causal and a window of keys alone, and v of q's
    head_dim.
    block_q and block_kv are powers of two from 16 to 1024, the rows of split_kv being the queries of all
    heads that share a key head; flash3 takes none.
    splits is for split_kv; with flash3, 1 keeps tiles whole: without a mask it may cut the last ones over
    their keys, so that all SMs end together.

    Differentiable, lse and sinks too, with auto, flash2, flash3 and split_kv; blocks that are given hold for
    both passes. Backward, flash3, and mostly auto where flash3 serves the tensors, is one kernel: it sums dQ
    in any order, unless torch.use_deterministic_algorithms asks for the same bits every time. torch.compile
    and fake tensors see one operator, torch.ops.attention_tiles.attention, or attention_in_ranges.

    Raises ValueError or TypeError, naming the argument, for what cannot be served; OutOfSharedMemoryError
    where the blocks do not fit the GPU.
    """
    terms = documents, prefix, softcap, sinks, alibi_slopes
    mask = plain_mask(causal, window, terms)
    if mask is None:
        options = (scale, algorithm, block_q, block_kv, splits)
        out, lse = attention_in_ranges(q, k, v, causal, window, terms, options, traced(q, k, v))
        return (out, lse) if return_lse else out
    options = (*mask, scale, algorithm, block_q, block_kv, splits)
    if traced(q, k, v):  # little is asked here: what is, compiled code asks again at every call
        out, lse = attention_operator(q, k, v, *options)
    elif differentiated(algorithm, q, k, v):
        return differentiable(q, k, v, options, return_lse)
    else:
        out, lse = forward(q, k, v, *options)
    return (out, lse) if return_lse else out


def explain(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    scale: float | None = None,
    documents: Sequence[int] | None = None,
    prefix: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    algorithm: str = "auto",
    block_q: int | None = None,
    block_kv: int | None = None,
    splits: int | None = None,
) -> str:
    """Which algorithm `attention` runs for these arguments and why, in one sentence; runs nothing."""
    terms = documents, prefix, softcap, sinks, alibi_slopes
    mask = plain_mask(causal, window, terms)
    options = scale, algorithm, block_q, block_kv, splits
    if mask is None:
        order = checked_order(q, k, v, causal, window, terms, options)
        call, reason = chosen_in_ranges(q, k, v, order, *options)
    else:
        call, reason = chosen(q, k, v, *mask, *options)
    return f"{call.algorithm} runs: {reason}"


def probe_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    scale: float | None = None,
    documents: Sequence[int] | None = None,
    algorithm: str = "auto",
    block_q: int | None = None,
    block_kv: int | None = None,
) -> Probed:
    """`attention` with the probe on: also m, l and alpha after every tile, see `Probed`."""
    if algorithm in UNPROBED:
        raise ValueError(
            f"algorithm is {algorithm!r}, which has no probe: it must be auto, standard, flash1 or flash2"
        )
    algorithm = "flash2" if algorithm == "auto" else algorithm
    mask, terms = plain_mask(causal, window, (documents,)), None
    if mask is None:
        others = documents, None, None, None, None
        order = checked_order(q, k, v, causal, window, others, (scale, algorithm, block_q, block_kv, None))
        mask, terms = (order, None), Terms(ranges_for(q, k, causal, window, documents))
    call, _ = chosen(q, k, v, *mask, scale, algorithm, block_q, block_kv, None)
    key_blocks = 1 if call.algorithm == "standard" else call.key_blocks
    shape = (call.batch, call.heads, call.query_blocks, key_blocks, call.block_q)
    probe = tuple(torch.full(shape, torch.nan, device=q.device) for _ in range(3))
    out, lse = FORWARD[call.algorithm](q, k, v, call, probe, terms=terms)
    return Probed(out, lse, *probe)


def trace_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    algorithm: str = "flash2",
    block_q: int | None = None,
    block_kv: int | None = None,
    heavy_first: bool = True,
) -> Traced:
    """`attention` with every block of threads written down, see `Traced`; it costs less than 3 % of the time.

    algorithm is standard, flash1, flash2, or flash3, whose blocks of threads stay and draw tiles: of it these
    are written down. heavy_first False has flash2 launch the query blocks of a causal head from the first to
    the last, which its kernel otherwise turns around. Raises RuntimeError where the kernels are interpreted:
    there is no SM to name and no clock to read.
    """
    if algorithm not in TRACED:
        raise ValueError(f"algorithm is {algorithm!r}, it must be {', '.join(TRACED)} to be traced")
    mask = plain_mask(causal, window, ())
    if mask is None:
        raise ValueError(f"window is {shown(window)}, it must be None or a number of keys to be traced")
    call, _ = chosen(q, k, v, *mask, scale, algorithm, block_q, block_kv, None)
    if interpreted():
        raise RuntimeError(
            "blocks cannot be traced in Triton's interpreter, which has no SMs and no GPU clock"
        )
    times = BlockTimes(heavy_first)
    out, lse = FORWARD[call.algorithm](q, k, v, call, times=times)
    return Traced(out, lse, times.kernels)

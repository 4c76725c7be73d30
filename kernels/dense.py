"""`attention`: checks the arguments, chooses an algorithm, runs its kernels."""

from collections.abc import Callable
from typing import Unpack

import torch

from kernels.call.key_ranges import late_see_more, plain_mask, ranges_for, seen_of
from kernels.call.options import Asked, Options, asked, signed
from kernels.call.terms import terms_with
from kernels.call.value_checks import alike_of, as_autocast, beside, like_empty, remember, traced
from kernels.dispatch import dispatch
from kernels.dispatch.dispatch import check, launched_again
from kernels.dispatch.operator import attend

_AGAIN: dict[
    tuple, tuple[Callable, list]
] = {}  # by layouts and options: `dispatch.again`, and where it packs


@signed
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **given: Unpack[Asked]
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale q k^T) v, [batch, heads, seq_q, head_dim of v]; with return_lse also the log-sum-exp.

    q is [batch, heads, seq_q, head_dim], k [batch, kv_heads, seq_kv, head_dim] and v alike, heads a multiple
    of kv_heads; float32, float16 or bfloat16, head_dim 1 to 256, any strides. v may have a head_dim of its
    own, up to 256, or up to 512 where q's is at most 64. lse is natural, float32 [batch, heads, seq_q].
    Decoding over a latent, as multi-head latent attention does with its projections absorbed, has one query,
    one key head of head_dim 576, and as v its first 512 columns, k[..., :512]: known by its storage, a latent
    is read once on a Hopper GPU; it takes no mask and no terms.

    causal lets a query see the keys up to its position, the last query standing at the last key. window
    narrows that to the last `window` keys, the query's own included; it only looks back, so window alone
    sees what window with causal sees. A pair of numbers (left, right) lets a query at position p see the keys
    p - left to p + right, None being without end. documents are the lengths of sequences packed end to end: a
    query sees the keys of its own, and no number of one document, be it NaN, reaches another's results or
    gradients. prefix: so many first keys every query sees, causal or not. A query that sees no key gives 0
    and lse -inf. scale is 1 / sqrt(head_dim) unless given.

    Within a sequence a key that is hidden from a query, but seen by others of its tile, has a weight of 0, as
    in PyTorch's own attention: where its value is NaN or infinite, that query's O is NaN.

    softcap c makes of a score s the score c tanh(s / c). alibi_slopes, [heads] or [batch, heads], are what a
    score falls by per key of distance. sinks, [heads], are logits without a key: they enter the softmax and
    lse, and give nothing.

    algorithm is auto, standard (at most 65,536 keys), flash1, flash2, flash3 (on a Hopper GPU), fp8 (there
    too: `attention_fp8` with its defaults, which auto never takes, as it changes the result) or split_kv.
    auto is split_kv where flash2 would leave half of the GPU idle or few queries come from heads that share
    keys, else flash3 where it serves the tensors and the call is not a very short one, else flash2; flash2
    wherever blocks are given; see `explain`. flash3 takes head dims of 64 to 256 in steps of 8, v of
    q's or of 128 beside 192, and every mask and term but a softcap below 8 or above 64.
    block_q and block_kv are powers of two from 16 to 1024, the rows of split_kv being the queries of all
    heads that share a key head; flash3 takes none.
    splits is for split_kv; with flash3, 1 keeps tiles whole: without a mask it may cut the last ones over
    their keys, so that all SMs end together.

    Under autocast q, k and v are cast as PyTorch casts them for scaled_dot_product_attention; FlopCounterMode
    counts a call.

    Differentiable, lse and sinks too, with auto, flash2, flash3 and split_kv; blocks that are given hold for
    both passes. Backward, flash3, and mostly auto where flash3 serves the tensors, is one kernel: it sums dQ
    in any order, unless torch.use_deterministic_algorithms asks for the same bits every time. torch.compile
    and fake tensors see one operator, torch.ops.attention_tiles.attention.

    Raises ValueError or TypeError, naming the argument, for what cannot be served; OutOfSharedMemoryError
    where the blocks do not fit the GPU.
    """
    try:
        options = Options(**given)
    except TypeError:
        options = asked(given, Asked)
    mask, terms, alike = plain_mask(options), None, None
    if mask is None and (alike := alike_of((q, k, v), given)):
        if options.documents is not None and q.is_cuda:  # where they begin is made on a stream
            alike = *alike, torch.cuda.current_stream(q.device)
        if known := _AGAIN.get(alike):
            out, lse = launched_again(*known, q, k, v, given)
            return (out, lse) if options.return_lse else out
    q, k, v = as_autocast(q, k, v)
    if mask is None:
        check(q, k, v, options)
        mask = late_see_more(options), None
        if traced(q, k, v):
            with beside(q):
                terms = terms_with(ranges_for(q, k, options, True), q, options)
        else:
            terms = terms_with(None, q, options, seen_of(q, k, options), lambda: ranges_for(q, k, options))
    how = *mask, *options.how
    if not alike:
        return attend(q, k, v, how, terms, options.return_lse)
    out, lse = attend(q, k, v, how, terms)
    starts = [] if terms.seen.starts is None else [terms.seen.starts, terms.seen.key_starts]
    capturing = q.is_cuda and torch.cuda.is_current_stream_capturing()
    if like_empty(out, q) and not capturing and (again := dispatch.again(q, k, v, how, terms, given)):
        remember(_AGAIN, alike, (again, starts))
    return (out, lse) if options.return_lse else out

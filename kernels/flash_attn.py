"""The functions of the library flash_attn, by its names and signatures, on these kernels.

`from kernels.flash_attn import flash_attn_func` serves code that was written for that library. Tensors are
[batch, sequence, heads, head_dim] here, or [tokens, heads, head_dim] where packed, and a window's side of -1
is without end. What is not served is refused in one sentence. return_attn_probs returns (out, lse, None).
Where q, k and v, or k and v, come as one tensor, the other arguments are those of the function without.
"""

import torch

from kernels.call.flash_attn_arguments import (
    DENSE,
    check_packed_over_pages,
    check_rotary,
    check_scale_and_splits,
    check_sides,
    check_starts,
    check_tensors,
    check_what_goes_with,
    check_with_cache,
    parted,
)
from kernels.call.value_checks import flag
from kernels.dense import attention
from kernels.paged import attention_paged
from kernels.varlen import attention_varlen


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """O [batch, seq_q, heads, head_dim of v]; the last query stands at the last key.

    deterministic asks for the same bits of dQ every time, as torch.use_deterministic_algorithms(True) does.
    """
    _refuse_dropout(dropout_p)
    check_tensors(DENSE, q=q, k=k, v=v)
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes) | _in_order(deterministic)
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    if return_attn_probs:
        out, lse = attention(q, k, v, **options, return_lse=True)
        return out.transpose(1, 2), lse, None
    return attention(q, k, v, **options).transpose(1, 2)


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
    block_table=None,
):
    """O [queries, heads, head_dim of v], of packed sequences; deterministic as in `flash_attn_func`.

    With block_table, int32 [sequences, pages per sequence], k and v are pages as `flash_attn_with_kvcache`
    takes them, and there are no gradients. max_seqlen_q is needed there alone, max_seqlen_k nowhere; queries
    for which it is too small are refused, or NaN where cu_seqlens_q lies on a GPU and nothing waits for it.
    """
    _refuse_dropout(dropout_p)
    if isinstance(alibi_slopes, torch.Tensor) and alibi_slopes.dim() == 2:
        raise ValueError("alibi_slopes has two dimensions, packed sequences must share one slope a head")
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes)
    if block_table is None:
        options |= _in_order(deterministic)
        out, lse = attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, **options, return_lse=True)
    else:
        edges = cu_seqlens_q, cu_seqlens_k, max_seqlen_q
        check_packed_over_pages(q, k, v, block_table, *edges)
        out, lse = _packed_over_pages(q, k, v, block_table, *edges, options)
    return (out, lse, None) if return_attn_probs else out


def flash_attn_qkvpacked_func(qkv, *given, **named):
    """`flash_attn_func` of q, k and v in one tensor, [batch, sequence, 3, heads, head_dim]."""
    return flash_attn_func(*parted("qkv", qkv, "[batch, sequence, 3, heads, head_dim]"), *given, **named)


def flash_attn_kvpacked_func(q, kv, *given, **named):
    """`flash_attn_func` of k and v in one tensor, [batch, sequence, 2, kv_heads, head_dim]."""
    k, v = parted("kv", kv, "[batch, sequence, 2, kv_heads, head_dim]", q)
    return flash_attn_func(q, k, v, *given, **named)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, *given, **named):
    """`flash_attn_varlen_func` of q, k and v in one tensor, [tokens, 3, heads, head_dim]."""
    q, k, v = parted("qkv", qkv, "[tokens, 3, heads, head_dim]")
    check_starts("cu_seqlens", cu_seqlens, q)
    edges = cu_seqlens, cu_seqlens, max_seqlen, max_seqlen
    return flash_attn_varlen_func(q, k, v, *edges, *given, **named)


def flash_attn_varlen_kvpacked_func(q, kv, *given, **named):
    """`flash_attn_varlen_func` of k and v in one tensor, [tokens, 2, kv_heads, head_dim]."""
    k, v = parted("kv", kv, "[tokens, 2, kv_heads, head_dim]", q)
    return flash_attn_varlen_func(q, k, v, *given, **named)


def flash_attn_with_kvcache(
    q,
    k_cache,
    v_cache,
    k=None,
    v=None,
    rotary_cos=None,
    rotary_sin=None,
    cache_seqlens=None,
    cache_batch_idx=None,
    cache_leftpad=None,
    block_table=None,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    rotary_interleaved=True,
    alibi_slopes=None,
    num_splits=0,
    return_softmax_lse=False,
):
    """O [batch, seq_q, heads, head_dim of v], over the first cache_seqlens keys of every cache.

    The caches are [batch, capacity, kv_heads, head_dim], or, with block_table, int32 [batch, pages per
    sequence], pages [pages, page_size, kv_heads, head_dim] of any size; cache_batch_idx, [batch], picks rows
    of the caches or of the table.
    k and v, [batch, seq_new, kv_heads, head_dim], if given, are written into the caches behind these keys,
    and count. cache_seqlens is an int, or int32 [batch] on q's device, where it and the table are read;
    without it the caches are full. num_splits is chosen by the caches' room if 0. No gradients.

    cache_leftpad, int32 [batch]: so many keys of each cache are left out at its begin; the others are read
    through a table of single keys, which is slower. rotary_cos and rotary_sin, [positions, pairs], turn pairs
    of the first columns of q and k, adjacent ones where rotary_interleaved, else of halves: of k, and of q
    where there is a mask, by their positions behind the cache's keys, else of all q by the first of these.
    Positions that the tables do not have are refused, or NaN where cache_seqlens lies on a GPU.
    """
    given = {"k": k, "v": v, "rotary_cos": rotary_cos, "rotary_sin": rotary_sin}
    index = {"cache_batch_idx": cache_batch_idx, "cache_leftpad": cache_leftpad, "block_table": block_table}
    check_with_cache(q, k_cache, v_cache, cache_seqlens, given, index)
    if (rotary_cos is None) != (rotary_sin is None) or (rotary_cos is not None and k is None):
        raise ValueError("rotary_cos and rotary_sin must be given both, with new keys, or neither")
    if (k is None) != (v is None):
        raise ValueError("k and v must be given both, or neither")
    if k is not None and cache_seqlens is None:
        raise ValueError("cache_seqlens is None, with new keys it must say behind which keys they go")
    if block_table is None:  # each cache is one page
        rows = torch.arange(len(q), device=q.device) if cache_batch_idx is None else cache_batch_idx
        block_table = rows[:, None]
    elif cache_batch_idx is not None:
        block_table = block_table[cache_batch_idx]
    if cache_seqlens is None:
        cache_seqlens = block_table.shape[1] * k_cache.shape[1]
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes, num_splits)
    masked = options["causal"] or options["window"] is not None
    if rotary_cos is not None:
        positions = max(k.shape[1], q.shape[1] if masked else 1)
        check_rotary(q, rotary_cos, rotary_sin, cache_seqlens, positions)
    if not isinstance(cache_seqlens, torch.Tensor):
        cache_seqlens = torch.full((len(q),), int(cache_seqlens), dtype=torch.int32, device=q.device)
    if rotary_cos is not None:
        turn = rotary_cos, rotary_sin, rotary_interleaved
        q = _turned(q, cache_seqlens, q.shape[1] if masked else 1, *turn)
        k = _turned(k, cache_seqlens, k.shape[1], *turn)
    if cache_leftpad is not None:
        block_table = _behind_padding(k_cache, v_cache, block_table, cache_leftpad)
        k_cache, v_cache = (cache.view(-1, 1, *cache.shape[2:]) for cache in (k_cache, v_cache))
        cache_seqlens = cache_seqlens - cache_leftpad
    if k is not None:
        k, v = k.transpose(1, 2), v.transpose(1, 2)
    try:
        with torch.no_grad():
            out, lse = attention_paged(
                *(q.transpose(1, 2), k_cache, v_cache, block_table, cache_seqlens),
                **options,
                k_new=k,
                v_new=v,
                splits=num_splits or None,
                return_lse=True,
            )
    except (TypeError, ValueError):
        check_what_goes_with(q, k_cache, given, index)  # which says so by the names that it has here
        raise
    out = out.transpose(1, 2)
    return (out, lse) if return_softmax_lse else out


def _packed_over_pages(q, k, v, block_table, cu_seqlens_q, cu_seqlens_k, longest: int, options: dict):
    """(O, lse) as `attention_varlen` returns them, of keys in pages.

    Sequences are laid side by side, each at the end of `longest` rows, as their last queries stand at the
    last keys; rows without a query are a query that is there, and are not read. Queries for which longest is
    too small are NaN, where nobody looked at numbers on a GPU.
    """
    batch, packed, longest = len(cu_seqlens_q) - 1, torch.arange(len(q), device=q.device), int(longest)
    ends = cu_seqlens_q[1:].long().contiguous()
    rows = (ends[:, None] - longest + torch.arange(longest, device=q.device)).clamp(0, max(len(q) - 1, 0))
    sequence = torch.searchsorted(ends, packed, right=True).clamp(max=batch - 1)
    row = packed - ends[sequence] + longest
    with torch.no_grad():
        out, lse = attention_paged(
            *(q[rows].transpose(1, 2), k, v, block_table, cu_seqlens_k.diff()), **options, return_lse=True
        )
    out, lse = (each[sequence, :, row.clamp(0, longest - 1)] for each in (out, lse))
    past, left_out = row >= longest, row < 0  # the last sequence's end; what longest is too small for
    out = out.masked_fill(past[:, None, None], 0).masked_fill(left_out[:, None, None], torch.nan)
    lse = lse.masked_fill(past[:, None], -torch.inf).masked_fill(left_out[:, None], torch.nan)
    return out, lse.t()


def _turned(x, lengths, positions: int, cos, sin, adjacent: bool) -> torch.Tensor:
    """x, [batch, sequence, heads, head_dim], in rotary embedding (arXiv 2104.09864) from lengths on.

    NaN past the last position of the table, where nobody looked at lengths on a GPU.
    """
    at = lengths.long()[:, None] + torch.arange(positions, device=x.device)
    inside = ((at >= 0) & (at < len(cos)))[..., None, None]
    cos, sin = (each[at.clamp(0, len(each) - 1)][:, :, None].float() for each in (cos, sin))
    cos = torch.where(inside, cos, torch.nan)
    columns, rest = x.tensor_split([2 * cos.shape[-1]], dim=-1)
    first, second = columns.unflatten(-1, (-1, 2)).unbind(-1) if adjacent else columns.chunk(2, -1)
    pair = first * cos - second * sin, second * cos + first * sin
    turned = torch.stack(pair, -1).flatten(-2) if adjacent else torch.cat(pair, -1)
    return torch.cat([turned.to(x.dtype), rest], -1)


def _behind_padding(k_cache, v_cache, block_table, leftpad) -> torch.Tensor:
    """A table of single keys, int64 [batch, keys], that begins behind the padding of every sequence."""
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        if len(cache) > 1 and cache.stride(0) != cache.shape[1] * cache.stride(1):
            raise ValueError(f"{name} has gaps between its rows, with cache_leftpad it must have none")
    page, room = k_cache.shape[1], block_table.shape[1] * k_cache.shape[1]
    keys = (torch.arange(room, device=k_cache.device) + leftpad.long()[:, None]).clamp(max=room - 1)
    return block_table.long().gather(1, keys // page) * page + keys % page


def _refuse_dropout(dropout_p) -> None:
    if dropout_p:
        raise ValueError(f"dropout_p is {dropout_p}, it must be 0: these kernels drop nothing")


def _in_order(deterministic) -> dict:
    """Whose backward pass sums dQ in one order, where that is asked for and there may be one."""
    return {"algorithm": "flash2"} if deterministic and torch.is_grad_enabled() else {}


def _options(softmax_scale, causal, window_size, softcap, alibi_slopes, num_splits=0) -> dict:
    """The same as `attention` takes it."""
    if isinstance(window_size, torch.Tensor):  # as that library's own tests give it
        window_size = window_size.tolist()
    check_sides(window_size)
    check_scale_and_splits(softmax_scale, num_splits)
    left, right = window_size
    left, right = None if left < 0 else int(left), None if right < 0 else int(right)
    return {
        "scale": softmax_scale,
        "causal": flag("causal", causal),
        "window": None if left is right is None else (left, right),
        "softcap": softcap or None,
        "alibi_slopes": alibi_slopes,
    }

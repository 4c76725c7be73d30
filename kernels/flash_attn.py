"""The functions of the library flash_attn, by its names and signatures, on these kernels.

`from kernels.flash_attn import flash_attn_func` serves code that was written for that library. Tensors are
[batch, sequence, heads, head_dim] here, or [tokens, heads, head_dim] where packed, and a window's side of -1
is without end. What is not served is refused in one sentence. return_attn_probs returns (out, lse, None).
Where q, k and v, or k and v, come as one tensor, the other arguments are those of the function without.
"""

import math

import torch

from kernels.call.arguments import DTYPES, MAX_SPLITS
from kernels.call.value_checks import (
    at_hand,
    check_at_least_0,
    check_edges,
    check_index,
    check_layout,
    check_layouts,
    flag,
    must,
    positive,
    said,
    shown,
    whole,
)
from kernels.dense import attention
from kernels.paged import attention_paged
from kernels.tilings.flash2 import MAX_HEAD_DIM
from kernels.varlen import attention_varlen

DENSE, PACKED = "[batch, sequence, heads, head_dim]", "[tokens, heads, head_dim]"
CACHE, ROTARY = "[batch or pages, sequence, kv_heads, head_dim]", "[positions, pairs]"
STARTS, TABLE = "[sequences + 1]", "[batch, pages per sequence]"
SPLITS = f"a whole number from 0 to {MAX_SPLITS}"


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
    check_layouts(DENSE, q=q, k=k, v=v)
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes, dropout_p)
    options |= _in_order(deterministic)
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
    if isinstance(alibi_slopes, torch.Tensor) and alibi_slopes.dim() == 2:
        raise ValueError("alibi_slopes has two dimensions, packed sequences must share one slope a head")
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes, dropout_p)
    if block_table is None:
        options |= _in_order(deterministic)
        out, lse = attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, **options, return_lse=True)
    else:
        edges = cu_seqlens_q, cu_seqlens_k, max_seqlen_q
        _check_packed_over_pages(q, k, v, block_table, *edges)
        out, lse = _packed_over_pages(q, k, v, block_table, *edges, options)
    return (out, lse, None) if return_attn_probs else out


def flash_attn_qkvpacked_func(qkv, *given, **named):
    """`flash_attn_func` of q, k and v in one tensor, [batch, sequence, 3, heads, head_dim]."""
    return flash_attn_func(*_parted("qkv", qkv, "[batch, sequence, 3, heads, head_dim]"), *given, **named)


def flash_attn_kvpacked_func(q, kv, *given, **named):
    """`flash_attn_func` of k and v in one tensor, [batch, sequence, 2, kv_heads, head_dim]."""
    k, v = _parted("kv", kv, "[batch, sequence, 2, kv_heads, head_dim]", q)
    return flash_attn_func(q, k, v, *given, **named)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, *given, **named):
    """`flash_attn_varlen_func` of q, k and v in one tensor, [tokens, 3, heads, head_dim]."""
    q, k, v = _parted("qkv", qkv, "[tokens, 3, heads, head_dim]")
    check_index("cu_seqlens", cu_seqlens, STARTS, q.device)
    if len(cu_seqlens) < 2:
        raise ValueError(f"cu_seqlens has {len(cu_seqlens)} numbers, it must have at least 2")
    check_edges("cu_seqlens", cu_seqlens, len(q))
    edges = cu_seqlens, cu_seqlens, max_seqlen, max_seqlen
    return flash_attn_varlen_func(q, k, v, *edges, *given, **named)


def flash_attn_varlen_kvpacked_func(q, kv, *given, **named):
    """`flash_attn_varlen_func` of k and v in one tensor, [tokens, 2, kv_heads, head_dim]."""
    k, v = _parted("kv", kv, "[tokens, 2, kv_heads, head_dim]", q)
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
    _check_with_cache(q, k_cache, v_cache, cache_seqlens, given, index)
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
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes)
    must(whole(num_splits, 0) and num_splits <= MAX_SPLITS, "num_splits", num_splits, SPLITS)
    masked = options["causal"] or options["window"] is not None
    if rotary_cos is not None:
        positions = max(k.shape[1], q.shape[1] if masked else 1)
        _check_rotary(q, rotary_cos, rotary_sin, cache_seqlens, positions)
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
        _check_what_goes_with(q, k_cache, given, index)  # which says so by the names that it has here
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


def _in_order(deterministic) -> dict:
    """Whose backward pass sums dQ in one order, where that is asked for and there may be one."""
    return {"algorithm": "flash2"} if deterministic and torch.is_grad_enabled() else {}


def _options(softmax_scale, causal, window_size, softcap, alibi_slopes, dropout_p=0.0) -> dict:
    """The same as `attention` takes it."""
    if dropout_p:
        must(False, "dropout_p", dropout_p, "0: these kernels drop nothing")
    if isinstance(window_size, torch.Tensor):  # as that library's own tests give it
        window_size = window_size.tolist()
    pair = isinstance(window_size, tuple | list) and len(window_size) == 2
    left, right = window_size if pair else (None, None)
    whole_sides = whole(left, -math.inf) and whole(right, -math.inf)
    must(whole_sides, "window_size", window_size, "two whole numbers of keys, -1 being without end")
    if softmax_scale is not None:
        must(positive(softmax_scale), "softmax_scale", softmax_scale, "a finite number above 0")
    left, right = None if left < 0 else int(left), None if right < 0 else int(right)
    return {
        "scale": softmax_scale,
        "causal": flag("causal", causal),
        "window": None if left is right is None else (left, right),
        "softcap": softcap or None,
        "alibi_slopes": alibi_slopes,
    }


def _check_packed_over_pages(q, k, v, block_table, cu_seqlens_q, cu_seqlens_k, longest) -> None:
    """A sentence for packed queries that cannot be laid side by side over pages."""
    check_layouts(PACKED, q=q)
    check_layouts(CACHE, k=k, v=v)
    check_index("block_table", block_table, TABLE, q.device)
    for name, edges, most in (("cu_seqlens_q", cu_seqlens_q, len(q)), ("cu_seqlens_k", cu_seqlens_k, None)):
        check_index(name, edges, STARTS, q.device)
        if len(edges) != len(block_table) + 1:
            raise ValueError(
                f"{name} has {len(edges)} numbers, it must have one more than block_table, {len(block_table)}"
            )
        check_edges(name, edges, most)
    must(whole(longest, 1), "max_seqlen_q", longest, "a whole number, at least 1")
    if at_hand(cu_seqlens_q):
        most = int(cu_seqlens_q.diff().max())
        must(most <= longest, "max_seqlen_q", longest, f"at least that of the longest sequence, {most}")


def _check_with_cache(q, k_cache, v_cache, lengths, given: dict, index: dict) -> None:
    """A sentence for queries, a cache, what is given with them and what is looked up that do not fit."""
    check_layout("q", q, DENSE)
    check_layout("k_cache", k_cache, CACHE)
    check_layout("v_cache", v_cache, CACHE)
    for name, tensor in given.items():
        if tensor is not None:
            check_layout(name, tensor, ROTARY if name.startswith("rotary") else DENSE)
    for name, tensor in index.items():
        if tensor is not None:
            what = (TABLE, q.device) if name == "block_table" else ("[batch]", q.device, len(q))
            check_index(name, tensor, *what)
    if whole(lengths, -math.inf):
        must(0 <= lengths < 2**31, "cache_seqlens", lengths, f"from 0 to {2**31 - 1}")
    elif lengths is not None:
        check_index("cache_seqlens", lengths, "[batch]", q.device, len(q))
        check_at_least_0("cache_seqlens", lengths)
    rows, leftpad = index["cache_batch_idx"], index["cache_leftpad"]
    if rows is not None and at_hand(rows):
        most = len(k_cache if index["block_table"] is None else index["block_table"])
        if rows.min() < 0 or rows.max() >= most:
            raise ValueError(f"cache_batch_idx is {shown(rows)}, each must be from 0 to {most - 1}")
    if leftpad is not None and at_hand(leftpad):
        room = k_cache.shape[1] * (1 if index["block_table"] is None else index["block_table"].shape[1])
        held = room if lengths is None else lengths
        if (leftpad < 0).any() or (leftpad > held).any():
            raise ValueError(
                f"cache_leftpad is {shown(leftpad)}, each must be from 0 to its cache's keys, {shown(held)}"
            )


def _check_rotary(q, cos, sin, lengths, positions: int) -> None:
    """A sentence for tables that do not hold the angles of so many positions behind the caches' keys."""
    pairs = q.shape[-1] // 2
    for name, table in (("rotary_cos", cos), ("rotary_sin", sin)):
        if table.shape != cos.shape or not 1 <= table.shape[1] <= pairs or not table.is_floating_point():
            dtype, shape = str(table.dtype).removeprefix("torch."), tuple(table.shape)
            raise ValueError(
                f"{name} is {dtype} {shape}, it must be floating-point {ROTARY}, of 1 to {pairs} pairs, and"
                " as the other"
            )
        if table.device != q.device:
            raise ValueError(f"{name} is on {table.device} and q on {q.device}, they must be on one device")
    longest = lengths if whole(lengths, 0) else lengths.max() if at_hand(lengths) else None
    if longest is not None and longest + positions > len(cos):
        raise ValueError(
            f"rotary_cos has {len(cos)} positions, it must have those of the longest sequence with what is"
            f" new, {longest + positions}"
        )


def _check_what_goes_with(q, k_cache, given: dict, index: dict) -> None:
    """A sentence for new keys, or rows of a cache, that do not go with it."""
    kv_heads, head_dim = k_cache.shape[2:]
    k, v = given["k"], given["v"]
    for name, tensor in (("k", k), ("v", v)):
        alike = tensor is None or (
            (len(tensor), *tensor.shape[2:]) == (len(q), kv_heads, head_dim)
            and 0 < tensor.shape[1] == k.shape[1]
            and (tensor.dtype, tensor.device) == (k_cache.dtype, k_cache.device)
        )
        if not alike:
            wanted = f"[{len(q)}, seq_new, {kv_heads}, {head_dim}] of k_cache's dtype, k and v alike"
            raise ValueError(f"{name} is {said(tensor)}, it must be {wanted}")
    if index["block_table"] is index["cache_batch_idx"] is None and len(k_cache) < len(q):
        raise ValueError(f"k_cache has {len(k_cache)} rows, it must have one for each of {len(q)} sequences")


def _parted(name: str, tensor, layout: str, q=None) -> tuple[torch.Tensor, ...]:
    """q, k and v, or k and v that go with q, of one tensor; a sentence for one that is none."""
    check_layout(name, tensor, layout)
    if tensor.shape[-3] != (3 if q is None else 2):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, it must be {layout}")
    if q is None:
        if tensor.dtype not in DTYPES or not 1 <= tensor.shape[-1] <= MAX_HEAD_DIM or not tensor.numel():
            raise ValueError(
                f"{name} is {said(tensor)}, it must be float32, float16 or bfloat16, of a head_dim up to"
                f" {MAX_HEAD_DIM} and no size 0"
            )
    elif isinstance(q, torch.Tensor) and q.dim() == tensor.dim() - 1:
        heads, head_dim = q.shape[-2:]
        kv_heads, width = tensor.shape[-2:]
        batches = q.dim() == 3 or len(q) == len(tensor)
        alike = (q.device, head_dim) == (tensor.device, width) and kv_heads and heads % kv_heads == 0
        alike = alike and (q.dtype == tensor.dtype or torch.is_autocast_enabled(q.device.type))
        if not (alike and batches):
            raise ValueError(f"{name} is {said(tensor)}, which does not go with q, {said(q)}")
    return tensor.unbind(-3)

"""The functions of the library flash_attn, by its names and signatures, on these kernels.

`from kernels.flash_attn import flash_attn_func` serves code that was written for that library. Tensors are
[batch, sequence, heads, head_dim] here, or [tokens, heads, head_dim] where packed, and a window's side of -1
is without end. What is not served is refused in one sentence. return_attn_probs returns (out, lse, None).
"""

import torch

from kernels.attention import attention
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
    _refuse(dropout_p=dropout_p)
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes)
    heads_first = [tensor.transpose(1, 2) for tensor in (q, k, v)]
    if deterministic and torch.is_grad_enabled():  # of its two backward passes flash2's sums dQ in one order
        options["algorithm"] = "flash2"
    out, lse = attention(*heads_first, **options, return_lse=True)
    out = out.transpose(1, 2)
    return (out, lse, None) if return_attn_probs else out


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
    """O [queries, heads, head_dim of v], of packed sequences; deterministic always.

    With block_table, int32 [sequences, pages per sequence], k and v are pages as `flash_attn_with_kvcache`
    takes them, and there are no gradients. max_seqlen_q is needed there alone, max_seqlen_k nowhere.
    """
    _refuse(dropout_p=dropout_p)
    if alibi_slopes is not None and alibi_slopes.dim() == 2:
        raise ValueError("alibi_slopes has two dimensions, packed sequences must share one slope a head")
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes)
    if block_table is None:
        out, lse = attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, **options, return_lse=True)
    else:
        edges = cu_seqlens_q, cu_seqlens_k, max_seqlen_q
        out, lse = _packed_over_pages(q, k, v, block_table, *edges, options)
    return (out, lse, None) if return_attn_probs else out


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
    """
    _refuse(rotary_cos=rotary_cos, rotary_sin=rotary_sin, cache_leftpad=cache_leftpad)
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
    if isinstance(cache_seqlens, int):
        cache_seqlens = torch.full((len(q),), cache_seqlens, dtype=torch.int32, device=q.device)
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes)
    k, v = (None if new is None else new.transpose(1, 2) for new in (k, v))
    with torch.no_grad():
        out, lse = attention_paged(
            *(q.transpose(1, 2), k_cache, v_cache, block_table, cache_seqlens),
            **options,
            k_new=k,
            v_new=v,
            splits=num_splits or None,
            return_lse=True,
        )
    out = out.transpose(1, 2)
    return (out, lse) if return_softmax_lse else out


def _packed_over_pages(q, k, v, block_table, cu_seqlens_q, cu_seqlens_k, longest: int, options: dict):
    """(O, lse) as `attention_varlen` returns them, of keys in pages.

    Sequences are laid side by side, each at the end of `longest` rows, as their last queries stand at the
    last keys; rows without a query are a query that is there, and are not read.
    """
    batch, packed = len(cu_seqlens_q) - 1, torch.arange(len(q), device=q.device)
    ends = cu_seqlens_q[1:].long()
    rows = (ends[:, None] - longest + torch.arange(longest, device=q.device)).clamp(0, max(len(q) - 1, 0))
    sequence = torch.searchsorted(ends, packed, right=True).clamp(max=batch - 1)
    row = (packed - ends[sequence] + longest).clamp(0, longest - 1)
    with torch.no_grad():
        out, lse = attention_paged(
            *(q[rows].transpose(1, 2), k, v, block_table, cu_seqlens_k.diff()), **options, return_lse=True
        )
    return out[sequence, :, row], lse[sequence, :, row].t()


def _refuse(**arguments) -> None:
    """ValueError for the first that is given, unless it is 0."""
    for name, value in arguments.items():
        if value is not None and not (isinstance(value, int | float) and value == 0):
            wanted = "0: these kernels drop nothing" if name == "dropout_p" else "None: it is not served here"
            shown = value if isinstance(value, int | float) else "given"
            raise ValueError(f"{name} is {shown}, it must be {wanted}")


def _options(softmax_scale, causal, window_size, softcap, alibi_slopes) -> dict:
    """The same as `attention` takes it."""
    left, right = (None if side < 0 else int(side) for side in window_size)
    return {
        "scale": softmax_scale,
        "causal": bool(causal),
        "window": None if left is right is None else (left, right),
        "softcap": softcap or None,
        "alibi_slopes": alibi_slopes,
    }

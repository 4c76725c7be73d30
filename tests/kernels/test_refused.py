"""What no face serves is refused in one sentence: the argument, the value, what it must be."""

import numpy as np
import pytest
import torch
from attention_cases import ON_CPU
from torch import tensor, zeros

from kernels import (
    attention,
    attention_fp8,
    attention_paged,
    attention_selected,
    attention_varlen,
    probe_attention,
    reference_attention,
)
from kernels import flash_attn as library

pytestmark = ON_CPU  # on a GPU, numbers on the GPU are not waited for
SHAPE, HALF, INT = (1, 2, 16, 16), torch.float16, torch.int32
Q, FP8 = dict.fromkeys("qkv", zeros(SHAPE)), dict.fromkeys("qkv", zeros(1, 2, 64, 64, dtype=HALF))
ONE, CACHE, EDGES, POOL = zeros(2, 1, 4, 16), zeros(2, 32, 2, 16), tensor([0, 1, 2]), zeros(3, 16, 2, 16)
TURN, KV = zeros(4, 4), dict.fromkeys("kv", CACHE[:, :1])
GRADIENT = zeros(2, 4, 1, 16, requires_grad=True)
GIVEN = {  # a call of each kind that is served
    attention: Q,
    probe_attention: Q,
    reference_attention: Q,
    attention_fp8: FP8,
    attention_varlen: dict.fromkeys("qkv", zeros(5, 2, 16))
    | dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k"), tensor([0, 5])),
    attention_paged: {"q": zeros(2, 4, 1, 16), "k_cache": POOL, "v_cache": POOL}
    | {"block_table": zeros(2, 4, dtype=INT), "seqlens_k": zeros(2, dtype=INT)},
    attention_selected: {"q": zeros(1, 4, 4, 16)}
    | dict.fromkeys("kv", zeros(1, 2, 40, 16))
    | {"blocks": zeros(1, 2, 4, 2, dtype=INT), "block_kv": 16},
    library.flash_attn_func: dict.fromkeys("qkv", zeros(1, 4, 2, 16)),
    library.flash_attn_qkvpacked_func: {"qkv": zeros(1, 4, 3, 2, 16)},
    library.flash_attn_kvpacked_func: {"q": ONE, "kv": zeros(2, 4, 2, 2, 16)},
    library.flash_attn_varlen_qkvpacked_func: {"qkv": zeros(5, 3, 2, 16)}
    | {"cu_seqlens": tensor([0, 5]), "max_seqlen": 5},
    library.flash_attn_varlen_func: {"q": zeros(2, 2, 16), "k": CACHE, "v": CACHE, "max_seqlen_k": 1}
    | {"block_table": tensor([[0], [1]]), "max_seqlen_q": 1}
    | dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k"), EDGES),
    library.flash_attn_with_kvcache: {"q": ONE, "k_cache": CACHE, "v_cache": CACHE}
    | {"cache_seqlens": tensor([3, 4])},
}
ANY = [  # of attention and its probe alike
    ({"q": [1.0]}, "q is a list, it must be a torch.Tensor"),
    ({"q": zeros(2, 16, 16)}, "q has shape (2, 16, 16), it must be [batch, heads, sequence, head_dim]"),
    ({"k": zeros(1, 2, 0, 16)}, "k has shape (1, 2, 0, 16), every size must be at least 1"),
    ({"q": zeros(SHAPE, dtype=torch.int64)}, "q is int64, it must be float32, float16, bfloat16"),
    ({"q": zeros(SHAPE, dtype=torch.float64)}, "q is float64, it must be float32, float16, bfloat16"),
    ({"k": zeros(1, 2, 16, 257)}, "k has head_dim 257, it must be at most 256"),
    ({"k": zeros(SHAPE, dtype=HALF)}, "k is float16 and q is float32, they must be alike"),
    ({"v": zeros(SHAPE, device="meta")}, "v is on meta and q on cpu, they must be on one device"),
    ({"k": zeros(2, 2, 16, 16)}, "k has shape (2, 2, 16, 16), its batch and head_dim must be q's, 1 and 16"),
    ({"v": zeros(1, 2, 17, 16)}, "v has shape (1, 2, 17, 16), it must be [1, 2, 16, head_dim] as k has"),
    ({"q": zeros(1, 3, 16, 16)}, "q has 3 heads, which must be a multiple of the 2 heads of k and v"),
    ({"q": zeros(SHAPE).to_sparse()}, "q is sparse or nested, it must be a tensor"),
    ({"causal": "False"}, "causal is 'False', it must be True or False"),
    ({"causal": np.array([1, 0])}, "causal is array([1, 0]), it must be True or False"),
    ({"scale": zeros(SHAPE)}, "scale is a Tensor, it must be a finite number above 0"),
    *(({"window": each}, f"window is {each}, it must be None or a whole number of keys, at least 1")
      for each in (0, 2.5, True)),
    *(({"scale": each}, f"scale is {each!r}, it must be a finite number above 0")
      for each in (0, float("nan"), "1")),
    *(({"block_q": each}, f"block_q is {each}, it must be a power of two from 16 to 1024")
      for each in (48, 8)),
    *(({"block_kv": each}, f"block_kv is {each}, it must be a power of two") for each in (2048, 64.0)),
    ({"window": (1, -2)}, "window is (1, -2), a pair must be of keys before and after: whole numbers or"),
    ({"window": (1, 2, 3)}, "window is (1, 2, 3), a pair must be of keys before and after"),
    ({"documents": [30, 5]}, "documents is [30, 5], it must be a list of lengths that add up to k's 16 keys"),
    ({"documents": [19, -3]}, "documents is [19, -3], it must be a list of lengths"),
    ({"documents": 3}, "documents is 3, it must be a list of lengths"),
    ({"prefix": -1}, "prefix is -1, it must be None or a whole number of keys"),
    ({"prefix": 3, "window": 9}, "prefix is 3, it must be None with a window or documents"),
    ({"softcap": 0}, "softcap is 0, it must be None or a finite number above 0"),
    ({"sinks": 1.0}, "sinks is a float, it must be a torch.Tensor"),
    ({"sinks": zeros(3)}, "sinks is float32 (3,) on cpu, it must be floating-point, [2], on cpu"),
    ({"alibi_slopes": zeros(2, 3)}, "it must be floating-point, [2] or [1, 2], on cpu"),
    ({"alibi_slopes": zeros(2, requires_grad=True)}, "alibi_slopes requires grad, it must not"),
]  # fmt: skip
KEYS = {name: zeros(2, 2, 1, 16) for name in ("k_new", "v_new")}
REFUSED = {
    attention: [
        *ANY,
        (dict.fromkeys("qkv", zeros(SHAPE, device="meta")), "q is on meta, it must be on a CUDA device"),
        (dict.fromkeys("kv", zeros(1, 2, 1, 16).expand(1, 2, 65537, 16)) | {"algorithm": "standard"},
         "k has 65537 keys, standard holds a row of S whole and takes at most 65536"),
        ({"algorithm": "flash9"}, "algorithm is 'flash9', it must be one of auto, standard, flash1, flash2,"),
        ({"v": zeros(1, 2, 16, 513)}, "v has head_dim 513, it must be at most 512"),
        (dict.fromkeys("qk", zeros(1, 2, 16, 65)) | {"v": zeros(1, 2, 16, 257)},
         "v has head_dim 257, it must be at most 256 where q's is above 64, 65: O and dV would not"),
        ({"algorithm": "flash3", "block_q": 64}, "block_q is 64, it must be None with algorithm 'flash3'"),
        *(({"algorithm": name, "k": zeros(SHAPE, requires_grad=True)},
           f"algorithm is '{name}' and k requires grad, it must be one of auto,")
          for name in ("standard", "flash1")),
        ({"algorithm": "flash3"}, "algorithm is 'flash3', which does not serve this call: flash3"),
        *(({"algorithm": "split_kv", "splits": each}, f"splits is {each}, it must be None or a whole number")
          for each in (0, 2.0)),
        ({"splits": 4}, "splits is 4, it must be None with algorithm 'auto': only split_kv splits"),
        ({"sofcap": 3}, "sofcap is no option here, it must be one of causal, window, scale, "),
        *((FP8 | {"algorithm": "fp8"} | given, sentence) for given, sentence in (
            ({"window": 3}, "fp8 takes causal alone"), ({"softcap": 30.0}, "takes causal alone"),
            ({"block_q": 64}, "its blocks are its own"), ({"splits": 2}, "only split_kv splits"),
            ({"k": zeros(1, 2, 64, 64, dtype=HALF, requires_grad=True)},
             "'fp8' and k requires grad, it must be one of"))),
    ],
    probe_attention: [
        *ANY,
        *(({"algorithm": name}, f"algorithm is '{name}', which has no probe: it must")
          for name in ("flash3", "fp8", "split_kv")),
        ({"splits": 3}, "splits is no option here, it must be one of causal, window, scale, "),
    ],
    reference_attention: [
        ({"q": 1}, "q is an int, it must be a torch.Tensor"),
        ({"v": zeros(2, 2)}, "v has shape (2, 2), it must be [batch, heads,"),
        ({"k": zeros(1, 2, 16, 8)}, "q, k and v have shapes (1, 2, 16, 16), (1, 2, 16, 8), (1, 2,"),
        ({"documents": [3]}, "documents is [3], it must be a list of lengths that add up to k's 16"),
        ({"window": "x"}, "window is 'x', it must be None or a whole number"),
    ],
    attention_fp8: [
        ({"scales": "row"}, "scales is 'row', it must be one of block, tensor"),
        ({}, "attention_fp8 does not serve this call: fp8 is written in Gluon"),
    ],
    attention_varlen: [
        ({"q": zeros(1, 4, 8, 16)}, "q has shape (1, 4, 8, 16), it must be [tok"),
        ({"cu_seqlens_q": [0, 5]}, "cu_seqlens_q is [0, 5], it must be int32 or int64 [sequences + 1] on"),
        ({"cu_seqlens_k": tensor([0.0, 5.0])}, "cu_seqlens_k is float32 (2,) on cpu, it must be int32"),
        ({"cu_seqlens_k": tensor([0, 2, 5])}, "cu_seqlens_q and cu_seqlens_k have 2 and 3 numbers"),
        ({"cu_seqlens_k": tensor([0, 6])}, "cu_seqlens_k is tensor([0, 6]), it must rise from 0 to at"),
        *(({"cu_seqlens_q": tensor([each, 0])}, f"cu_seqlens_q is tensor([{each}, 0]), it must rise from 0")
          for each in (5, -1, 2**32)),
        ({"causal": "yes"}, "causal is 'yes', it must be True or False"),
    ],
    attention_paged: [
        ({"k_cache": [1]}, "k_cache is a list, it must be a torch.Tensor"),
        ({"v_cache": zeros(3, 16, 16)}, "v_cache has shape (3, 16, 16), it must be [pages, page_size,"),
        ({"v_cache": zeros(4, 16, 2, 16)}, "v_cache has shape (4, 16, 2, 16), it must be k_cache's"),
        ({"k_cache": POOL.half()}, "k_cache is torch.float16 of head_dim 16 on cpu, it"),
        ({"q": zeros(2, 3, 1, 16)}, "q has 3 heads, which must be a multiple of the cache's 2"),
        ({"block_table": zeros(2, 4)}, "block_table is float32 (2, 4) on cpu, it must be int32 or"),
        ({"seqlens_k": zeros(3, dtype=INT)}, "seqlens_k has shape (3,), it must have one for each of 2"),
        ({"k_new": KEYS["k_new"]}, "k_new and v_new must be given both, or neither"),
        (dict.fromkeys(KEYS, zeros(2, 1, 1, 16)), "k_new has shape (2, 1,"),
        *((KEYS | {name: POOL[:1].expand(3, -1, -1, -1)}, f"{name} is expanded, no keys can be written there")
          for name in ("k_cache", "v_cache")),
        (KEYS | {"k_cache": torch._neg_view(POOL)}, "k_cache or v_cache is lazily negated, no keys can be"),
        ({"q": GRADIENT}, "q requires grad, a cache in pages has no"),
        ({"v_cache": POOL.clone().requires_grad_()}, "v_cache requires grad, a cache in pages"),
        ({"sinks": [0.0]}, "sinks is a list, it must be a torch.Tensor"),
        ({"sinks": zeros(4, requires_grad=True)}, "sinks requires grad, a cache in pages has no"),
        (dict.fromkeys(KEYS, KEYS["k_new"].clone().requires_grad_()), "k_new requires"),
        ({"splits": 0}, "splits is 0, it must be None or a whole number from 1 to 1024"),
        ({"window": -1}, "window is -1, it must be None or a whole number of keys"),
        ({"causal": "no"}, "causal is 'no', it must be True or False"),
        ({"k_cache": POOL.to_sparse()}, "k_cache is sparse or nested, it must be"),
        ({"seqlens_k": tensor([3, -1])}, "seqlens_k holds -1, every number must be at least 0"),
        *(({"block_table": torch.full((2, 4), each), "seqlens_k": tensor([1, 1])}, "block_table names")
          for each in (3, -1, 2**32)),
        ({"softcap": 0}, "softcap is 0, it must be None or a finite number above 0"),
    ],
    attention_selected: [
        ({"blocks": zeros(1, 2, 4, 2)}, "blocks is float32"),
        ({"blocks": zeros(1, 1, 4, 2, dtype=INT)}, "must be [1, 2, 4, chosen]"),
        ({"blocks": torch.full((1, 2, 4, 2), 3)}, "blocks names block 3, it must be below 3"),
        ({"block_q": 0}, "block_q is 0, it must be a whole number"),
        ({"block_kv": 24}, "block_kv is 24, it must be a power of two"),
        ({"scale": -1.0}, "scale is -1.0"),
        ({"v": zeros(1, 2, 40, 512)}, "head_dim 16 and 512"),
        ({"q": zeros(1, 4, 4, 16, requires_grad=True)}, "q requires grad, attention_selected has no"),
    ],
    library.flash_attn_func: [
        ({"dropout_p": 0.1}, "dropout_p is 0.1, it must be 0: these kernels drop nothing"),
        ({"alibi_slopes": [1.0]}, "alibi_slopes is a list, it must be a torch.Tensor"),
    ],
    library.flash_attn_qkvpacked_func: [
        ({"qkv": ONE}, "qkv has shape (2, 1, 4, 16), it must be [batch, sequence, 3,"),
        ({"qkv": zeros(1, 4, 3, 2, 16).double()}, "qkv is float64"),
    ],
    library.flash_attn_kvpacked_func: [({"kv": zeros(2, 4, 2, 2, 8)}, "kv is ")],
    library.flash_attn_varlen_qkvpacked_func: [({"cu_seqlens": tensor([3, 5])}, "it must rise from 0")],
    library.flash_attn_varlen_func: [
        ({"q": [1]}, "q is a list, it must be a torch.Tensor"),
        ({"cu_seqlens_q": tensor([0, 1])}, "cu_seqlens_q has 2 numbers, it must have one more than"),
        ({"cu_seqlens_q": tensor([0, 2, 2])}, "max_seqlen_q is 1, it must be at least that of the longest"),
        ({"max_seqlen_q": None}, "max_seqlen_q is None, it must be a whole number, at least 1"),
        ({"alibi_slopes": 1.0}, "alibi_slopes is a float, it must be a torch.Tensor"),
    ],
    library.flash_attn_with_kvcache: [
        ({"q": None}, "q is a NoneType, it must be a torch.Tensor"),
        ({"v_cache": zeros(2, 8)}, "v_cache has shape (2, 8), it must be [batch or pages, sequence,"),
        ({"k": 0}, "k is an int, it must be a torch.Tensor"),
        ({"cache_seqlens": 1.5}, "cache_seqlens is 1.5, it must be int32 or int64 [batch] on q's device"),
        ({"cache_seqlens": -1}, "cache_seqlens is -1, it must be from 0 to 2147483647"),
        *(({name: tensor([0, each])}, f"{name} is tensor([") for each in (33, -1, 2**32 + 1)
          for name in ("cache_batch_idx", "cache_leftpad")),
        ({"cache_batch_idx": tensor([0])}, "cache_batch_idx has shape (1,), it must have one"),
        ({"cache_leftpad": 1}, "cache_leftpad is 1, it must be int32 or int64 [batch] on q's device, cpu"),
        ({"block_table": [[0, 1]]}, "block_table is [[0, 1]], it must be int32 or int64 [batch, pages"),
        ({"block_table": tensor([[0], [2]])}, "block_table names page 2, it must be from 0 to 1"),
        ({"window_size": 3}, "window_size is 3, it must be two whole numbers of keys, -1 being without end"),
        ({"causal": "no"}, "causal is 'no', it must be True or False"),
        ({"rotary_cos": zeros(1, 8)}, "rotary_cos and rotary_sin must be given both, with new keys"),
        *((KV | {"rotary_cos": cos, "rotary_sin": sin} | held, sentence) for cos, sin, held, sentence in (
            (TURN, TURN, {}, "rotary_cos has 4 positions, it must have those of"),
            (TURN, TURN, {"cache_seqlens": 4}, "rotary_cos has 4 positions, it must have those of"),
            (TURN, TURN[:, :3], {}, "rotary_sin is float32 (4, 3), it must be floating-point"),
            (*(TURN.repeat(1, 3),) * 2, {}, "rotary_cos is float32 (4, 12), it must be floating-point"),
            (*(TURN.int(),) * 2, {}, "rotary_cos is int32 (4, 4), it must be floating-point"))),
        ({"v_cache": CACHE[:, :16], "cache_leftpad": zeros(2, dtype=INT)}, "v_cache has gaps between its"),
        ({"softmax_scale": -1.0}, "softmax_scale is -1.0, it must be a finite number above 0"),
        ({"num_splits": 5000}, "num_splits is 5000, it must be a whole number from 0 to 1024"),
        (dict.fromkeys("kv", CACHE[:, :1, :, :8]), "k is float32 (2, 1, 2, 8) on cpu, it must be"),
        (dict.fromkeys(("k_cache", "v_cache"), CACHE[:1]), "k_cache has 1 rows, it must have one for each"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "changed", "sentence"),
    [pytest.param(call, *each, id=each[1][:50]) for call, cases in REFUSED.items() for each in cases],
)
def test_a_bad_argument_is_named(call, changed, sentence):
    with pytest.raises((ValueError, TypeError)) as refusal:
        call(**GIVEN[call] | changed)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)

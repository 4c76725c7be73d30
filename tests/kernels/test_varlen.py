"""Packed sequences, caches of several lengths and the adapter, against float64, one sequence at a time."""

import pytest
import torch
from attention_cases import by_sequence, drawn, largest_difference

from kernels import attention, attention_varlen, flash_attn, reference_attention
from kernels.flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

HEADS, KV_HEADS, HEAD_DIM, V_DIM = 2, 1, 24, 16
LENGTHS = {  # of queries and of keys: empty ones, one token, fewer and more queries than keys
    "packed": ([0, 20, 1, 9, 3, 0, 6], [4, 20, 1, 25, 0, 0, 2]),
    "one-token": ([1], [1]),
    "padded": ([5, 12], [16, 7]),  # tokens follow that belong to no sequence
}
MASKS = {
    "none": {},
    "causal": {"causal": True},
    "window": {"window": (3, 1)},
    "all": {"window": (9, 2), "softcap": 2.0, "sinks": True, "alibi_slopes": True},
}
BLOCKS = {"block_q": 16, "block_kv": 16}


def edges(lengths, device, dtype=torch.int32):
    return torch.tensor([0, *lengths], device=device).cumsum(0).to(dtype)


def packed(lengths, dtype, device, more=0):
    queries, keys = (sum(each) + more for each in lengths)
    shapes = (queries, HEADS, HEAD_DIM), (keys, KV_HEADS, HEAD_DIM), (keys, KV_HEADS, V_DIM)
    return [drawn(*shape, dtype=dtype, seed=seed).to(device) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("lengths", "mask", "dtype", "algorithm"),
    [
        ("packed", "none", torch.float16, "flash2"),
        ("packed", "causal", torch.float32, "auto"),
        ("packed", "window", torch.bfloat16, "split_kv"),
        ("packed", "all", torch.float32, "split_kv"),
        ("one-token", "causal", torch.bfloat16, "flash2"),
        ("padded", "causal", torch.float16, "auto"),
        ("padded", "all", torch.float32, "flash1"),
        ("packed", "causal", torch.float16, "standard"),
    ],
)
def test_packed_sequences_are_attended_by_themselves(lengths, mask, dtype, algorithm, device):
    q_lengths, kv_lengths = LENGTHS[lengths]
    more = 7 if lengths == "padded" else 0
    tensors = packed((q_lengths, kv_lengths), dtype, device, more)
    arguments = dict(MASKS[mask])
    for name in ("sinks", "alibi_slopes"):
        if name in arguments:
            arguments[name] = drawn(HEADS, seed=9).abs().to(device)
    differentiated = algorithm in ("auto", "flash2", "split_kv")
    ours = [tensor.clone().requires_grad_(differentiated) for tensor in tensors]
    right = [tensor.double().requires_grad_() for tensor in tensors]
    starts = edges(q_lengths, device), edges(kv_lengths, device, torch.int64)
    out, lse = attention_varlen(*ours, *starts, **arguments, algorithm=algorithm, **BLOCKS, return_lse=True)
    exact, exact_lse = by_sequence(*(each.transpose(0, 1)[None] for each in right), starts, **arguments)
    exact, exact_lse = exact[0].transpose(0, 1), exact_lse[0]
    count = len(exact)
    eps = 4 * max(torch.finfo(dtype).eps, 1e-6)
    assert (out.dtype, lse.dtype, out.shape) == (dtype, torch.float32, (*tensors[0].shape[:2], V_DIM))
    assert largest_difference(out[:count], exact) <= eps * tensors[2].abs().max()
    assert largest_difference(lse[:, :count], exact_lse) <= (eps if algorithm == "standard" else 1e-5) * 4
    assert not out[count:].any()
    if differentiated:
        d_out = drawn(*exact.shape, seed=4).to(device)
        grads = torch.autograd.grad((out[:count] * d_out.to(dtype)).sum(), ours)
        exact_grads = torch.autograd.grad((exact * d_out).sum(), right)
        for our, expected in zip(grads, exact_grads, strict=True):
            assert largest_difference(our, expected) <= 2 * eps * max(1, expected.abs().max())


def heads_first(*tensors):
    return [tensor.transpose(1, 2) for tensor in tensors]


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ({}, {}),
        ({"causal": True, "softmax_scale": 0.3}, {"causal": True, "scale": 0.3}),
        ({"window_size": torch.tensor([3, -1]), "softcap": 2.0}, {"window": (3, None), "softcap": 2.0}),
        ({"causal": True, "window_size": (3, 5), "deterministic": True}, {"window": 4}),
    ],
)
def test_the_adapters_arguments_mean_these(asked, same, device):
    dims = HEAD_DIM, HEAD_DIM, V_DIM
    q, k, v = (
        drawn(2, 19, HEADS, columns, dtype=torch.float16, seed=seed).to(device)
        for seed, columns in enumerate(dims)
    )
    out, lse, nothing = flash_attn_func(q, k, v, **asked, return_attn_probs=True)
    expected, expected_lse = attention(*heads_first(q, k, v), **same, algorithm="flash2", return_lse=True)
    assert nothing is None
    assert out.is_contiguous()  # laid out as q, whose rows of heads lie together
    assert torch.equal(out, expected.transpose(1, 2))
    assert torch.equal(lse, expected_lse)


@pytest.mark.parametrize("packed", [False, True])
def test_who_asks_for_the_same_bits_gets_the_backward_pass_that_sums_in_one_order(packed, monkeypatch):
    taken = []
    for name in ("attention", "attention_varlen"):
        monkeypatch.setattr(
            flash_attn, name, lambda *_, **options: taken.append(options) or (torch.zeros(1, 1, 1, 1),) * 2
        )
    q = torch.zeros(4, 2, 16) if packed else torch.zeros(1, 4, 2, 16)
    call = flash_attn.flash_attn_varlen_func if packed else flash_attn.flash_attn_func
    edges = (None, None, 4, 4) if packed else ()
    for asked in (True, False):
        call(q, q, q, *edges, deterministic=asked, return_attn_probs=True)
    with torch.no_grad():
        call(q, q, q, *edges, deterministic=True, return_attn_probs=True)
    assert [options.get("algorithm") for options in taken] == ["flash2", None, None]


@pytest.mark.parametrize(("splits", "new"), [(0, 3), (2, 0)])
def test_a_cache_is_appended_to_and_read_to_its_length(splits, new, device):
    lengths = [0, 20, 37] if new == 0 else [0, 20, 34]
    q = drawn(3, 3, HEADS, HEAD_DIM, seed=1).to(device)
    caches = [drawn(3, 40, KV_HEADS, HEAD_DIM, seed=seed).to(device) for seed in (2, 3)]
    added = [drawn(3, new, KV_HEADS, HEAD_DIM, seed=seed).to(device) for seed in (4, 5)] if new else []
    expected = [cache.clone() for cache in caches]
    held = torch.tensor(lengths, dtype=torch.int32, device=device)
    out, lse = flash_attn_with_kvcache(
        q, *caches, *added, cache_seqlens=held, causal=True, num_splits=splits, return_softmax_lse=True
    )
    for i, length in enumerate(lengths):
        for cache, more in zip(expected, added, strict=False):
            cache[i, length : length + new] = more[i]
        if length + new == 0:
            assert not out[i].any()
            continue
        one = heads_first(q[i : i + 1], *(cache[i : i + 1, : length + new] for cache in expected))
        exact, exact_lse = reference_attention(*one, causal=True)
        assert largest_difference(out[i : i + 1].transpose(1, 2), exact) < 1e-5
        assert largest_difference(lse[i : i + 1], exact_lse) < 1e-5
    assert all(torch.equal(ours, right) for ours, right in zip(caches, expected, strict=True))


def turned_by_hand(x, position, angles, adjacent):
    """A row of columns, pair by pair as complex numbers."""
    x, half = x.double().clone(), len(angles)
    pairs = [(2 * i, 2 * i + 1) if adjacent else (i, half + i) for i in range(half)]
    for (i, j), angle in zip(pairs, angles, strict=True):
        number = torch.complex(x[..., i], x[..., j]) * torch.polar(torch.ones(()).double(), position * angle)
        x[..., i], x[..., j] = number.real, number.imag
    return x


@pytest.mark.parametrize(("adjacent", "page"), [(True, None), (False, 4)])
def test_new_keys_are_turned_and_padding_is_left_out(adjacent, page, device):
    """Rotary positions count from the cache's begin, padding and all; what lies in the padding is NaN."""
    held, pads, new, room = [7, 5], [3, 0], 2, 12
    angles = torch.tensor([1.0, 0.3, 0.05], dtype=torch.float64)
    steps = torch.outer(torch.arange(room, dtype=torch.float64), angles).to(device)
    q = drawn(2, new, HEADS, 16, seed=1).to(device)
    caches = [drawn(2, room, KV_HEADS, 16, seed=seed).to(device) for seed in (2, 3)]
    for cache in caches:
        cache[0, : pads[0]] = torch.nan
    added = [drawn(2, new, KV_HEADS, 16, seed=seed).to(device) for seed in (4, 5)]
    order = torch.arange(6, device=device).flip(0).view(2, 3)
    pools = [cache if page is None else torch.empty(6, page, KV_HEADS, 16, device=device) for cache in caches]
    for pool, cache in zip(pools, caches, strict=True):
        if page is not None:
            pool[order] = cache.view(2, 3, page, KV_HEADS, 16)
    lengths, leftpad = (torch.tensor(each, dtype=torch.int32, device=device) for each in (held, pads))
    out = flash_attn_with_kvcache(
        *(q, *pools, *added, steps.cos().float(), steps.sin().float(), lengths),
        cache_leftpad=leftpad,
        block_table=None if page is None else order.int(),
        causal=True,
        rotary_interleaved=adjacent,
    )
    for i, (n, pad) in enumerate(zip(held, pads, strict=True)):
        rows = [
            torch.stack([turned_by_hand(each[i, j], n + j, angles, adjacent) for j in range(new)])
            for each in (q, added[0])
        ]
        keys = torch.cat([caches[0][i, pad:n].double(), rows[1]])
        values = torch.cat([caches[1][i, pad:n], added[1][i]])
        one = heads_first(*(each[None].float() for each in (rows[0], keys, values)))
        exact, _ = reference_attention(*one, causal=True)
        assert largest_difference(out[i : i + 1].transpose(1, 2), exact) < 1e-5


def test_the_adapter_packs_over_pages(device):
    """Packed queries on keys in pages as on the same keys packed, and one query with a picked row."""
    lengths, held, page = (4, 0, 1, 20), (9, 5, 0, 33), 16
    q = drawn(sum(lengths), HEADS, HEAD_DIM).to(device)
    pools = [drawn(13, page, KV_HEADS, HEAD_DIM, seed=seed).to(device) for seed in (1, 2)]
    table = torch.arange(12, device=device).flip(0).int().view(4, 3)
    keys, values = (
        torch.cat([pool[row].flatten(0, 1)[:n] for row, n in zip(table, held, strict=True)]) for pool in pools
    )
    starts = edges(lengths, device), edges(held, device)
    asked = {"causal": True, "window_size": (6, 0), "softcap": 3.0}
    out, lse, _ = flash_attn_varlen_func(
        q, *pools, *starts, max(lengths), 48, **asked, block_table=table, return_attn_probs=True
    )
    exact, exact_lse = attention_varlen(
        q, keys, values, *starts, causal=True, window=(6, 0), softcap=3.0, return_lse=True
    )
    assert largest_difference(out, exact.double()) < 1e-5
    assert largest_difference(lse, exact_lse.double()) < 1e-5
    last, rows = q[-1].view(1, 1, HEADS, HEAD_DIM), torch.tensor([3], device=device)
    one = flash_attn_with_kvcache(
        last, *pools, cache_seqlens=33, cache_batch_idx=rows, block_table=table, **asked
    )
    assert largest_difference(one[0, 0], exact[-1].double()) < 1e-5

"""Attention over chosen blocks of keys: float64 with the same choice, and nothing else is ever looked at."""

import pytest
import torch

from engine.measuring import bench_kernels
from engine.measuring.clock import Repeats
from engine.worker.jobs import JobError
from kernels import attention, attention_selected
from tests.kernels.attention_cases import DTYPES, in_turn

TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def drawn_blocks(batch, kv_heads, choices, chosen, key_blocks, seed=0):
    """So many different blocks a row, one of them taken out where there are several."""
    order = numbers(batch, kv_heads, choices, key_blocks, seed=seed).argsort(-1)[..., :chosen].int()
    if chosen > 1:
        order[..., -1] = -1
    return order


def reference(q, k, v, blocks, block_q, block_kv, causal):
    """In float64, by a mask of every query's keys."""
    group, (seq_q, seq_kv) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    q, k, v = q.double(), *(each.double().repeat_interleave(group, 1) for each in (k, v))
    seen = (blocks[..., None] == torch.arange(seq_kv) // block_kv).any(3)
    seen = seen.repeat_interleave(block_q, 2)[:, :, :seq_q].repeat_interleave(group, 1)
    if causal:
        seen &= torch.ones(seq_q, seq_kv, dtype=torch.bool).tril(seq_kv - seq_q)
    scores = (q @ k.mT * q.shape[3] ** -0.5).masked_fill(~seen, -torch.inf)
    return scores.softmax(3).nan_to_num() @ v, scores.logsumexp(3)


CASES = {  # batch, heads, kv_heads, seq_q, seq_kv, head_dim, head_dim of v, block_q, block_kv, chosen
    "nsa": (1, 8, 2, 5, 130, 64, 64, 1, 32, 3),
    "one query to the last key": (2, 4, 1, 1, 77, 40, 40, 1, 16, 4),
    "blocks of queries": (1, 2, 1, 37, 70, 16, 16, 16, 16, 3),
    "more rows than a tile": (1, 6, 1, 40, 64, 16, 24, 40, 16, 2),
    "more queries than keys": (1, 2, 2, 20, 9, 7, 7, 4, 16, 1),
}


@pytest.mark.parametrize(("name", "causal", "dtype"), in_turn(CASES, [False, True], DTYPES))
def test_it_is_float64_over_the_same_keys(name, causal, dtype, device):
    batch, heads, kv_heads, seq_q, seq_kv, dim, v_dim, block_q, block_kv, chosen = CASES[name]
    q, k, v = (
        numbers(batch, count, rows, columns, seed=seed).to(device, dtype)
        for seed, (count, rows, columns) in enumerate(
            ((heads, seq_q, dim), (kv_heads, seq_kv, dim), (kv_heads, seq_kv, v_dim))
        )
    )
    blocks = drawn_blocks(batch, kv_heads, -(-seq_q // block_q), chosen, -(-seq_kv // block_kv)).to(device)
    given = {"block_q": block_q, "block_kv": block_kv, "causal": causal, "return_lse": True}
    out, lse = attention_selected(q, k, v, blocks, **given)
    exact, exact_lse = reference(*(each.cpu() for each in (q, k, v, blocks)), block_q, block_kv, causal)
    torch.testing.assert_close(out.double().cpu(), exact, rtol=0, atol=TOLERANCE[dtype])
    torch.testing.assert_close(lse.double().cpu(), exact_lse, rtol=0, atol=1e-3)


def test_all_blocks_are_attention(device):
    q, k, v = (numbers(1, heads, 33, 32, seed=heads).to(device) for heads in (4, 2, 2))
    blocks = torch.arange(3, device=device).expand(1, 2, 33, 3)  # of strides 0
    found = attention_selected(q, k, v, blocks, block_kv=16, causal=True)
    torch.testing.assert_close(found, attention(q, k, v, causal=True), rtol=1e-5, atol=1e-5)


def test_what_is_not_chosen_may_be_anything(device):
    """NaN in other blocks, behind the last key, behind a query's own, and around the tensors."""
    around = torch.full((3, 2, 90, 40), torch.nan, device=device)
    k, v, q = around[0, None, :, 10:80, :32], around[1, None, :, 10:80, :32], around[2, None, :, 10:16, :32]
    k[:], v[:], q[:] = (numbers(*each.shape, seed=seed).to(device) for seed, each in enumerate((k, v, q)))
    blocks = torch.tensor([0, 4], dtype=torch.int32, device=device).expand(1, 2, 6, 2)
    given = {"block_kv": 16, "causal": True}
    right = attention_selected(*(each.contiguous() for each in (q, k, v)), blocks, **given)
    k[:, :, 16:64], v[:, :, 16:64] = torch.nan, torch.nan
    assert torch.equal(attention_selected(q, k, v, blocks, **given), right)
    k[:, :, 65:], v[:, :, 65:] = torch.nan, torch.nan  # the first query stands at key 64
    assert torch.equal(attention_selected(q, k, v, blocks, **given)[:, :, 0], right[:, :, 0])


def test_what_is_timed_is_checked_first(monkeypatch, device):
    """As `bench-kernels --selected` calls it: own blocks first, none twice, none behind the query."""
    for name, small in {"HEADS": 4, "KV_HEADS": 2, "HEAD_DIM": 16, "KEYS": 32}.items():
        monkeypatch.setattr(bench_kernels, name, small)
    monkeypatch.setattr(bench_kernels, "REPEATS", Repeats(1, 1, 0.0))
    blocks = bench_kernels.choice(1, 40, 44, 4, 16, device)
    for choice, named in enumerate(blocks[0, 1].tolist()):
        own, there = (4 * choice + 4) // 16, [block for block in named if block >= 0]
        assert there[0] == own == max(there)
        assert len({*there}) == len(there) == min(2, own + 1)
    row = bench_kernels.selected_row(1, 8, 40, 1, 16, device)
    assert row["selected"]["repeats"] == row["all"]["repeats"] == 1
    monkeypatch.setattr(bench_kernels, "CLOSE", 0.0)
    with pytest.raises(JobError, match="from float64 over 40 keys"):
        bench_kernels.selected_row(1, 8, 40, 1, 16, device)

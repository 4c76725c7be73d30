"""Keys split over programs and put together again: any number of splits, and any two partial results."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from attention_cases import Shape, largest_difference, random_qkv

from kernels import attention, reference_attention
from kernels.algorithms import split_kv
from kernels.algorithms.split_kv import split_count, worthwhile
from kernels.dispatch.dispatch import checked

DECODING = Shape("decoding", 4, 2, 3, 150, 40, 16, 16)
EXACT = 8 * torch.finfo(torch.float32).eps


def call(batch=1, heads=32, kv_heads=8, seq_q=1, seq_kv=65536, window=None, algorithm="split_kv", **blocks):
    q = torch.zeros(1, dtype=torch.float16).expand(batch, heads, seq_q, 128)
    k = torch.zeros(1, dtype=torch.float16).expand(batch, kv_heads, seq_kv, 128)
    return checked(q, k, k, True, window, None, algorithm, **blocks, stand_in=True)


def check(shape, splits, device, **mask):
    q, k, v = random_qkv(shape, torch.float32, device)
    exact, exact_lse = reference_attention(q, k, v, **mask)
    out, lse = attention(
        q, k, v, **mask, algorithm="split_kv", splits=splits, **shape.blocks, return_lse=True
    )
    assert largest_difference(out, exact) <= EXACT
    assert largest_difference(lse, exact_lse) <= EXACT * exact_lse[exact_lse.isfinite()].abs().max()


MASKS = {"no-mask": {}, "causal": {"causal": True}, "window": {"window": 70}}


@pytest.mark.parametrize(
    ("splits", "mask"),
    [*product([3], MASKS), *zip((1, 10, 10, 2, 17, 40), (*MASKS, "causal", "window", "causal"), strict=True)],
)
def test_any_number_of_splits(splits, mask, device):
    """10 key blocks: splits that divide them, that do not, and more splits than blocks."""
    check(DECODING, splits, device, **MASKS[mask])


def test_heads_that_share_keys_share_a_tile():
    """4 heads of a key head with 1 query each are 4 rows, padded to 16; 30 queries fill two blocks of 64."""
    assert call().block_q == 16
    assert call(seq_q=30).block_q == 64
    assert call(seq_q=5000).block_q == 64


SPLITS = [  # on 132 SMs
    ({}, 132 // 8),  # tiles of 128 keys: one program an SM
    ({"batch": 4}, 132 // 32),
    ({"batch": 64}, 1),
    ({"seq_q": 100}, 2 * 132 // (8 * 7)),  # 7 blocks of 64 rows, tiles of 64 keys: two
    ({"seq_kv": 500}, 4),  # no more than key blocks of 128
    ({"window": 200}, 2),  # of which a window sees few
    # four keys for every row of a tile, of 64 rows and 64 keys: 4 key blocks, of which 1024 keys have 16
    ({"kv_heads": 1, "heads": 1, "seq_q": 100, "seq_kv": 1024}, 4),
    ({"kv_heads": 1, "heads": 1, "seq_kv": 1024}, 8),  # of 16 rows: no less than a block
    ({"seq_kv": 17 * 128}, 9),  # in at most 16 splits: two each, so that none is left without keys
]


@pytest.mark.parametrize(("problem", "splits"), SPLITS, ids=str)
def test_splits_give_every_sm_what_its_shared_memory_holds(problem, splits):
    assert split_count(call(**problem), 132) == splits


@pytest.mark.parametrize(("seq_q", "together"), [(1, (4, 32)), (3, (1, 16)), (7, (16, 32))], ids=str)
def test_many_rows_are_combined_together(seq_q, together, device, monkeypatch):
    """Rows and columns of one program, and a few splits at a time; 7 queries are two blocks of rows."""
    monkeypatch.setattr(split_kv, "interpreted", lambda: False)
    monkeypatch.setattr(split_kv, "multiprocessors", lambda device: 132)
    monkeypatch.setattr(split_kv, "_together", lambda row_count, columns, processors: together)
    monkeypatch.setattr(split_kv, "AT_ONCE", 32)
    check(Shape("", 6, 2, seq_q, 80, 24, 16, 16, batch=2), 5, device, causal=True)


def test_auto_splits_where_flash2_would_leave_half_of_the_gpu_idle():
    def chosen(**changed):
        split = call(**changed)
        split = replace(split, splits=split_count(split, 132))
        return worthwhile(call(algorithm="flash2", **changed), split, 132)

    assert chosen()
    assert not chosen(batch=3)
    assert not chosen(heads=67, kv_heads=1)
    assert chosen(heads=66, kv_heads=1)
    assert not chosen(seq_kv=500)
    assert chosen(seq_q=50, seq_kv=4096)
    assert not chosen(seq_q=50, seq_kv=4000)  # more rows to combine want longer splits
    assert not chosen(window=10)

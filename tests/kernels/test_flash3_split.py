"""flash3 whose tiles' keys are split: partitions as threads on the CPU, parts combined in the interpreter."""

from dataclasses import replace

import pytest
import torch
from flash3_on_threads import put_on_threads

from kernels import reference_attention
from kernels.algorithms.flash3 import forward as flash3
from kernels.algorithms.flash3 import split_kv as flash3_split
from kernels.call.call import Call

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
PROCESSORS = 132


@pytest.fixture
def on_threads(monkeypatch):
    put_on_threads(monkeypatch, flash3_split)


def call_of(batch=1, heads=8, kv_heads=8, seq_q=512, seq_kv=4096, head_dim=128, **other):
    sizes = batch, heads, kv_heads, seq_q, seq_kv, head_dim
    call = Call(*sizes, False, None, head_dim**-0.5, "flash3", 128, 64, None)
    return replace(call, **other)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the Triton kernel beside it is interpreted")
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize(("splits", "processors"), [(2, 132), (3, 1), (5, 132)])
@pytest.mark.parametrize("shape", [(1, 1, 1, 450, 640), (2, 4, 2, 130, 1030), (1, 2, 1, 1, 700)], ids=str)
def test_parts_of_the_keys_are_combined(on_threads, monkeypatch, shape, splits, head_dim, processors):
    """One block of threads takes all parts, or each its own; rows and keys end inside a tile."""
    monkeypatch.setattr(flash3_split, "multiprocessors", lambda device: processors)
    monkeypatch.setattr(flash3, "FEW_KEYS", 0)
    torch.manual_seed(0)
    batch, heads, kv_heads, seq_q, seq_kv = shape
    q = torch.randn(batch, heads, seq_q, head_dim)
    k, v = torch.randn(2, batch, kv_heads, seq_kv, head_dim)
    call = call_of(*shape, head_dim, splits=splits)
    out, lse = flash3_split.flash3_split(q, k, v, call)
    exact_out, exact_lse = reference_attention(q, k, v, scale=call.scale)
    torch.testing.assert_close(out.double(), exact_out, atol=1e-5, rtol=0)
    torch.testing.assert_close(lse.double(), exact_lse.double(), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("problem", "splits"),
    [
        ({}, 4),  # 32 tiles
        ({"heads": 2, "kv_heads": 2, "seq_q": 4096}, 2),
        ({"seq_q": 256, "seq_kv": 65536}, 8),
        ({"heads": 32, "seq_q": 128, "seq_kv": 16384}, 4),
        ({"heads": 1, "kv_heads": 1, "seq_q": 128, "seq_kv": 4096}, 8),  # of 4 key blocks each
        ({"seq_q": 1024, "seq_kv": 1024}, None),  # of 8 key blocks: combining costs more
        ({"head_dim": 256}, None),
        ({"seq_q": 127}, None),
        ({"seq_q": 1024, "seq_kv": 4096}, 2),
        ({"seq_q": 1088, "seq_kv": 4096}, None),  # more tiles than half of the SMs
        ({"causal": True}, None),
        ({"scale": -0.1}, None),
    ],
    ids=str,
)
def test_keys_are_split_where_that_pays(problem, splits):
    assert flash3_split.split_count(call_of(**problem), PROCESSORS) == splits


@pytest.mark.parametrize("tiles", [1, 7, 40, 66])
@pytest.mark.parametrize("key_blocks", [20, 33, 512])
def test_parts_are_one_round_and_no_part_is_empty(tiles, key_blocks):
    splits = flash3_split.split_count(call_of(heads=tiles, seq_q=128, seq_kv=128 * key_blocks), PROCESSORS)
    assert splits is None or 2 <= splits <= min(PROCESSORS // tiles, key_blocks)
    assert splits is not None or key_blocks < 33


@pytest.mark.gpu
@pytest.mark.skipif(not HOPPER, reason="flash3 needs a Hopper GPU")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_on_a_gpu_split_keys_give_what_whole_ones_do(head_dim, dtype):
    torch.manual_seed(0)
    q = torch.randn(1, 4, 300, head_dim, device="cuda").to(dtype)
    k, v = torch.randn(2, 1, 2, 5001, head_dim, device="cuda").to(dtype)
    call = call_of(1, 4, 2, 300, 5001, head_dim, splits=7)
    exact, exact_lse = reference_attention(q, k, v, scale=call.scale)
    whole, _ = flash3.flash3(q, k, v, call)
    error = (whole.double() - exact).abs().max()
    before = None
    for _ in range(3):  # by way of Triton, and again
        out, lse = flash3_split.flash3_split(q, k, v, call)
        assert (out.double() - exact).abs().max() <= 1.2 * error
        torch.testing.assert_close(lse.double(), exact_lse.double(), atol=1e-4, rtol=0)
        assert before is None or torch.equal(out, before)
        before = out

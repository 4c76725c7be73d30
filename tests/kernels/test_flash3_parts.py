"""flash3 whose tiles' keys are split, or whose last tiles are cut in pieces that are merged.

Partitions run as threads on the CPU, the kernels that combine parts in the interpreter.
"""

import math
from contextlib import nullcontext
from dataclasses import replace
from itertools import product

import pytest
import torch
from attention_cases import ON_CPU, on_hopper

from kernels import attention, reference_attention
from kernels.algorithms.flash3 import forward as flash3
from kernels.algorithms.flash3 import parts as flash3_parts
from kernels.call.arguments import check_options
from kernels.call.call import Call
from kernels.dispatch import dispatch
from kernels.hopper import forward
from kernels.launch.launch import multiprocessors

PROCESSORS = 132


@pytest.fixture
def on_threads(put_on_threads):
    put_on_threads(forward, "attention_kernel", flash3, flash3_parts)


@pytest.fixture
def cut_wherever(monkeypatch):
    monkeypatch.setattr(flash3_parts, "COST", dict.fromkeys(flash3_parts.COST, -(10**6)))


def call_of(batch=1, heads=8, kv_heads=8, seq_q=512, seq_kv=4096, head_dim=128, **other):
    sizes = batch, heads, kv_heads, seq_q, seq_kv, head_dim
    call = Call(*sizes, False, None, head_dim**-0.5, "flash3", 128, 64, None)
    return replace(call, **other)


def check(attend, call):
    """(O, lse) of random tensors of a call's sizes against float64."""
    torch.manual_seed(0)
    q = torch.randn(call.batch, call.heads, call.seq_q, call.head_dim)
    k, v = torch.randn(2, call.batch, call.kv_heads, call.seq_kv, call.head_dim)
    exact = reference_attention(q, k, v, scale=call.scale)
    for ours, right in zip(attend(q, k, v, call), exact, strict=True):
        torch.testing.assert_close(ours.double(), right.double(), atol=1e-5, rtol=0)


@ON_CPU
@pytest.mark.parametrize("turn", range(3))
@pytest.mark.parametrize("shape", [(1, 1, 1, 450, 640), (1, 4, 2, 130, 1030), (2, 2, 1, 1, 700)], ids=str)
def test_parts_of_the_keys_are_combined(on_threads, monkeypatch, shape, turn):
    """One block of threads takes all parts, or each its own; rows and keys end inside a tile."""
    splits, processors = ((2, 132), (3, 1), (5, 132))[turn]
    head_dim = (64, 128, 256)[(turn + shape[2] + shape[0]) % 3]
    monkeypatch.setattr(flash3_parts, "multiprocessors", lambda device: processors)
    monkeypatch.setattr(flash3, "FEW_KEYS", 0)
    check(flash3_parts.flash3_split, call_of(*shape, head_dim, splits=splits))


@ON_CPU
@pytest.mark.parametrize(
    ("shape", "head_dim", "processors"),
    [
        ((1, 1, 1, 750, 640), 128, 4),
        ((2, 3, 1, 330, 1030), 256, 5),
        ((1, 2, 1, 380, 512), 128, 5),
        ((1, 2, 1, 380, 512), 256, 4),
        ((1, 7, 7, 1, 130), 128, 4),
    ],
    ids=str,
)
def test_pieces_of_tiles_are_merged(on_threads, cut_wherever, monkeypatch, shape, processors, head_dim):
    """Rows and keys end inside a tile; shares begin and end where tiles do, and elsewhere; some are empty."""
    monkeypatch.setattr(flash3, "multiprocessors", lambda device: processors)
    call = call_of(*shape, head_dim)
    check(flash3_parts.flash3_cut, replace(call, cut=flash3_parts.cut_of(call, processors)))


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
    assert flash3_parts.split_count(call_of(**problem), PROCESSORS) == splits


@pytest.mark.parametrize(
    ("problem", "cut"),
    [
        ({}, (924, 100, 256, 194)),  # 1,024 tiles on 132 SMs
        ({"batch": 2, "seq_q": 8192, "seq_kv": 8192}, (924, 100, 128, 97)),
        ({"heads": 16, "head_dim": 128}, (1980, 68, 128, 66)),
        ({"batch": 2, "heads": 16, "seq_q": 8192, "seq_kv": 8100, "head_dim": 128}, (1980, 68, 64, 33)),
        ({"heads": 1, "kv_heads": 1, "seq_q": 133 * 128, "head_dim": 128}, (132, 1, 128, 1)),
        ({"batch": 4, "heads": 16, "seq_q": 4096, "seq_kv": 4096, "head_dim": 128}, (1980, 68, 32, 17)),
        ({"batch": 8, "heads": 16, "seq_q": 2048, "seq_kv": 2048, "head_dim": 128}, None),
        ({"batch": 4, "seq_q": 4096, "seq_kv": 4096}, None),  # merging costs what is saved
        ({"heads": 132, "seq_q": 256}, None),  # whole rounds
        ({"heads": 33, "seq_q": 500, "seq_kv": 8192}, None),
        ({"heads": 131, "seq_q": 256}, None),  # the last round is nearly full
        ({"heads": 1, "seq_q": 8192}, None),  # fewer tiles than SMs: `flash3_split` is measured for these
        ({"heads": 32, "head_dim": 64}, None),
        ({"causal": True}, None),
        ({"scale": -0.1}, None),
    ],
    ids=str,
)
def test_the_last_tiles_are_cut_where_that_pays(problem, cut):
    call = call_of(**{"seq_q": 16384, "seq_kv": 16384, "head_dim": 256} | problem)
    assert flash3_parts.cut_of(call, PROCESSORS) == (cut and flash3_parts.Cut(*cut, PROCESSORS, 128))


@pytest.mark.parametrize(("splits", "taken"), [(None, True), (1, True), (2, False), (True, False)])
def test_one_split_alone_may_be_asked_of_flash3(splits, taken):
    with nullcontext() if taken else pytest.raises(ValueError, match=r"^splits is .* only split_kv splits$"):
        check_options(None, None, "flash3", None, None, splits, dispatch.algorithms())


@on_hopper
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("way", "head_dim"), [*product(("split",), (64, 128, 256)), ("cut", 128), ("cut", 256)]
)
def test_on_a_gpu_parts_of_keys_give_what_whole_ones_do(way, head_dim, dtype):
    torch.manual_seed(0)
    # of two tiles each, more than half of the SMs and fewer than all
    heads = 4 if way == "split" else (multiprocessors(torch.device("cuda", 0)) // 2 + 20) // 2 * 2
    q = torch.randn(1, heads, 300 if way == "split" else 200, head_dim, device="cuda").to(dtype)
    k, v = torch.randn(2, 1, heads // 2, 9001, head_dim, device="cuda").to(dtype)
    exact, exact_lse = reference_attention(q, k, v)
    error = (attention(q, k, v, algorithm="flash3", splits=1).double() - exact).abs().max()

    def attend():
        if way == "cut":
            return attention(q, k, v, algorithm="flash3", return_lse=True)
        return flash3_parts.flash3_split(q, k, v, call)

    call = call_of(1, 4, 2, 300, 9001, head_dim, splits=7)
    assert way == "split" or dispatch.chosen(q, k, v, False, None, None, "flash3")[0].cut is not None
    before = None
    for _ in range(3):  # by way of Triton, and again
        out, lse = attend()
        assert (out.double() - exact).abs().max() <= 1.2 * error
        torch.testing.assert_close(lse.double(), exact_lse.double(), atol=1e-4, rtol=0)
        assert before is None or torch.equal(out, before)
        before = out
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured, _ = attend()
    captured.fill_(math.nan)
    graph.replay()
    assert torch.equal(captured, before)

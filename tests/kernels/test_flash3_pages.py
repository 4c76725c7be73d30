"""flash3 over keys in pages, its partitions run as threads on the CPU, against float64 of every sequence."""

import math

import pytest
import torch
from attention_cases import ON_CPU, in_turn
from test_paged import Cache, drawn

from kernels import attention_paged
from kernels.algorithms.flash3 import paged as flash3_pages
from kernels.algorithms.record import Algorithm
from kernels.call.call import Call
from kernels.hopper import pages
from kernels.pages import plan as paged_plan


@pytest.fixture
def on_threads(put_on_threads):
    put_on_threads(pages, "paged_attention_kernel", flash3_pages)


def attended(cache, q, causal, added):
    """(O, lse) of queries, from outputs that held NaN before."""
    batch, heads, seq_q, d = q.shape
    page, kv_heads = cache.pools[0].shape[1:3]
    capacity = cache.table.shape[1] * page
    call = Call(batch, heads, kv_heads, seq_q, capacity, d, causal, None, d**-0.5, "", 128, 64, 1)
    out, lse = torch.full_like(q, math.nan), torch.full(q.shape[:3], math.nan)
    flash3_pages._launch(q, *cache.pools, out, lse, cache.table, cache.held, call, added)
    return out, lse


PAGES = [(64, 16), (128, 16), (128, 64), (128, 128), (256, 128), (256, 32), (64, 256), (64, 16)]


@pytest.mark.parametrize(("pages", "causal"), in_turn(PAGES, [False, True]), ids=str)
def test_a_chunk_sees_the_keys_that_its_table_names(on_threads, pages, causal):
    """Lengths of 0, less than a chunk, whole pages, and pages left half empty, where NaN lies."""
    d, page = pages
    cache = Cache([0, 50, 256, 301], page, 1, d, torch.float32, "cpu")
    q = drawn(4, 2, 140, d, seed=3)
    out, lse = attended(cache, q, causal, 0)
    exact, exact_lse = cache.exact(q, causal=causal)
    torch.testing.assert_close(out.double(), exact, atol=1e-5, rtol=0)
    torch.testing.assert_close(lse.double(), exact_lse.double(), atol=1e-5, rtol=0)


def test_new_keys_count_and_none_is_behind_the_table(on_threads):
    cache = Cache([200], 64, 2, 64, torch.float32, "cpu", new=130)
    cache.pools = cache.after
    q = drawn(1, 4, 130, 64, seed=3)
    out, _ = attended(cache, q, True, 130)
    torch.testing.assert_close(out.double(), cache.exact(q, causal=True)[0], atol=1e-5, rtol=0)
    cache.table = cache.table[:, :5].contiguous()  # room for 320 keys
    out, _ = attended(cache, q[:, :, :100], True, 130)
    cache.full = [[each[0][:, :320]] for each in cache.full]
    torch.testing.assert_close(out.double(), cache.exact(q[:, :, :100], causal=True)[0], atol=1e-5, rtol=0)


F16, F32 = torch.float16, torch.float32
CHUNK = {"dtype": F16, "d": 64, "page": 32, "seq_q": 140, "heads": 2}


@ON_CPU
@pytest.mark.parametrize(
    ("chunk", "options", "served"),
    [
        ({}, {}, True),
        ({"page": 256}, {"causal": True}, True),
        ({"page": 48}, {}, False),  # neither whole in a block of keys nor of whole blocks
        ({"page": 8}, {}, False),
        ({"seq_q": 127}, {}, False),  # heads that share keys fill a tile together
        ({"heads": 1}, {}, False),  # fewer tiles than SMs want
        ({"dtype": F32}, {}, False),
        ({"d": 40}, {}, False),
        ({}, {"window": 50}, False),
        ({}, {"window": (50, None)}, False),
        ({}, {"window": (None, 50)}, False),
        ({}, {"window": (None, 0)}, True),
        ({}, {"softcap": 9.0}, False),
        ({}, {"sinks": torch.zeros(2)}, False),
        ({}, {"alibi_slopes": torch.zeros(2)}, False),
        ({}, {"splits": 1}, False),
    ],
    ids=str,
)
def test_chunks_that_it_serves_go_to_flash3(on_threads, monkeypatch, chunk, options, served):
    """The other kernel gives the same, so that only what was launched tells them apart."""
    paged_plan._PLANNED.clear()
    monkeypatch.setattr(Algorithm, "unserved_device", lambda *_: None)
    monkeypatch.setattr(flash3_pages, "FEWEST_TILES", 1.5)  # of two SMs
    launched = []
    launch = flash3_pages._launch
    monkeypatch.setattr(flash3_pages, "_launch", lambda *given: launched.append(launch(*given)))
    dtype, d, page, seq_q, heads = (CHUNK | chunk).values()
    cache = Cache([60, 150], page, 1, d, dtype, "cpu")
    q = drawn(2, heads, seq_q, d, dtype=dtype, seed=3)
    for _ in range(1 + served):
        out = attention_paged(q, *cache.pools, cache.table, cache.held, **options)
        exact, _ = cache.exact(q, **{name: value for name, value in options.items() if name != "splits"})
        torch.testing.assert_close(out.double(), exact, atol=4e-3, rtol=0)
    assert len(launched) == 2 * served
    paged_plan._PLANNED.clear()


@ON_CPU
def test_new_keys_of_a_chunk_are_appended_before_it_is_attended(on_threads, monkeypatch):
    paged_plan._PLANNED.clear()
    monkeypatch.setattr(Algorithm, "unserved_device", lambda *_: None)
    cache = Cache([90, 31], 16, 1, 64, F16, "cpu", new=130)
    q, (k_new, v_new) = drawn(2, 2, 130, 64, dtype=F16, seed=3), cache.added
    out = attention_paged(q, *cache.pools, cache.table, cache.held, k_new=k_new, v_new=v_new, causal=True)
    torch.testing.assert_close(out.double(), cache.exact(q, causal=True)[0], atol=4e-3, rtol=0)
    paged_plan._PLANNED.clear()

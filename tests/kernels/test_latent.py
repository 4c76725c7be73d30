"""Decoding over a latent, its partitions run as threads on the CPU, against float64 of every sequence."""

import math

import pytest
import torch
from attention_cases import ON_CPU, on_hopper
from test_paged import Cache, drawn

from kernels import attention, attention_paged, explain, reference_attention
from kernels.algorithms import flash3
from kernels.algorithms.flash3 import latent as launches
from kernels.algorithms.record import Algorithm
from kernels.call.call import Call
from kernels.hopper import latent

F16 = torch.float16


@pytest.fixture
def on_threads(put_on_threads):
    put_on_threads(latent, "latent_kernel", launches)


def attended(q, k, splits, table=None, lengths=None, added=0):
    """(O, lse) of queries, by parts that held NaN before."""
    batch, heads = q.shape[:2]
    keys = k.shape[2] if table is None else table.shape[1] * k.shape[1]
    call = Call(batch, heads, 1, 1, keys, 576, False, None, 576**-0.5, "flash3", 64, 64, splits, v_dim=512)
    parts = [torch.full((splits, batch, heads, 1, *columns), math.nan) for columns in ((512,), ())]
    launches._launch(q, k, *parts, table, lengths, call=call, added=added)
    out, lse = parts
    whole = lse.logsumexp(0)
    weights = torch.exp(lse - whole.masked_fill(whole == -torch.inf, 0))
    return (weights[..., None] * out).sum(0), whole


@pytest.mark.parametrize(
    ("batch", "heads", "keys", "splits"), [(1, 64, 64, 1), (2, 128, 700, 3), (1, 20, 129, 2)]
)
@pytest.mark.usefixtures("on_threads")
def test_a_query_sees_every_key_of_a_latent(batch, heads, keys, splits):
    q, k = drawn(batch, heads, 1, 576, seed=1), drawn(batch, 1, keys, 576, seed=2)
    out, lse = attended(q, k, splits)
    exact, exact_lse = reference_attention(q, k, k[..., :512])
    torch.testing.assert_close(out.double(), exact, atol=1e-5, rtol=0)
    torch.testing.assert_close(lse.double(), exact_lse.double(), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("page", "splits"), [(16, 1), (64, 3), (128, 2)])
@pytest.mark.usefixtures("on_threads")
def test_a_query_sees_the_keys_of_pages_alone(page, splits):
    """Pages out of order, half empty ones full of NaN, sequences of none and of few keys."""
    cache = Cache([0, 1, 70, 301], page, 1, 576, torch.float32, "cpu")
    q, pool = drawn(4, 30, 1, 576, seed=3), cache.pools[0]
    out, lse = attended(q, pool, splits, cache.table, cache.held)
    cache.full = [cache.full[0]] * 2
    exact, exact_lse = cache.exact(q)
    torch.testing.assert_close(out.double(), exact[..., :512], atol=1e-5, rtol=0)
    torch.testing.assert_close(lse.double(), exact_lse.double(), atol=1e-5, rtol=0)


@on_hopper
@pytest.mark.parametrize("dtype", [F16, torch.bfloat16])
@pytest.mark.parametrize(("batch", "heads", "keys"), [(3, 128, 1000), (1, 16, 1), (2, 40, 20000)])
def test_a_latent_is_read_once_on_a_gpu(batch, heads, keys, dtype):
    q, pages = (torch.randn(batch, *size, 576, device="cuda").to(dtype) for size in ((heads, 1), (keys, 1)))
    exact, _ = reference_attention(q, latent := pages.transpose(1, 2), latent[..., :512])
    table = torch.arange(batch * -(-keys // 64), dtype=torch.int32, device="cuda").view(batch, -1)
    pool = torch.nn.functional.pad(pages, (0, 0, 0, 0, 0, -keys % 64), value=math.nan).view(-1, 64, 1, 576)
    held = torch.full((batch,), keys, dtype=torch.int32, device="cuda")
    for out in (
        attention(q, latent, latent[..., :512]),
        attention_paged(q, pool, pool[..., :512], table, held),
    ):
        assert (out.double() - exact).abs().max() <= 4 * torch.finfo(dtype).eps * latent.abs().max()


@ON_CPU
def test_a_latent_is_attended_by_flash2_where_there_is_no_hopper_gpu():
    q, k = drawn(1, 16, 1, 576, seed=1), drawn(1, 1, 100, 576, seed=2)
    out, lse = attention(q, k, k[..., :512], return_lse=True)
    exact, exact_lse = reference_attention(q, k, k[..., :512])
    torch.testing.assert_close(out.double(), exact, atol=1e-5, rtol=0)
    torch.testing.assert_close(lse.double(), exact_lse.double(), atol=1e-5, rtol=0)


@ON_CPU
@pytest.mark.usefixtures("on_threads")
def test_a_latent_is_known_by_its_storage(monkeypatch):
    """V that lies elsewhere is no latent; one in pages is served by flash3 alone."""
    monkeypatch.setattr(Algorithm, "unserved_device", lambda *_: None)
    monkeypatch.setattr(flash3, "unserved_strides", lambda *_: None)
    q, k = drawn(2, 20, 1, 576, seed=1, dtype=F16), drawn(2, 1, 200, 576, seed=2, dtype=F16)
    assert "flash3 runs: it reads the latent" in explain(q, k, k[..., :512])
    assert "flash2 runs" in explain(q, k, k[..., :512].clone())
    for _ in range(2):
        out = attention(q, k, k[..., :512])
        torch.testing.assert_close(
            out.double(), reference_attention(q, k, k[..., :512])[0], atol=4e-3, rtol=0
        )
    with pytest.raises(ValueError, match="a latent has no mask or terms"):
        attention(q, k, k[..., :512], algorithm="flash3", softcap=30.0)

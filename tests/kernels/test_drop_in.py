"""What code for PyTorch's own attention counts on: autocast, counted FLOPs; and builds that are refused."""

from contextlib import nullcontext

import pytest
import torch
from attention_cases import ON_CPU
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from kernels import attention, attention_paged, attention_varlen, explain
from kernels import flash_attn as library
from kernels.call import device
from kernels.tilings.device import Device

EDGES = torch.tensor([0, 8, 20], dtype=torch.int32)


def drawn(*shape, **how):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_(**how)


def flops(call) -> int:
    with FlopCounterMode(display=False) as mode:
        call()
    return mode.get_total_flops()


@ON_CPU
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", [{}, {"causal": True, "softcap": 3.0}], ids=["plain", "softcap"])
def test_autocast_casts_as_for_pytorchs_own(dtype, options):
    q, k = drawn(1, 2, 20, 16), drawn(1, 2, 20, 16).to(torch.bfloat16).detach()
    with torch.autocast("cpu", dtype=dtype):
        out = attention(q, k, q, **options)
        assert out.dtype == scaled_dot_product_attention(q, k, q).dtype == dtype
        assert attention_varlen(*(each[0].transpose(0, 1) for each in (q, k, q)), EDGES, EDGES).dtype == dtype
        assert "runs" in explain(q, k, q, **options)
    out.sum().backward()
    assert q.grad.dtype == torch.float32


@ON_CPU
def test_autocast_leaves_a_cache_as_it_is():
    q, table, held = drawn(1, 2, 1, 16).detach(), torch.tensor([[0, 1]]), torch.tensor([20])
    for cache in (drawn(3, 16, 2, 16).detach(), drawn(3, 16, 2, 16).to(torch.bfloat16).detach()):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert attention_paged(q, cache, cache, table, held).dtype == cache.dtype


@ON_CPU
def test_flops_are_counted_as_those_of_pytorchs_own():
    """Of two products forward and five backward; of packed sequences those that there are."""
    q, k = drawn(2, 4, 20, 16), drawn(2, 2, 20, 16)
    product = 2 * 8 * 20 * 20 * 16
    assert flops(lambda: attention(q, k, k, causal=True).sum().backward()) == 7 * product
    assert flops(lambda: attention(q, k, k, softcap=3.0).detach()) == 2 * product
    packed = drawn(20, 2, 16).detach()
    both = 2 * 2 * (8 * 8 + 12 * 12) * (16 + 16)
    assert flops(lambda: attention_varlen(packed, packed, packed, EDGES, EDGES)) == both
    cache, table = drawn(3, 16, 2, 16).detach(), torch.tensor([[0, 1]])
    counted = flops(lambda: attention_paged(packed[None, :2, :1], cache, cache, table, torch.tensor([20])))
    assert counted == 4 * 2 * 20 * 16


REFUSED = pytest.raises(
    RuntimeError, match=r"^this GPU is gfx90a: of AMD's the kernels are compiled for gfx942 "
)


@ON_CPU
@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942"])
def test_an_amd_gpu_that_was_never_compiled_for_is_refused(architecture, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.2")
    monkeypatch.setattr(device, "WITHOUT_GPU", Device(architecture, 65536))
    x = drawn(19, 1, 16).detach()
    for call in (
        lambda: attention(x[None, None, :, 0], x[None, None, :, 0], x[None, None, :, 0]),
        lambda: attention_varlen(x, x, x, EDGES[:2], EDGES[:2]),
        lambda: attention_paged(
            x[None, :1], x[None, :3], x[None, :3], torch.tensor([[0]]), torch.tensor([3])
        ),
    ):
        with REFUSED if architecture == "gfx90a" else nullcontext():
            call()


@ON_CPU
def test_q_k_and_v_in_one_tensor_are_taken_apart():
    """The arguments behind them are those of the functions that take them apart."""
    qkv, edges = drawn(2, 9, 3, 2, 16, requires_grad=True), torch.tensor([0, 4, 9], dtype=torch.int32)
    q, k, v = qkv.unbind(2)
    asked = 0.0, None, True, (3, -1)
    exact = library.flash_attn_func(q, k, v, *asked)
    assert torch.equal(library.flash_attn_qkvpacked_func(qkv, *asked), exact)
    assert torch.equal(library.flash_attn_kvpacked_func(q, qkv[:, :, 1:], *asked), exact)
    exact = library.flash_attn_varlen_func(q[0], k[0], v[0], edges, edges, 5, 5, *asked)
    assert torch.equal(library.flash_attn_varlen_qkvpacked_func(qkv[0], edges, 5, *asked), exact)
    packed = library.flash_attn_varlen_kvpacked_func(q[0], qkv[0, :, 1:], edges, edges, 5, 5, causal=True)
    packed.sum().backward()
    assert qkv.grad.isfinite().all()

"""Attention in FP8: what it refuses and why, that auto never takes it, and, on a Hopper GPU, its results."""

import math

import pytest
import torch
from attention_cases import HOPPER, on_hopper
from test_flash3 import tensors

from kernels import attention_fp8, explain, reference_attention
from kernels.algorithms.fp8 import ALGORITHM as FP8
from kernels.algorithms.record import Algorithm

SHAPE = 2, 4, 2, 128, 64
SHAPES = [
    (1, 1, 1, 1, 1),
    (2, 4, 2, 127, 129),
    (1, 4, 4, 333, 200),
    (1, 8, 2, 1024, 1024),
    (1, 2, 2, 300, 2028),
]


def test_what_is_not_served_says_why():
    q, k, _ = tensors(*SHAPE)
    for given, reason in (
        (tensors(*SHAPE, dtype=torch.float32), "takes float16 and bfloat16, got torch.float32"),
        (tensors(*SHAPE, head_dim=80), "takes a head_dim of 64, 128 or 256, got 80"),
        *((((q, k, torch.zeros(2, 2, 64, v_dim)), f"of Q and K alone, got {v_dim}")) for v_dim in (64, 256)),
    ):
        assert reason in FP8.unserved_tensors(*given)
    assert FP8.unserved_tensors(*(tensor.mT.contiguous().mT for tensor in tensors(*SHAPE))) is None


@pytest.mark.skipif(HOPPER, reason="a Hopper GPU serves")
def test_without_a_hopper_gpu_it_says_so():
    assert "fp8 needs a Hopper GPU" in FP8.unserved_device(torch.device("cpu"), interpreted=False)
    with pytest.raises(ValueError, match=r"which Triton's interpreter does not run|needs a Hopper GPU"):
        attention_fp8(*tensors(*SHAPE))


def test_where_it_serves_it_runs_only_when_asked_for(monkeypatch, device):
    monkeypatch.setattr(Algorithm, "unserved_device", lambda *_: None)
    assert "auto never takes it" in explain(*tensors(*SHAPE, device=device), algorithm="fp8")
    assert not explain(*tensors(*SHAPE, device=device)).startswith("fp8")


@on_hopper
@pytest.mark.parametrize("numbers", ["rotated", "block", "tensor"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_agrees_with_float64_as_far_as_eight_bits_go(shape, head_dim, causal, numbers):
    torch.manual_seed(0)
    q, k, v = tensors(*shape, head_dim, torch.bfloat16, "cuda")
    scales = "tensor" if numbers == "tensor" else "block"
    options = {"rotate": numbers == "rotated", "scales": scales, "return_lse": True}
    out, lse = attention_fp8(q, k, v, causal=causal, **options)
    exact_out, exact_lse = reference_attention(q, k, v, causal=causal)
    assert torch.equal(lse == -math.inf, exact_lse == -math.inf)
    assert (out - exact_out).square().mean() <= (0.12**2 * exact_out.square().mean())
    assert (lse - exact_lse).nan_to_num().abs().max() <= 0.5

"""Gradients over shapes, masks and dtypes: about as near to float64's as eager PyTorch's are."""

from itertools import product

import pytest
import torch
from attention_cases import (
    DTYPES,
    MASKS,
    SHAPES,
    Shape,
    dtype_name,
    eager_attention,
    gradients,
    largest_difference,
    random_qkv,
)

from kernels import attention, reference_attention
from kernels.backward.backward import tilings
from kernels.call.call import Call

ROOMY = Shape("roomy", 4, 2, 20, 40, 32, 16, 32)


def grid():
    """All of shapes x masks, the dtypes in turn: every pair of values meets."""
    for (s, shape), (m, mask) in product(enumerate(SHAPES), enumerate(MASKS)):
        dtype = DTYPES[(s + m) % len(DTYPES)]
        yield pytest.param(shape, MASKS[mask], dtype, id=f"{shape.name}-{mask}-{dtype_name(dtype)}")


def recomputation_error(q, k, v, d_out, lse):
    """What recomputing P = exp(S - lse) in float32 leaves in dq, dk and dv where eager PyTorch has P exactly.

    P is off by a rounding of lse, which enters dS = P (dP - delta) and dv = P^T dO. A row of P sums to 1, a
    column to at most the number of rows that share the key.
    """
    sharing = q.shape[2] * q.shape[1] // k.shape[1]
    rounding = 2 * torch.finfo(torch.float32).eps * (1 + lse[lse.isfinite()].abs().max().item())
    d_weights = d_out.double() @ v.double().repeat_interleave(q.shape[1] // k.shape[1], 1).mT
    d_scores = rounding * d_weights.abs().max().item() * q.shape[-1] ** -0.5
    largest_q, largest_k, largest_d_out = (tensor.abs().max().item() for tensor in (q, k, d_out))
    return d_scores * largest_k, d_scores * largest_q * sharing, rounding * largest_d_out * sharing


def random_like(tensor, seed):
    return torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed)).to(tensor)


def check(shape, mask, dtype, device, **options):
    tensors = random_qkv(shape, dtype, device)
    d_out = random_like(tensors[0], seed=7)

    def exact(q, k, v):
        return reference_attention(q, k, v, **mask, **options)

    def eager(q, k, v):
        return eager_attention(q, k, v, **mask, **options)

    def ours(q, k, v):
        return attention(q, k, v, **mask, **options, **shape.blocks, return_lse=True)

    expected = gradients(exact, [tensor.double() for tensor in tensors], d_out)
    from_ours, from_eager = gradients(ours, tensors, d_out), gradients(eager, tensors, d_out)
    floors = recomputation_error(*tensors, d_out, exact(*tensors)[1])
    for name, our, eagers, right, floor in zip("qkv", from_ours, from_eager, expected, floors, strict=True):
        ulp = torch.finfo(dtype).eps * right.abs().max().item()
        assert our.dtype == dtype
        assert largest_difference(our, right) <= 2 * largest_difference(eagers, right) + ulp + floor, (
            f"d{name}"
        )


@pytest.mark.parametrize(("shape", "mask", "dtype"), list(grid()))
def test_gradients_equal_float64(shape, mask, dtype, device):
    check(shape, mask, dtype, device)


def test_a_given_scale(device):
    check(ROOMY, {}, torch.float32, device, scale=0.7)


def test_lse_has_a_gradient_too(device):
    tensors = random_qkv(ROOMY, torch.float32, device)
    d_out = random_like(tensors[0], seed=7)
    d_lse = random_like(tensors[0][..., 0], seed=8)
    mask = {"causal": True}

    def ours(q, k, v):
        return attention(q, k, v, **mask, **ROOMY.blocks, return_lse=True)

    def exact(q, k, v):
        return reference_attention(q, k, v, **mask)

    expected = gradients(exact, [tensor.double() for tensor in tensors], d_out, d_lse)
    for our, right in zip(gradients(ours, tensors, d_out, d_lse), expected, strict=True):
        assert largest_difference(our, right) < 1e-5


def test_the_gradient_of_lse_alone(device):
    q, k, v = (tensor.requires_grad_() for tensor in random_qkv(ROOMY, torch.float32, device))
    attention(q, k, v, **ROOMY.blocks, return_lse=True)[1].sum().backward()
    ours = q.grad.clone(), k.grad.clone(), v.grad.clone()
    exact = torch.autograd.grad(reference_attention(q, k, v)[1].sum(), (q, k))
    for our, right in zip(ours, (*exact, torch.zeros_like(v)), strict=True):
        assert largest_difference(our, right.double()) < 1e-5


def test_gradients_agree_with_finite_differences(device):
    """Differences of the float64 reference in a random direction: no backward formula is shared."""
    tensors = random_qkv(ROOMY, torch.float32, device)
    d_out = random_like(tensors[0], seed=7)

    def ours(q, k, v):
        return attention(q, k, v, window=20, **ROOMY.blocks, return_lse=True)

    def value(position, step):
        moved = [tensor.double() for tensor in tensors]
        moved[position] = moved[position] + step
        return (reference_attention(*moved, window=20)[0] * d_out).sum().item()

    for position, gradient in enumerate(gradients(ours, tensors, d_out)):
        direction = random_like(gradient, seed=9).double() * 1e-5
        slope = value(position, direction) - value(position, -direction)
        assert 2 * (gradient * direction).sum().item() == pytest.approx(slope, rel=1e-4)


def test_strided_tensors_and_an_expanded_gradient(device):
    q, k, v = random_qkv(ROOMY, torch.float32, device)
    expected = gradients(reference_attention, (q, k, v), torch.ones_like(q))
    leaves = [tensor.transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for tensor in (q, k, v)]
    attention(*leaves, **ROOMY.blocks).sum().backward()
    for leaf, right in zip(leaves, expected, strict=True):
        assert largest_difference(leaf.grad, right.double()) < 1e-5


def test_only_what_asks_for_a_gradient_gets_one(device):
    q, k, v = random_qkv(ROOMY, torch.float32, device)
    v.requires_grad_()
    attention(q, k, v, **ROOMY.blocks).sum().backward()
    assert q.grad is None
    assert k.grad is None
    assert v.grad is not None


def test_default_blocks_of_the_backward_pass(device):
    shape = Shape("", 1, 1, 70, 70, 16, 0, 0)
    for dtype in (torch.float32, torch.float16):
        q, k, v = (tensor.requires_grad_() for tensor in random_qkv(shape, dtype, device))
        attention(q, k, v, causal=True).sum().backward()
        exact = torch.autograd.grad(reference_attention(q, k, v, causal=True)[0].sum(), (q, k, v))
        for leaf, right in zip((q, k, v), exact, strict=True):
            assert (
                largest_difference(leaf.grad, right.double()) < 8 * torch.finfo(dtype).eps * right.abs().max()
            )


@pytest.mark.parametrize("head_dim", [1, 64, 65, 200, 256])
def test_each_gradient_has_a_tiling_of_its_own_unless_blocks_are_given(head_dim):
    call = Call(1, 2, 2, 100, 100, head_dim, False, None, 1.0, "flash2", 128, 64, None)
    for one in tilings(call, torch.float16, None, None):
        assert (one.call.head_dim, one.call.seq_kv) == (head_dim, 100)
        assert 64 <= one.call.block_q <= 128
        assert one.call.block_kv in (32, 64)
    keys, queries = tilings(call, torch.float16, 32, None)
    assert (keys.call.block_q, queries.call.block_q) == (32, 32)
    keys, queries = tilings(call, torch.float16, 16, 128)
    assert (keys.call.block_kv, queries.call.block_kv) == (128, 128)


@pytest.mark.parametrize("algorithm", ["standard", "flash1"])
def test_an_algorithm_without_backward_is_named(algorithm, device):
    q, k, v = random_qkv(ROOMY, torch.float32, device)
    k.requires_grad_()
    with pytest.raises(
        ValueError, match=f"^algorithm is '{algorithm}' and k requires grad, it must be one of auto,"
    ):
        attention(q, k, v, algorithm=algorithm)
    with torch.no_grad():
        assert not attention(q, k, v, algorithm=algorithm, **ROOMY.blocks).requires_grad

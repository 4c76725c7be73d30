"""Every algorithm at its edges: strides, offsets, large scores, NaN, windows, caps; gradients at theirs."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from attention_cases import ALGORITHMS, Shape, gradients, in_turn, largest_difference, random_qkv

from kernels import attention, explain, reference_attention
from kernels.backward.backward import tilings
from kernels.call.call import Call

ROOMY = Shape("roomy", 2, 1, 24, 40, 32, 16, 32)
SQUARE = Shape("square", 1, 1, 21, 21, 16, 16, 16)


def transposed(tensor):
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def every_other_column(tensor):
    return tensor.repeat_interleave(2, -1)[..., ::2]


def off_by_one_element(tensor):
    return torch.cat([tensor.new_zeros(1), tensor.flatten()])[1:].view(tensor.shape)


def columns_first(tensor):
    return tensor.mT.contiguous().mT


def expanded(tensor):
    return tensor.expand(-1, 2, -1, -1)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_any_strides(algorithm, device):
    """O is laid out as q where that is dense."""
    options = {"causal": True, "algorithm": algorithm, **ROOMY.blocks}
    tensors = random_qkv(ROOMY, torch.float16, device)
    right = attention(*tensors, **options)
    for layout in (transposed, every_other_column, off_by_one_element, columns_first, expanded):
        q, k, v = map(layout, tensors)
        out = attention(q, k, v, **options)
        assert torch.equal(out, right)
        assert layout in (every_other_column, expanded) or out.stride() == q.stride()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_offsets_past_two_to_the_31(algorithm, tmp_path, device):
    """Rows 2^30 elements apart, in a sparse file on the CPU."""
    stride, rows, head_dim = 1 << 30, 4, 16
    size = stride * (rows - 1) + head_dim
    if device == "cuda":
        memory = torch.zeros(size, dtype=torch.float16, device=device)
    else:
        memory = torch.from_file(str(tmp_path / "sparse"), shared=True, size=size, dtype=torch.float16)
    far = memory.as_strided((1, 1, rows, head_dim), (size, size, stride, 1))
    near = torch.randn(1, 1, rows, head_dim, generator=torch.Generator().manual_seed(0)).to(far)
    far.copy_(near)
    options = {"algorithm": algorithm, "block_q": 16, "block_kv": 16}
    assert torch.equal(attention(near, far, far, **options), attention(near, near, near, **options))
    assert torch.equal(attention(far, near, near, **options), attention(near, near, near, **options))


def test_nan_in_a_score_reaches_the_rows_that_see_it(device):
    q, k, v = random_qkv(ROOMY, torch.float32, device)
    k[:, :, 34] = torch.nan
    for algorithm in ALGORITHMS:
        out = attention(q, k, v, causal=True, algorithm=algorithm, **ROOMY.blocks)
        assert out[:, :, 18:].isnan().all()
        assert out[:, :, :18].isfinite().all()


def test_large_scores_and_any_head_dim(device):
    """In blocks that are given, and in an algorithm's own."""
    for algorithm, head_dim in product(ALGORITHMS, (3, 32, 100, 200)):
        shape = replace(ROOMY, head_dim=head_dim)
        q, k, v = random_qkv(shape, torch.float32, device)
        q, options = (300 * q, {"causal": True, **shape.blocks}) if head_dim == 32 else (q, {})
        mask = {"causal": bool(options)}
        out, lse = attention(q, k, v, algorithm=algorithm, return_lse=True, **options)
        exact, exact_lse = reference_attention(q, k, v, **mask)
        assert largest_difference(out, exact) < (1e-3 if options else 1e-5)
        assert largest_difference(lse, exact_lse) <= 2e-6 * exact_lse.abs().max()


@pytest.mark.parametrize(
    ("window", "causal", "same"),
    [
        (5, False, {"causal": True, "window": 5}),  # which looks back only
        ((4, 0), False, {"window": 5}),
        ((None, None), False, {}),
        ((4, 9), True, {"window": 5}),
        ((None, None), True, {"causal": True}),
    ],
)
def test_a_pair_that_a_plain_mask_says_is_that_mask(window, causal, same, device):
    q, k, v = random_qkv(ROOMY, torch.float16, device)
    ours = attention(q, k, v, window=window, causal=causal, **ROOMY.blocks)
    assert torch.equal(ours, attention(q, k, v, **same, **ROOMY.blocks))


def test_flash3_leaves_caps_that_need_every_digit_to_flash2(device):
    q, k, v = random_qkv(SQUARE, torch.float16, device)
    taken = "sides, a prefix, documents, documents of few queries, softcap, sinks and slopes alone"
    assert explain(q, k, v, softcap=300.0).endswith(taken)
    with pytest.raises(ValueError, match=taken):
        attention(q, k, v, softcap=0.5, algorithm="flash3")


CAPS = [1e-35, 1e-3, 50.0, 1e5, 1e8, 1e38]


@pytest.mark.parametrize(("algorithm", "softcap"), in_turn(ALGORITHMS, CAPS, by=3))
def test_a_cap_of_any_size_keeps_every_digit(softcap, algorithm, device):
    q, k, v = random_qkv(SQUARE, torch.float32, device, seed=5)
    options = {"softcap": softcap, "causal": True, "scale": 3.0}
    exact, exact_lse = reference_attention(q, k, v, **options)
    out, lse = attention(q, k, v, algorithm=algorithm, return_lse=True, **options)
    assert largest_difference(out, exact) < 1e-5
    assert largest_difference(lse, exact_lse) < 2e-5  # of 36


def test_the_gradient_of_lse_alone(device):
    q, k, v = (tensor.requires_grad_() for tensor in random_qkv(ROOMY, torch.float32, device))
    attention(q, k, v, **ROOMY.blocks, return_lse=True)[1].sum().backward()
    ours = q.grad.clone(), k.grad.clone(), v.grad.clone()
    exact = torch.autograd.grad(reference_attention(q, k, v)[1].sum(), (q, k))
    for our, right in zip(ours, (*exact, torch.zeros_like(v)), strict=True):
        assert largest_difference(our, right.double()) < 1e-5


def test_strided_tensors_and_an_expanded_gradient(device):
    q, k, v = random_qkv(ROOMY, torch.float32, device)
    expected = gradients(reference_attention, (q, k, v), torch.ones_like(q))
    leaves = [transposed(tensor).requires_grad_() for tensor in (q, k, v)]
    attention(*leaves, **ROOMY.blocks).sum().backward()
    for leaf, right in zip(leaves, expected, strict=True):
        assert largest_difference(leaf.grad, right.double()) < 1e-5


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

"""The backward pass at its edges: lse alone, strides, and its tilings."""

import pytest
import torch
from attention_cases import Shape, gradients, largest_difference, random_qkv

from kernels import attention, reference_attention
from kernels.backward.backward import tilings
from kernels.call.call import Call

ROOMY = Shape("roomy", 4, 2, 20, 40, 32, 16, 32)


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
    leaves = [tensor.transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for tensor in (q, k, v)]
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

"""V of another head dim than Q and K: results, gradients, shapes in a graph, and what is refused."""

import pytest
import torch
from attention_cases import ON_CPU, largest_difference
from torch._subclasses import FakeTensorMode

from kernels import attention, attention_varlen, explain, reference_attention
from kernels.algorithms.flash2.forward import loop_stages, served_by_tma
from kernels.algorithms.flash3 import ALGORITHM as FLASH3
from kernels.backward.backward import tilings
from kernels.call.call import Call
from kernels.flash_attn import flash_attn_func

BLOCKS = {"block_q": 16, "block_kv": 16}


def drawn(dims, dtype, device, batch=1, heads=(2, 1), tokens=(21, 31)):
    """q, k and v [batch, heads, tokens, head_dim]."""
    generator = torch.Generator().manual_seed(11)
    sizes = (heads[0], tokens[0], dims[0]), (heads[1], tokens[1], dims[0]), (heads[1], tokens[1], dims[1])
    return [torch.randn(batch, *size, generator=generator).to(device, dtype) for size in sizes]


def test_packed_sequences_and_the_adapter_give_v_s_head_dim(device):
    q, k, v = (
        tensor[0].transpose(0, 1) for tensor in drawn((24, 16), torch.float32, device, tokens=(20, 20))
    )
    edges = torch.tensor([0, 9, 20], dtype=torch.int32, device=device)
    packed = attention_varlen(q, k, v, edges, edges, causal=True, **BLOCKS)
    apart = [
        reference_attention(*(each[a:b].transpose(0, 1)[None] for each in (q, k, v)), causal=True)[0][0]
        for a, b in ((0, 9), (9, 20))
    ]
    assert packed.shape == (20, 2, 16)
    assert largest_difference(packed, torch.cat(apart, 1).transpose(0, 1)) < 1e-5
    whole = flash_attn_func(q[None].contiguous(), k[None], v[None], causal=True)
    exact, _ = reference_attention(*(each[None].transpose(1, 2) for each in (q, k, v)), causal=True)
    assert whole.shape == (1, 20, 2, 16)
    assert whole.is_contiguous()  # laid out as q, whose rows of heads lie together
    assert largest_difference(whole, exact.transpose(1, 2)) < 1e-5


@pytest.mark.parametrize("documents", [None, [12, 8]])
def test_fake_tensors_give_shapes_and_strides(documents, device):
    """What torch.compile sees of both operators and of their gradients."""
    with FakeTensorMode():
        q, k, v = (
            torch.empty(2, 20, heads, dim, device=device).transpose(1, 2).requires_grad_()
            for heads, dim in ((4, 16), (2, 16), (2, 24))
        )
        out, lse = attention(q, k, v, causal=True, documents=documents, return_lse=True)
        grads = torch.autograd.grad(out.sum() + lse.sum(), (q, k, v))
    assert (out.shape, out.stride()) == ((2, 4, 20, 24), (1920, 24, 96, 1))  # laid out as q is
    assert [grad.shape for grad in grads] == [q.shape, k.shape, v.shape]


@ON_CPU
def test_flash3_refuses_in_the_sentence_that_auto_gives():
    q, k, v = drawn((64, 128), torch.float16, "cpu")
    assert FLASH3.unserved_tensors(q, k, v) == (
        "flash3 takes V of the head_dim of Q and K, or of 128 beside 192, got 128 and 64"
    )
    assert explain(q, k, v).startswith("flash2 runs: flash3 ")


@pytest.mark.parametrize(
    ("dims", "stages", "keys", "tma"),
    [
        ((192, 128), 3, (32, 64, 4, 3), True),  # 227 KiB: Q 64, and K and V 48 each time
        ((64, 256), 3, (64, 64, 8, 2), True),  # Q 16, and 40
        ((64, 512), 2, (64, 32, 4, 2), True),  # Q 8, P 8, and 72
        ((128, 64), 3, (64, 64, 4, 2), False),
        ((256, 256), 2, (64, 64, 8, 2), True),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU says how much shared memory it has")
def test_blocks_are_chosen_by_both_head_dims(dims, stages, keys, tma):
    head_dim, v_dim = dims
    rows = 64 if v_dim > 256 else 128
    apart = None if head_dim == v_dim else v_dim
    call = Call(1, 1, 1, 512, 512, head_dim, False, None, 0.1, "flash2", rows, 64, None, v_dim=apart)
    q, k, v = drawn(dims, torch.float16, "cpu")
    assert loop_stages(call, q) == stages
    key_pass, _ = tilings(call, torch.float16, None, None)
    assert (key_pass.call.block_q, key_pass.call.block_kv, *key_pass[1:]) == keys
    assert served_by_tma(call, q, k, v) == tma

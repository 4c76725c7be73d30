"""flash3's backward pass: what it leaves to flash2's, the order of its sums, and, on Hopper, its results."""

from dataclasses import replace

import pytest
import torch
from attention_cases import gradients, largest_difference, on_hopper
from test_flash3 import MASKS, SHAPES

from kernels import attention, reference_attention
from kernels.algorithms.flash3 import backward as flash3_backward
from kernels.algorithms.flash3 import forward as flash3
from kernels.algorithms.flash3.dq_sums import store_sums
from kernels.call.call import Call

CALL = Call(1, 16, 16, 2048, 2048, 128, False, None, 0.1, "flash2", 128, 64, None)
MORE_SHAPES = [*SHAPES[:-1], (3, 16, 16, 300, 400)]  # at last more key blocks than SMs


@pytest.fixture
def in_any_order():
    """PyTorch as it is unless told otherwise: gradients may differ in their last bits."""
    told = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)
    yield
    torch.use_deterministic_algorithms(told)


def test_it_says_what_it_does_not_serve(in_any_order):
    assert flash3_backward.unserved(CALL) is None
    turned = flash3_backward.unserved(replace(CALL, scale=-0.5))
    assert turned == "flash3's backward pass takes a scale above 0, got -0.5"
    torch.use_deterministic_algorithms(True)
    assert "PyTorch is told to fix the order" in flash3_backward.unserved(CALL)


def test_it_pays_unless_few_blocks_take_the_heads_that_share_their_keys():
    shared = replace(CALL, batch=1, heads=8, kv_heads=1, seq_q=1024, seq_kv=1024, causal=True)
    assert not flash3_backward.pays(shared, 132)
    assert flash3_backward.pays(replace(shared, causal=False), 132)  # several take one key block
    assert not flash3_backward.pays(replace(shared, causal=False, seq_q=64), 132)
    assert flash3_backward.pays(replace(shared, kv_heads=8), 132)
    assert flash3_backward.pays(replace(shared, seq_kv=2176), 132)
    assert flash3_backward.pays(replace(shared, head_dim=256), 132)


@pytest.mark.parametrize(
    ("seq", "head_dim", "kv_heads", "window", "together"),
    [
        (1024, 64, 16, None, 4),
        (1024, 128, 16, None, 4),
        (8192, 128, 16, None, 4),  # 4 * 8192 rows of 1 KiB: Q and dO in 16 bits, the sums of dQ in 32
        (8193, 128, 16, None, 3),
        (4096, 64, 16, None, 4),
        (4096, 64, 2, None, 2),  # of 8 query heads each
        (16384, 64, 16, None, 4),
        (16384, 128, 16, None, 2),
        (131072, 128, 16, None, 1),
        (2048, 128, 16, 500, 32),  # rows of two windows
        (2048, 128, 16, 1024, 16),
        (16384, 128, 16, 1024, 16),
        (16384, 128, 16, 4096, 4),
    ],
)
def test_heads_together_fit_half_of_the_l2_and_are_four_at_most_without_a_window(
    seq, head_dim, kv_heads, window, together
):
    call = replace(CALL, seq_q=seq, seq_kv=seq, head_dim=head_dim, kv_heads=kv_heads, window=window)
    assert flash3_backward.heads_together(call, 2, seq) == together


@pytest.mark.parametrize(
    ("head_dim", "seq_q", "seq", "window", "square"),
    [
        (64, 4096, 4096, None, True),
        (64, 4097, 4097, None, False),  # longer ones were slower so
        (64, 16384, 16384, 1024, True),
        (128, 16384, 16384, None, True),
        (128, 1000, 1100, None, False),
        (256, 16384, 16384, None, True),
    ],
)
def test_what_a_mask_hides_at_its_edges_is_skipped_where_that_pays(
    monkeypatch, head_dim, seq_q, seq, window, square
):
    monkeypatch.setattr(flash3, "_descriptor", lambda *how: None)
    monkeypatch.setattr(flash3_backward, "_descriptor_of_terms", lambda *how: None)
    call = replace(CALL, seq_q=seq_q, seq_kv=seq, head_dim=head_dim, causal=True, window=window)
    for masked, squared in ((call, square), (replace(call, causal=False, window=None), False)):
        tensors, score = (torch.empty(0, dtype=torch.float16),) * 8, (1.0, None)
        _, _, arguments = flash3_backward._prepared(
            tensors, masked, None, score, flash3_backward.Beyond(seq_q, seq, seq_q == seq)
        )
        assert arguments["SQUARE"] == squared


def threads_of_accumulator():
    """[128 threads, 32 registers] row and column of a [64, 64] accumulator: PTX ISA, wgmma m64nNk16, D."""
    thread, register = torch.arange(128)[:, None], torch.arange(32)[None, :]
    warp, lane = thread // 32, thread % 32
    row = 16 * warp + lane // 4 + 8 * (register // 2 % 2)
    column = 8 * (register // 4) + 2 * (lane % 4) + register % 2
    return row, column


@pytest.mark.parametrize(("head_dim", "block_q"), [(256, 64), (128, 64), (64, 128)])
@pytest.mark.parametrize("seq_q", [256, 200])
def test_sums_are_in_the_order_of_threads(head_dim, block_q, seq_q, device):
    """Each thread adds 4 registers at a time, its warp's 512 bytes side by side."""
    row, column = threads_of_accumulator()
    d_q = torch.randn(2, 3, 256, head_dim)
    blocks = d_q.view(2, 3, 256 // block_q, block_q, head_dim)
    parts = blocks.split(64, dim=3 if block_q > 64 else 4)
    held = torch.stack(
        [part[..., row, column] for part in parts], 3
    )  # [..., parts, 128 threads, 32 registers]
    sums = held.unflatten(-1, (8, 4)).transpose(-3, -2).reshape(2, 3, 256, head_dim)
    call = Call(2, 3, 3, seq_q, 64, head_dim, False, None, 0.5, "flash2", block_q, 64, None)
    stored = torch.full((2, 3, seq_q, head_dim), torch.nan, device=device)
    store_sums((stored,) * 3, sums.to(device), call, None, 1)
    assert torch.equal(stored.cpu(), 0.5 * d_q[:, :, :seq_q])


def inputs(shape, head_dim, dtype):
    batch, heads, kv_heads, seq_q, seq_kv = shape
    sizes = [(heads, seq_q), (kv_heads, seq_kv), (kv_heads, seq_kv), (heads, seq_q)]
    torch.manual_seed(0)
    return [torch.randn(batch, *size, head_dim, device="cuda").to(dtype) for size in sizes]


def check(shape, head_dim, dtype, causal=False, window=None, scale=None, with_lse=False, change=lambda t: t):
    """O and lse are float64's, the gradients no further from it than twice flash2's are, and a rounding."""
    q, k, v, d_out = map(change, inputs(shape, head_dim, dtype))
    d_lse = torch.randn(q.shape[:3], device="cuda") if with_lse else None
    mask = {"causal": causal, "window": window, "scale": scale}

    def by(algorithm):
        def attend(q, k, v):
            return attention(q, k, v, algorithm=algorithm, return_lse=True, **mask)

        return gradients(attend, (q, k, v), d_out, d_lse)

    def reference(q, k, v):
        return reference_attention(q, k, v, **mask)

    out, lse = attention(q, k, v, algorithm="flash3", return_lse=True, **mask)
    exact_out, exact_lse = reference(q, k, v)
    assert largest_difference(out, exact_out) <= 4 * torch.finfo(dtype).eps * v.abs().max()
    assert largest_difference(lse, exact_lse) <= 2e-3
    exact = gradients(reference, [tensor.double() for tensor in (q, k, v)], d_out.double(), d_lse)
    for ours, others, right in zip(by("flash3"), by("flash2"), exact, strict=True):
        rounding = torch.finfo(dtype).eps * (right.abs().max().item() + 0.01)
        assert ours.dtype == dtype
        assert largest_difference(ours, right) <= 2 * largest_difference(others, right) + rounding


@on_hopper
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", MORE_SHAPES, ids=str)
def test_agrees_with_float64(shape, mask, head_dim, dtype):
    check(shape, head_dim, dtype, *MASKS[mask])


@on_hopper
@pytest.mark.parametrize("shape", [(3, 16, 16, 300, 400), (1, 8, 1, 1024, 300)], ids=str)
def test_gradients_of_keys_that_are_shared_are_the_same_bits_every_time(shape):
    q, k, v, d_out = inputs(shape, 128, torch.float16)

    def attend(q, k, v):
        return attention(q, k, v, algorithm="flash3", return_lse=True)

    (_, *first), (_, *second) = (gradients(attend, (q, k, v), d_out) for _ in range(2))
    assert all(torch.equal(*pair) for pair in zip(first, second, strict=True))


@on_hopper
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("shape", [(1, 4, 2, 300, 200), (1, 4, 2, 500, 500)], ids=str)
def test_lse_has_a_gradient_and_a_scale_is_given(shape, head_dim):
    check(shape, head_dim, torch.float16, causal=True, scale=0.3, with_lse=True)


@on_hopper
@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
        lambda t: torch.cat([t, t], -1)[..., : t.shape[-1]],
    ],
    ids=["heads inside rows", "rows inside wider ones"],
)
def test_strided_tensors(change):
    check((2, 4, 2, 150, 250), 128, torch.float16, change=change)

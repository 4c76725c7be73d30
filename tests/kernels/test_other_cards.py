"""Blocks on GPUs that nobody has here: what the rule says, what compiles, what an AMD GPU is given."""

from dataclasses import replace

import pytest
import torch
from attention_cases import ON_CPU

from kernels import attention, explain, reference_attention, trace_attention
from kernels.algorithms.flash2 import loop_stages, served_by_tma
from kernels.backward.backward import tilings
from kernels.call import device
from kernels.call.call import Call
from kernels.dispatch import dispatch
from kernels.distributed.job import described
from kernels.launch import launch
from kernels.tilings import flash2
from kernels.tilings.backward import tilings as gradient_tilings
from kernels.tilings.device import HOPPER, STAGES, Device

KIB = 1024
CARDS = {
    "t4": Device("sm_75", 64 * KIB),
    "a100": Device("sm_80", 163 * KIB),
    "rtx4090": Device("sm_89", 99 * KIB),
    "b200": Device("sm_100", 227 * KIB),
    "rtx5090": Device("sm_120", 99 * KIB),
    "mi300x": Device("gfx942", 64 * KIB),
    "rx7900": Device("gfx1100", 64 * KIB),
}


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("head_dim", [16, 64, 80, 128, 192, 256])
def test_two_stages_fit_beside_what_stays_at_every_head_dim(card, head_dim):
    """Forward, decoding and both gradients, in 16 bits; bytes are counted here once more."""
    its, row = CARDS[card], 2 * flash2.tile_size(head_dim)
    kept = 0 if its.amd else 1
    for rows in (1, 16, 100, 5000):
        queries, keys = flash2.split_blocks(rows, head_dim, 2, its)
        assert kept * queries * row + STAGES * keys * 2 * row <= its.shared
        assert min(queries, keys) >= 16
    queries, keys = flash2.default_blocks(head_dim, 2, its)
    assert kept * queries * row + STAGES * keys * 2 * row <= its.shared
    by_keys, by_queries = gradient_tilings((head_dim, head_dim), 2, None, None, its)
    for stay, stream in ((by_keys[1], by_keys[0]), by_queries[:2]):
        assert kept * stay * 2 * row + STAGES * stream * 2 * row <= its.shared


def test_hopper_keeps_what_was_measured():
    assert flash2.default_blocks(256, 2) == (128, 64)
    assert flash2.split_blocks(1, 128, 2) == (16, 128)
    assert HOPPER.fitted(512, 512, 1024, 1024) == (512, 512)
    assert HOPPER.warps(32, 512) == 32
    keys, queries = gradient_tilings((128, 128), 2, None, None)
    assert (keys, queries) == ((64, 64, 4, 2), (128, 64, 8, 3))


def on(monkeypatch, card: str) -> None:
    """Tensors on the CPU stand for those of a card."""
    monkeypatch.setattr(device, "WITHOUT_GPU", CARDS[card])
    monkeypatch.setattr(dispatch, "_CHOSEN", {})
    tilings.cache_clear()


@ON_CPU
@pytest.mark.parametrize("card", ["t4", "rtx4090", "mi300x"])
def test_attention_and_gradients_are_right_in_the_blocks_of_a_card(card, monkeypatch):
    on(monkeypatch, card)
    q, k, v = (torch.randn(1, 2, 70, 128, dtype=torch.float32).half().requires_grad_() for _ in range(3))
    out = attention(q, k, v, causal=True)
    exact = reference_attention(q, k, v, causal=True)
    torch.testing.assert_close(out.double(), exact[0].double(), atol=4e-3, rtol=1e-2)
    gradients = torch.autograd.grad(out.float().square().sum(), (q, k, v))
    wanted = torch.autograd.grad(exact[0].double().square().sum(), (q, k, v))
    for found, right in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(found.double(), right.double(), atol=3e-2, rtol=3e-2)


@ON_CPU
def test_what_a_card_lacks_is_said_in_a_sentence(monkeypatch):
    monkeypatch.setattr("kernels.inspection.interpreted", lambda: False)
    q = torch.zeros(1, 2, 70, 128, dtype=torch.float16)
    on(monkeypatch, "rtx4090")
    assert explain(q, q, q, algorithm="flash2") == "flash2 runs: it was asked for"
    on(monkeypatch, "t4")
    said = explain(q, q, q, algorithm="flash2")
    assert said == "flash2 runs: it was asked for; Triton multiplies without tensor cores on sm_75"
    on(monkeypatch, "mi300x")
    with pytest.raises(RuntimeError, match=r"^blocks cannot be traced on gfx942, "):
        trace_attention(q, q, q)
    said = described(q, q, q, False, None, None, "ring", False)
    assert str(said) == "q is on an AMD GPU (gfx942), over several GPUs it must be NVIDIA's"


def test_what_does_not_fit_after_all_is_halved_once_said_and_kept():
    call, ran = Call(1, 1, 1, 64, 64, 64, False, None, 0.1, "flash2", 128, 64, None), []

    def run(asked: Call) -> str:
        ran.append((asked.block_q, asked.block_kv))
        if asked.block_q > 64:
            raise launch.OutOfSharedMemoryError("flash2", 300_000, 101_376, "shared memory")
        return "done"

    with pytest.warns(RuntimeWarning, match="this GPU has 101376: it runs in blocks of 64 x 64$"):
        assert launch.fitting(run, call) == "done"
    assert launch.fitting(run, call) == "done"
    assert ran == [(128, 64), (64, 64), (64, 64)]


def test_blocks_that_are_given_are_never_halved(monkeypatch, device):
    def refuse(*_, **__):
        raise launch.OutOfSharedMemoryError("flash2", 300_000, 101_376, "shared memory")

    refusing = replace(dispatch.ALGORITHMS["flash2"], forward=refuse)
    monkeypatch.setattr(dispatch, "ALGORITHMS", {**dispatch.ALGORITHMS, "flash2": refusing})
    q = torch.zeros(1, 1, 20, 16, device=device)
    with pytest.raises(launch.OutOfSharedMemoryError):
        attention(q, q, q, algorithm="flash2", block_q=64)
    with pytest.warns(RuntimeWarning, match="runs in blocks"), pytest.raises(launch.OutOfSharedMemoryError):
        attention(q, q, q, algorithm="flash2")


@pytest.mark.parametrize(
    ("dims", "stages", "keys", "tma"),
    [
        ((192, 128), 3, (32, 64, 8, 3), True),  # 227 KiB: Q 64, and K and V 48 each time
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
    q, v = (torch.zeros(1, 1, 32, columns, dtype=torch.float16) for columns in dims)
    assert loop_stages(call, q) == stages
    key_pass, _ = tilings(call, torch.float16, None, None)
    assert (key_pass.call.block_q, key_pass.call.block_kv, *key_pass[1:]) == keys
    assert served_by_tma(call, q, q, v) == tma

"""flash3 and FP8: what they refuse and why, what is launched again, and, on a Hopper GPU, their results."""

import math
from dataclasses import replace

import pytest
import torch
from attention_cases import HOPPER, on_hopper

from kernels import attention_fp8, explain, reference_attention
from kernels.algorithms.flash3 import ALGORITHM as FLASH3
from kernels.algorithms.flash3 import forward as flash3
from kernels.algorithms.flash3 import latent, paged, parts
from kernels.algorithms.fp8 import ALGORITHM as FP8
from kernels.algorithms.fp8 import forward as fp8
from kernels.algorithms.fp8.quantise import Quantised
from kernels.algorithms.record import Algorithm
from kernels.call.call import Call, Cut
from kernels.launch.launch import addresses
from kernels.launch.relaunch import flat

SHAPES = [
    (1, 1, 1, 1, 1),
    (2, 4, 2, 127, 129),
    (1, 3, 1, 200, 333),
    (1, 4, 4, 333, 200),
    (1, 8, 2, 1024, 1024),
    (1, 2, 2, 300, 2028),
    (1, 2, 1, 1700, 1700),
]
FEW = 2, 4, 2, 128, 64
MASKS = {"none": (False, None), "causal": (True, None), "one": (False, 1), "window": (True, 100)}
MASKS["wide"] = (True, 896)  # for many keys of d 64 key blocks begin where tiles do


def tensors(batch, heads, kv_heads, seq_q, seq_kv, head_dim=128, dtype=torch.float16, device="cpu"):
    def random(count, rows):
        return torch.randn(batch, count, rows, head_dim, device=device).to(dtype)

    return random(heads, seq_q), random(kv_heads, seq_kv), random(kv_heads, seq_kv)


def test_layouts_that_tma_takes_are_served():
    """Heads inside rows too, and any stride of a single head."""
    q, k, v = tensors(1, 1, 1, 64, 64)
    odd = k.as_strided(k.shape, (1, 3, 128, 1))
    inside = [tensor.transpose(1, 2) for tensor in tensors(2, 64, 64, 4, 4)]
    for served in (tensors(2, 4, 2, 64, 64), inside, (q, odd, v)):
        assert FLASH3.unserved_tensors(*served) is None


@pytest.mark.parametrize(
    ("record", "change", "reason"),
    [
        (FLASH3, lambda t: t.float(), "float16 and bfloat16, got torch.float32"),
        (FLASH3, lambda t: t[..., :84], "head_dim of 64 to 256 in steps of 8, got 84"),
        (FLASH3, lambda t: t[..., :64], "V of the head_dim of Q and K, or of 128 beside 192, got 128 and 64"),
        (FLASH3, lambda t: t[:, :, :0], "no empty tensors, q is"),
        (FLASH3, lambda t: t.transpose(2, 3), "needs head_dim contiguous, q has strides"),
        (FLASH3, lambda t: t[:, :1].expand(t.shape), "strides above 0 in multiples of 16 bytes, q has"),
        (FLASH3, lambda t: torch.cat([t, t[..., :4]], -1)[..., :128], "multiples of 16 bytes, q has strides"),
        (FP8, lambda t: t.float(), "takes float16 and bfloat16, got torch.float32"),
        (FP8, lambda t: t[..., :80], "takes a head_dim of 64, 128 or 256, got 80"),
        (FP8, lambda t: t[..., :64], "of Q and K alone, got 128"),
        (FP8, lambda t: t.mT.contiguous().mT, None),
    ],
)
def test_what_is_not_served_says_why(record, change, reason):
    q, k, v = tensors(*FEW)
    odd = change(q)
    if odd.shape[3] != 128:
        k, v = change(k), v if odd.shape[3] == 64 else change(v)
    if reason is None:
        assert record.unserved_tensors(odd, change(k), change(v)) is None
    else:
        assert reason in record.unserved_tensors(odd, k, v)


@pytest.mark.skipif(HOPPER, reason="a Hopper GPU serves")
def test_without_a_hopper_gpu_it_says_so():
    for name, record in (("flash3", FLASH3), ("fp8", FP8)):
        said = record.unserved_device(torch.device("cpu"), interpreted=False)
        assert f"{name} needs a Hopper GPU" in said
    with pytest.raises(ValueError, match=r"which Triton's interpreter does not run|needs a Hopper GPU"):
        attention_fp8(*tensors(*FEW))


def test_fp8_runs_only_when_asked_for(monkeypatch, device):
    monkeypatch.setattr(Algorithm, "unserved_device", lambda *_: None)
    assert "auto never takes it" in explain(*tensors(*FEW, device=device), algorithm="fp8")
    assert not explain(*tensors(*FEW, device=device)).startswith("fp8")


def zeros(*size, dtype=torch.float16):
    return torch.zeros(size, dtype=dtype)


Q, LATENT, POOL = zeros(1, 2, 256, 128), zeros(1, 2, 1, 576), zeros(4, 16, 2, 128)
TABLE, HELD, COUNTER = (zeros(*size, dtype=torch.int32) for size in ((1, 64), (1,), (1,)))
EIGHT = [zeros(1, 2, *size, dtype=torch.float8_e4m3fn) for size in ((256, 128), (256, 128), (128, 256))]
EIGHT += [zeros(1, 2, blocks, dtype=torch.float32) for blocks in (4, 2, 2)]
GIVEN = {each.data_ptr() for each in (Q, LATENT, POOL, TABLE, HELD, COUNTER, *EIGHT)}
LAUNCHES = {  # what is launched, the call, and how often
    "whole": (lambda call: flash3.flash3(Q, Q, Q, call), {}, 1),
    "split": (lambda call: parts.flash3_split(Q, Q, Q, call), {"splits": 2}, 1),
    "cut": (lambda call: parts.flash3_cut(Q, Q, Q, call), {"cut": Cut(2, 2, 4, 2, 4, 128)}, 2),
    "fp8": (lambda call: fp8.attend(Quantised(*EIGHT, 128), call, Q), {}, 1),
    "pages": (lambda call: paged.flash3_pages(Q, POOL, POOL, TABLE, HELD, call, 0), {"seq_kv": 1024}, 1),
    "latent": (
        lambda call: latent.flash3_latent(LATENT, LATENT[:, :1], LATENT[:, :1, :, :512], call),
        {"kv_heads": 1, "seq_q": 1, "seq_kv": 1, "head_dim": 576, "v_dim": 512, "splits": 2},
        1,
    ),
}


@pytest.mark.parametrize(("attend", "how", "launches"), LAUNCHES.values(), ids=LAUNCHES)
def test_a_launch_is_remembered_with_its_layout(monkeypatch, attend, how, launches):
    """Done again it takes the tensors that it took at first, in their order."""
    first, again = [], []

    def started(kernel, programs, tensors, *_, **__):
        first.append(addresses(flat(tensors)))
        return lambda *taken: again.append(taken)

    for module in (flash3, parts, paged, latent):
        monkeypatch.setattr(module, "started", started)
        monkeypatch.setattr(module, "zeroed_counter", lambda device: COUNTER, raising=False)
        monkeypatch.setattr(module, "combine_splits", lambda *_: None, raising=False)
    monkeypatch.setattr(flash3, "next_counter", lambda device: (None, COUNTER.data_ptr()))
    call = replace(Call(1, 2, 2, 256, 256, 128, True, None, 0.1, "flash3", 128, 64, None), **how)
    for _ in range(2):
        attend(call)
    assert len(first) == len(again) == launches
    for one, other in zip(first, again, strict=True):
        assert all(a == b or a not in GIVEN for a, b in zip(one, other, strict=True))
    attend(replace(call))
    assert len(first) == 2 * launches


def test_every_launch_draws_from_a_counter_of_its_own(monkeypatch):
    monkeypatch.setattr(flash3, "current_stream", lambda device: 0)
    monkeypatch.setattr(flash3, "_counters", {})
    monkeypatch.setattr(flash3, "COUNTERS", 3)
    given = [flash3.next_counter(torch.device("cpu")) for _ in range(7)]
    for held, address in given:
        place = address - held.data_ptr()
        assert place % 16 == 0
        assert 0 <= place < 4 * held.numel()
        assert not held.any()
    assert len({address for _, address in given}) == 7
    assert len({held.data_ptr() for held, _ in given}) == 3


def test_on_a_stream_of_the_users_nothing_outlives_a_call(monkeypatch):
    monkeypatch.setattr(flash3, "current_stream", lambda device: 5)
    monkeypatch.setattr(flash3, "_counters", {})
    held, address = flash3.next_counter(torch.device("cpu"))
    assert (held.tolist(), held.data_ptr()) == ([0], address)
    assert not flash3._counters


@on_hopper
@pytest.mark.parametrize("numbers", ["rotated", "block", "tensor"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fp8_agrees_with_float64_as_far_as_eight_bits_go(shape, head_dim, causal, numbers):
    torch.manual_seed(0)
    q, k, v = tensors(*shape, head_dim, torch.bfloat16, "cuda")
    scales = "tensor" if numbers == "tensor" else "block"
    options = {"rotate": numbers == "rotated", "scales": scales, "return_lse": True}
    out, lse = attention_fp8(q, k, v, causal=causal, **options)
    exact_out, exact_lse = reference_attention(q, k, v, causal=causal)
    assert torch.equal(lse == -math.inf, exact_lse == -math.inf)
    assert (out - exact_out).square().mean() <= (0.12**2 * exact_out.square().mean())
    assert (lse - exact_lse).nan_to_num().abs().max() <= 0.5

"""Which algorithm auto takes, and what `explain` says of it; flash3 where it can be asked for."""

from dataclasses import replace

import pytest
import torch
from attention_cases import ON_CPU, on_hopper

from kernels import attention, explain, launch_options, reference_attention
from kernels.algorithms import _RECORDS, ALGORITHMS
from kernels.algorithms import flash2 as flash2_module
from kernels.algorithms.flash2 import flash2
from kernels.algorithms.record import Algorithm, Backward
from kernels.call.key_ranges import Seen
from kernels.call.terms import Terms
from kernels.dispatch import dispatch

Q = torch.zeros(1, 32, 200, 64, dtype=torch.float16)


class OnGpu(torch.Tensor):
    """A CPU tensor that says it is on a GPU, for what asks no more."""

    is_cuda = True


def on_gpu(monkeypatch, *, reason=None):
    """Choose as on a GPU that flash3 serves, or does not for this reason."""
    monkeypatch.setattr(dispatch, "_CHOSEN", {})
    monkeypatch.setattr(dispatch, "interpreted", lambda: True)
    monkeypatch.setattr(flash2_module, "tma_serves", lambda *arguments: False)
    monkeypatch.setattr(Algorithm, "unserved_device", lambda record, *_: None)
    monkeypatch.setattr(Algorithm, "unserved_tensors", lambda record, *_: reason if record.hopper else None)


def chosen(q=Q, k=Q, **changed):
    options = {"causal": True, "window": None, "scale": None, "algorithm": "auto"}
    options |= {"block_q": None, "block_kv": None, **changed}
    q, k = (tensor.as_subclass(OnGpu) for tensor in (q, k))
    call, reason = dispatch.chosen(q, k, k, **options)
    return call.algorithm, reason


@ON_CPU
def test_without_a_gpu_auto_is_flash2():
    reason = "flash3 is written in Gluon, which Triton's interpreter does not run"
    assert explain(Q, Q, Q) == f"flash2 runs: {reason}"
    assert explain(Q, Q, Q, algorithm="flash1") == "flash1 runs: it was asked for"


NOT_SERVED = "flash3 takes a head_dim of 64 to 256 in steps of 8, got 44"
SHARED = "it takes the queries of 4 heads that share their keys together"
SHORT = 1, 32, 200, 64
CHOICES = {  # shapes of Q and K, what else is given, and what auto takes of it and says
    "where flash3 serves": ((1, 32, 2000, 64), (1, 32, 2000, 64), {}, "flash3", "it on a Hopper GPU"),
    "done before it has started": (SHORT, SHORT, {}, "flash2", "for 200 keys and 64 programs flash3 takes"),
    "more of them": ((3, 32, 200, 64), (3, 32, 200, 64), {}, "flash3", ""),
    "tiles of 64 rows fill the SMs": ((1, 66, 100, 256), (1, 66, 5000, 256), {}, "flash3", ""),
    "half of the SMs": ((1, 30, 100, 256), (1, 30, 5000, 256), {}, "split_kv", ""),
    "where it does not": (SHORT, SHORT, {"reason": NOT_SERVED}, "flash2", NOT_SERVED),
    "blocks": (SHORT, SHORT, {"block_kv": 64}, "flash2", "with blocks given, auto is flash2"),
    "few queries": ((1, 32, 1, 64), (1, 8, 65536, 64), {}, "split_kv", "start 32 programs on 132 SMs"),
    "no SM is idle": ((16, 32, 1, 64), (16, 8, 4096, 64), {}, "split_kv", SHARED),  # but reads four times
    "more queries": ((16, 32, 33, 64), (16, 8, 4096, 64), {}, "flash3", ""),
    "few tiles": ((1, 8, 512, 128), (1, 8, 4096, 128), {"causal": False}, "flash3", "of each tile in 4, so"),
    "few keys": ((1, 8, 1024, 128), (1, 8, 1024, 128), {"causal": False}, "flash3", "auto prefers it"),
    "too few queries": ((1, 32, 64, 128), (1, 8, 16384, 128), {"causal": False}, "split_kv", ""),
}
FASTEST = [  # of few queries of 32 heads, causal, on an H200: each of the others took up to 1.9 times as long
    ((1, 32, 4, 128), (1, 8, 1024, 128), "split_kv"),
    ((4, 32, 8, 128), (4, 8, 512, 128), "flash2"),
    ((4, 32, 16, 128), (4, 8, 1024, 128), "flash2"),
    ((16, 32, 16, 128), (16, 8, 1024, 128), "split_kv"),
    ((1, 32, 32, 128), (1, 32, 1024, 128), "flash2"),
    ((16, 32, 4, 128), (16, 32, 512, 128), "flash3"),
    ((4, 32, 4, 64), (4, 32, 1024, 64), "split_kv"),
    ((4, 32, 16, 64), (4, 32, 512, 64), "flash3"),
    ((4, 32, 32, 64), (4, 8, 1024, 64), "flash2"),
]
CHOICES |= {f"the fastest of {q} and {k}": (q, k, {}, fastest, "") for q, k, fastest in FASTEST}


@pytest.mark.parametrize(("q", "k", "given", "algorithm", "says"), CHOICES.values(), ids=CHOICES)
def test_auto_chooses_and_says_why(monkeypatch, q, k, given, algorithm, says):
    given = dict(given)
    on_gpu(monkeypatch, reason=given.pop("reason", None))
    one = torch.zeros(1, dtype=torch.float16)
    found, reason = chosen(one.expand(*q), one.expand(*k), **given)
    assert found == algorithm
    assert says in reason


def test_the_reason_counts_the_programs_of_flash2_as_it_would_run(monkeypatch):
    """By TMA it takes 64 query rows a program at a head_dim of 64, not 128."""
    on_gpu(monkeypatch)
    monkeypatch.setattr(flash2_module, "tma_serves", lambda *arguments: True)
    assert chosen() == ("flash2", "for 200 keys and 128 programs flash3 takes longer to start")


@pytest.mark.parametrize(("count", "algorithm"), [(100, "flash3"), (101, "flash2")])
def test_documents_of_few_queries_share_tiles_in_flash2(monkeypatch, count, algorithm):
    on_gpu(monkeypatch)
    q, starts = torch.zeros(1, dtype=torch.float16).expand(1, 32, 4800, 64), torch.zeros(count + 1)
    features = Terms(None, seen=Seen((None, 0), None, starts, starts)).features(4800)
    assert chosen(q, q, features=features)[0] == algorithm


def test_a_choice_holds_for_its_own_layout_only(device):
    """It is remembered: for other strides, dtypes or options it is made anew."""
    q = Q.to(device)
    options = (False, None, None, "flash2", None, None)
    first, _ = dispatch.chosen(q, q, q, *options)
    assert dispatch.chosen(q.clone(), q, q, *options)[0] is first
    turned = q.transpose(1, 2).contiguous().transpose(1, 2)
    for other in (q[:, :, 1:], turned, q.float()):
        assert dispatch.chosen(other, other, other, *options)[0] is not first
    assert dispatch.chosen(q, q, q, True, *options[1:])[0].causal
    assert dispatch.chosen(q, q, q, False, 1, *options[2:])[0].window == 1
    with pytest.raises(ValueError, match=r"^window is True, it must be None or a whole number of keys"):
        dispatch.chosen(q, q, q, False, True, *options[2:])


def test_gradients_that_flash3_does_not_serve(monkeypatch, device):
    """Its out and lse, here flash2's, go through the backward pass of flash2."""
    on_gpu(monkeypatch)
    out_of_order = Backward(None, lambda call: "flash3's backward pass is out")
    record = replace(
        ALGORITHMS["flash3"], forward=flash2, prepared=lambda call, *_: call, backward=out_of_order
    )
    monkeypatch.setitem(_RECORDS, "flash3", record)
    q, k, v = (torch.randn(1, 2, 20, 40, device=device).requires_grad_() for _ in range(3))
    expected = torch.autograd.grad(attention(q, k, v, algorithm="flash2").sum(), (q, k, v))
    ours = torch.autograd.grad(attention(q, k, v, algorithm="flash3").sum(), (q, k, v))
    assert all(torch.equal(*pair) for pair in zip(ours, expected, strict=True))


@pytest.fixture
def differentiate(monkeypatch):
    """`gradients` with stand-ins for both backward passes: "first", and "again" where one is remembered."""
    on_gpu(monkeypatch)

    def first(*given):
        if given[-1] is not None:
            given[-1]["gradients"] = lambda *tensors: "again"
        return "first"

    monkeypatch.setattr(dispatch, "backward", first)
    own = replace(ALGORITHMS["flash3"].backward, run=first)
    monkeypatch.setitem(_RECORDS, "flash3", replace(ALGORITHMS["flash3"], backward=own))
    memory, laid_out = {}, torch.zeros(1, 2, 64, 64).half()
    tensors = dict.fromkeys(("q", "k", "v", "out", "d_out"), laid_out) | {"lse": torch.zeros(1, 2, 64)}

    def run(algorithm="auto", **changed):
        q, k, v, out, d_out, lse = (tensors | changed).values()
        options = False, None, None, algorithm, None, None, memory
        return dispatch.gradients(q, k, v, out, lse, d_out, None, *options)

    assert (run(), run()) == ("first", "again")
    return run


UNALIGNED = torch.zeros(2 * 64 * 64 + 1).half()[1:].view(1, 2, 64, 64)


TURNED = torch.zeros(1, 64, 2, 64).half().transpose(1, 2)
OTHERS = [{name: other} for name in ("q", "k", "v", "out", "d_out") for other in (TURNED, UNALIGNED)]
# kernels are compiled for which tensors are aligned: one that takes dO for it would read it at wrong places
OTHERS += [{"q": UNALIGNED, "d_out": UNALIGNED}, {"lse": torch.zeros(2 * 64 + 1)[1:].view(1, 2, 64)}]
OTHERS += [{"algorithm": "flash2"}]


def test_a_backward_pass_is_remembered_by_all_that_it_depends_on(differentiate, monkeypatch):
    """Hooks on saved tensors may hand them back in another layout than the forward pass had."""
    for number in range(2):
        for other in OTHERS:
            assert differentiate(**other) == ("first", "again")[number], other
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    assert differentiate() == "first"


@pytest.mark.parametrize("plain", [True, False])
def test_gradients_from_saved_tensors_that_hooks_laid_out_anew(plain, device):
    q, k, v = (torch.randn(2, 2, 20, 16, device=device).requires_grad_() for _ in range(3))
    slopes = torch.tensor([[0.1, 0.3], [0.0, 0.2]], device=device)
    options = {} if plain else {"softcap": 3.0, "alibi_slopes": slopes}

    def columns_first(tensor):
        return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor

    with torch.autograd.graph.saved_tensors_hooks(columns_first, columns_first):
        out = attention(q, k, v, causal=True, **options)
    exact, _ = reference_attention(q, k, v, causal=True, **options)
    for ours, right in zip(
        *(torch.autograd.grad(each.square().sum(), (q, k, v)) for each in (out, exact)), strict=True
    ):
        torch.testing.assert_close(ours, right, atol=1e-4, rtol=0)


def test_options_that_are_tried_are_neither_remembered_nor_mixed_up_with_what_is(differentiate):
    with launch_options(8, 3):
        assert differentiate() == "first"
        assert differentiate("flash2") == "first"
    assert differentiate("flash2") == "first"
    assert differentiate() == "again"


@pytest.mark.parametrize(
    ("algorithm", "rows", "block_q", "terms", "flash3s"),
    [
        ("flash3", 100, None, None, True),
        ("auto", 100, None, None, True),
        ("auto", 8192, None, None, True),
        ("auto", 8192, 64, None, False),
        ("flash2", 8192, None, None, False),
        ("split_kv", 8192, None, None, False),
        ("auto", 8192, None, Terms(None, seen=Seen((70, None))), True),
        ("auto", 8192, None, Terms(None, softcap=20.0, seen=Seen((9, 9))), True),
        ("auto", 8192, None, Terms(None, softcap=2.0, seen=Seen((9, 9))), False),  # every digit of its tanh
        ("auto", 8192, None, Terms(torch.zeros(1)), False),  # any ranges
        ("flash3", 64, None, Terms(None, seen=Seen((None, 0), None, torch.zeros(9))), False),  # few queries
    ],
)
def test_whose_gradients_an_algorithm_has(monkeypatch, algorithm, rows, block_q, terms, flash3s):
    on_gpu(monkeypatch)
    monkeypatch.setattr(dispatch, "backward", lambda *given: "flash2's")
    own = replace(ALGORITHMS["flash3"].backward, run=lambda *given: "flash3's")
    monkeypatch.setitem(_RECORDS, "flash3", replace(ALGORITHMS["flash3"], backward=own))
    q = torch.zeros(1).half().expand(1, 1, rows, 64)
    ran = dispatch.gradients(
        q, q, q, q, q[..., 0], q.contiguous(), None, False, None, None, algorithm, block_q, None, terms=terms
    )
    assert ran == ("flash3's" if flash3s else "flash2's")


@pytest.mark.parametrize("mask", [(False, None), (True, None), (True, 20)], ids=["none", "causal", "window"])
def test_copies_by_tma_change_no_result(mask, device):
    q = torch.randn(2, 4, 20, 64, device=device).half()
    k, v = torch.randn(2, 2, 2, 60, 64, device=device).half()
    call, _ = dispatch.chosen(q, k, v, *mask, None, "flash2", 16, 32)
    by_tma = flash2(q, k, v, replace(call, tma=True))
    torch.testing.assert_close(by_tma, flash2(q, k, v, call), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("together", [1, 3, 16])
def test_the_order_of_the_heads_changes_no_result(monkeypatch, together, device):
    """Eight heads, three at a time: the last set has two."""
    monkeypatch.setattr("kernels.algorithms.flash2.SHORT", 0)
    monkeypatch.setattr("kernels.algorithms.flash2.HEADS_TOGETHER", {64: together})
    q, k, v = torch.randn(3, 2, 4, 30, 64, device=device).half()
    call, _ = dispatch.chosen(q, k, v, True, None, None, "flash2", 16, 16)
    (out, lse), exact = flash2(q, k, v, replace(call, tma=True)), reference_attention(q, k, v, causal=True)
    torch.testing.assert_close(out.double(), exact[0], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(lse.double(), exact[1], rtol=1e-3, atol=1e-3)


@on_hopper
def test_flash2_copies_by_tma_on_hopper():
    """Unless blocks are given, or the layout is not TMA's."""
    q, k, v = (torch.randn(1, 3, 300, 128, device="cuda").half() for _ in range(3))
    odd = torch.zeros(1, 3, 300, 132, device="cuda").half()[..., :128].copy_(k)
    options = (True, None, None, "flash2")
    assert dispatch.chosen(q, k, v, *options, None, None)[0].tma
    assert not dispatch.chosen(q, k, v, *options, None, 64)[0].tma
    assert not dispatch.chosen(q, odd, v, *options, None, None)[0].tma
    by_tma = attention(q, k, v, causal=True, algorithm="flash2")
    by_pointer = attention(q, odd, v, causal=True, algorithm="flash2")
    torch.testing.assert_close(by_tma, by_pointer, rtol=1e-3, atol=1e-3)


@on_hopper
@pytest.mark.parametrize("mask", [{}, {"causal": True}, {"window": 300}], ids=["none", "causal", "window"])
@pytest.mark.parametrize("rows", [1024, 1152, 1100])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_flash2_is_right_in_each_of_its_tilings(rows, mask, dtype):
    """Up to 1024 keys in blocks of 64 × 64, then of 128 × 128, whose Q stays in registers without a mask."""
    q = torch.randn(2, 4, rows, 128, device="cuda", dtype=dtype)
    k, v = torch.randn(2, 2, 2, rows, 128, device="cuda", dtype=dtype)
    exact, _ = reference_attention(q, k, v, **mask)
    error = (attention(q, k, v, algorithm="flash2", **mask).double() - exact).abs().max()
    assert error <= (4e-3 if dtype == torch.float16 else 3e-2)

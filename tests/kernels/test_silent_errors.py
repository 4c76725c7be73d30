"""What public reports of attention libraries found silently wrong: layouts, numbers, modes and transforms."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from attention_cases import ON_CPU, drawn, largest_difference
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from kernels import (
    OutOfSharedMemoryError,
    attention,
    attention_paged,
    attention_varlen,
    probe_attention,
    reference_attention,
)
from kernels.call import key_ranges
from kernels.flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

# PyTorch warns of itself where its older compiler is first used, as its transforms and its newer one do
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
MASKS = {
    "plain": {"causal": True},
    "terms": {
        "documents": [5, 7], "window": (5, 1), "softcap": 3.0,
        "sinks": torch.tensor([0.3, -1.0]), "alibi_slopes": torch.tensor([0.1, 0.6]),
    },
}  # fmt: skip
ALGORITHMS = ("standard", "flash1", "flash2", "split_kv")
Q, K, V = drawn(3, 2, 2, 12, 16).unbind()
PACKED, STARTS = drawn(12, 2, 16), torch.tensor([0, 5, 12])


def on(mask: dict, device) -> dict:
    return {name: each.to(device) if isinstance(each, torch.Tensor) else each for name, each in mask.items()}


def layouts(numbers: torch.Tensor):
    """The same whole numbers, in other layouts and widths."""
    for dtype in (torch.int32, torch.int64):
        plain = numbers.to(dtype)
        wide = torch.full((*plain.shape, 3), 77, dtype=dtype, device=plain.device)
        wide[..., 1] = plain
        apart = torch.full((2 * len(plain), *plain.shape[1:]), 77, dtype=dtype, device=plain.device)
        apart[1::2] = plain
        yield from (plain, wide[..., 1], apart[1::2], torch._neg_view(-plain))
    if (numbers == numbers[:1]).all():
        yield numbers[:1].expand(numbers.shape)


def paged(device, lengths, table, **more):
    """(O, lse, both caches) of a call that appends."""
    caches = [drawn(6, 4, 1, 16, seed=seed).to(device) for seed in (1, 2)]
    new = {name: drawn(2, 1, 1, 16, seed=3).to(device) for name in ("k_new", "v_new")}
    q = Q[:, :, :2].to(device)
    return *attention_paged(q, *caches, table, lengths, **new, **more, causal=True, return_lse=True), *caches


def from_cache(device, *lengths, **more):
    """(O, lse, both caches) by the adapter."""
    caches = [drawn(3, 8, 1, 16, seed=seed).to(device) for seed in (1, 2)]
    q, new = drawn(2, 2, 2, 16).to(device), drawn(2, 1, 1, 16).to(device)
    more = {"cache_seqlens": lengths[0]} | more if lengths else more
    return *flash_attn_with_kvcache(q, *caches, new, new, **more, return_softmax_lse=True), *caches


@pytest.mark.parametrize("held", [[3, 6], [5, 5]])
def test_whole_numbers_are_read_in_every_layout(held, device):
    lengths, table, rows = (torch.tensor(each, device=device) for each in (held, [[4, 0], [2, 5]], [2, 0]))
    packed, starts, pad = PACKED.to(device), STARTS.to(device), torch.tensor([2, 1], device=device)
    calls = {
        "lengths": (lengths, lambda each: paged(device, each, table)),
        "table": (table, lambda each: paged(device, lengths, each)),
        "cache_seqlens": (lengths, lambda each: from_cache(device, each)),
        "cache_batch_idx": (rows, lambda each: from_cache(device, lengths, cache_batch_idx=each)),
        "cache_leftpad": (pad, lambda each: from_cache(device, lengths, cache_leftpad=each)),
        "cu_seqlens": (starts, lambda each: (attention_varlen(packed, packed, packed, each, each),)),
    }
    alike = held == [5, 5]  # which alone can be expanded
    for name, (numbers, call) in calls.items() if not alike else [*calls.items()][:3:2]:
        expected = call(numbers)
        for number, each in enumerate(layouts(numbers)):
            assert all(map(torch.equal, call(each), expected)), (name, number)


@pytest.mark.parametrize("mask", MASKS)
def test_a_lazily_negated_view_is_negated(mask, device):
    q, k, v = (each.to(device) for each in (Q, K, V))
    arguments = on(MASKS[mask], device)
    lazy = {
        name: torch._neg_view(-each) if isinstance(each, torch.Tensor) else each
        for name, each in arguments.items()
    }

    def gradients(*leaves, **arguments):
        leaves = [each.requires_grad_() for each in leaves]
        out = attention(*leaves, **arguments)
        return out, *torch.autograd.grad(out, leaves, torch._neg_view(torch.ones_like(out)))

    expected = gradients(-q, -k, -v, **arguments)
    ours = gradients(*(torch._neg_view(each.clone()) for each in (q, k, v)), **lazy)
    assert all(map(torch.equal, ours, expected))
    negated = [torch._neg_view(each) for each in (q, k, v)]
    for algorithm in ALGORITHMS:
        plain = attention(-q, -k, -v, **arguments, algorithm=algorithm)
        assert torch.equal(attention(*negated, **lazy, algorithm=algorithm), plain)


@ON_CPU
def test_packed_and_paged_views_are_negated_too(device):
    packed, starts, lengths = PACKED.to(device), STARTS.to(device), torch.tensor([3, 6], device=device)
    negated = torch._neg_view(packed)
    expected = attention_varlen(-packed, -packed, -packed, starts, starts)
    assert torch.equal(attention_varlen(negated, negated, negated, starts, starts), expected)
    options = None, None, None, None, True, None, None, "auto", None, None, None
    q = Q.to(device)
    operator = torch.ops.attention_tiles.attention
    assert torch.equal(operator(torch._neg_view(q), q, q, *options)[0], operator(-q, q, q, *options)[0])
    given = q, q, q, *(each.to(device) for each in (K, V[..., 0], V, K[..., 0]))
    ours, right = (
        torch.ops.attention_tiles.attention_backward(*tensors, *options[:-1])
        for tensors in (map(torch._neg_view, given), (-each for each in given))
    )
    assert all(map(torch.equal, ours, right))
    cache, table = drawn(6, 4, 1, 16).to(device), torch.tensor([[4, 0], [2, 5]], device=device)
    q, lazy = q[:, :, :1], torch._neg_view(cache)
    assert torch.equal(
        attention_paged(-q, -cache, -cache, table, lengths),
        attention_paged(torch._neg_view(q), lazy, lazy, table, lengths),
    )
    assert torch.equal(probe_attention(torch._neg_view(Q), K, V).m, probe_attention(-Q, K, V).m) or device


def by_reference(q, k, v, **mask):
    return reference_attention(q, k, v, **mask)[0].to(q.dtype)


def derivatives(attend, q, k, v) -> dict:
    """What PyTorch's transforms make of an attention."""
    func = torch.func

    def weighted(weight, q):
        return attend(q[None] * weight, q[None], q[None] * weight).sin().sum()

    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(attend(forward_ad.make_dual(q, v), k, forward_ad.make_dual(v, q)))
    weight = torch.ones(16, device=q.device)
    jacobian = partial(torch.autograd.functional.jacobian, lambda q: attend(q, k, v).flatten()[:3], q)
    return {
        "vectorised": jacobian(vectorize=True),
        "traced": make_fx(func.grad(lambda q: attend(q, k, v).sin().sum()))(q)(2 * q),
        "forward over reverse": func.jacfwd(func.grad(lambda w: attend(w * q, k, v).sum()))(weight),
        "functionalised": func.functionalize(attend)(q, k, v),
        "grad": func.grad(lambda q: attend(q, k, v).sin().sum())(q),
        "per sample": func.vmap(func.grad(weighted), (None, 0))(weight, q),
        "jacrev": func.jacrev(lambda q: attend(q, k, v).flatten()[:3])(q),
        "vmap": func.vmap(lambda q: attend(q, k, v), -1)(torch.stack([q, 2 * q], -1)),
        "jvp": func.jvp(attend, (q, k, v), (v, q, k))[1],
        "dual": dual.tangent,
        "primal": dual.primal,
    }


@pytest.mark.parametrize("mask", MASKS)
def test_transforms_of_torch_func_are_served_alike(mask, device):
    arguments, tensors = on(MASKS[mask], device), [each[:1].to(device) for each in (Q, K, V)]
    ours, exact = (
        derivatives(partial(attend, **arguments), *tensors) for attend in (attention, by_reference)
    )
    for name, right in exact.items():
        assert ours[name].shape == right.shape, name
        assert largest_difference(ours[name], right.double()) < 5e-5, name


def test_a_tangent_is_refused_where_nothing_is_differentiated(device):
    q, lengths = Q[:, :, :1].to(device), torch.tensor([3, 6], device=device)
    cache, table = drawn(6, 4, 1, 16).to(device), torch.tensor([[4, 0], [2, 5]], device=device)
    sentence = "^this call is neither differentiated in forward mode nor transformed by torch.func"
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match=sentence):
        attention_paged(forward_ad.make_dual(q, q), cache, cache, table, lengths)
    with pytest.raises(NotImplementedError, match=sentence):
        torch.func.vmap(lambda q: attention_paged(q, cache, cache, table, lengths))(q[None])


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("mask", MASKS)
def test_a_trace_is_of_an_operator(mask, device):
    """Of kernels that run while PyTorch's older tracer looks on, it would keep the room for results alone."""
    arguments, tensors = on(MASKS[mask], device), [each.to(device) for each in (Q, K, V)]
    traced = torch.jit.trace(lambda *given: attention(*given, **arguments), tensors, check_trace=False)
    other = [each + 1 for each in tensors]
    assert torch.equal(traced(*other), attention(*other, **arguments))


def test_fake_tensors_are_served_outside_of_their_mode_too(device):
    mode = FakeTensorMode()
    q, packed, starts = (mode.from_tensor(each.to(device)) for each in (Q, PACKED, STARTS))
    for out in (attention(q, q, q, window=(3, 2)), attention(q, q, q, documents=[5, 7])):
        assert (out.shape, type(out)) == (q.shape, type(q))
    assert attention_varlen(packed, packed, packed, starts, starts).shape == packed.shape
    assert attention(*(each.to(device) for each in (Q, K, V)), window=(3, 2)).isfinite().all()


def test_what_a_transform_worked_out_is_not_kept(device):
    q = drawn(1, 2, 24, 16).to(device)
    torch.func.grad(lambda q: attention(q, q, q, window=(3, 2)).sum())(q)
    kept = key_ranges._RANGES.values()
    assert not any(map(torch._C._functorch.is_functorch_wrapped_tensor, kept))


def test_training_works_after_inference(device):
    q = drawn(1, 2, 23, 16).to(device)
    with torch.inference_mode():
        attention(q, q, q, window=(3, 2))
        attention(q, q, q, documents=[20, 3])
    for mask in ({"window": (3, 2)}, {"documents": [20, 3]}):
        leaf = q.clone().requires_grad_()
        attention(leaf, q, q, **mask).sum().backward()
        assert leaf.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_unfused_scores_of_some_tens_keep_their_digits(dtype, device):
    q, k, v = (drawn(1, 2, rows, 64, seed=rows) for rows in (21, 37, 38))
    q, k, v = ((size * each[..., :37, :]).to(dtype).to(device) for size, each in ((3, q), (1, k), (1, v)))
    exact, exact_lse = reference_attention(q, k, v, scale=1.0, causal=True)
    out, lse = attention(q, k, v, scale=1.0, causal=True, algorithm="standard", return_lse=True)
    assert 40 < exact_lse.abs().max() < 120
    assert largest_difference(out, exact) <= 4 * torch.finfo(torch.bfloat16).eps * v.abs().max()
    assert largest_difference(lse, exact_lse) <= 2**-11 * exact_lse[exact_lse.isfinite()].abs().max()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_unfused_scores_beyond_float16_are_finite(dtype, device):
    """Of 100 thousand and its negative: the first ten keys have all the weight, with their mean of V."""
    q = torch.full((1, 1, 20, 64), 40.0, dtype=dtype, device=device)
    k, v = q.clone(), drawn(1, 1, 20, 64, seed=1).to(dtype).to(device)
    k[:, :, 10:] = -40
    out = attention(q, k, v, scale=1.0, algorithm="standard")
    assert largest_difference(out, v[:, :, :10].double().mean(2, keepdim=True).expand_as(out)) < 0.01


@pytest.mark.parametrize(
    ("dtype", "algorithm"), [(torch.float64, "flash2"), *product([torch.bfloat16], ALGORITHMS)]
)
def test_results_do_not_depend_on_the_default_dtype_or_device(dtype, algorithm, device):
    q, lengths = Q.to(device), torch.tensor([3, 6], device=device)
    table, starts = (torch.tensor(each, device=device) for each in ([[4, 0], [2, 5]], [0, 2]))
    cache = drawn(6, 4, 1, 16).to(device)

    def run():
        out = attention(q, q, q, window=(4, 2), algorithm=algorithm, return_lse=True)
        if algorithm == "split_kv":
            return *out, *paged(device, lengths, table)
        return *out, probe_attention(q, q, q, algorithm=algorithm).m.nan_to_num(99)

    expected = run()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            ours = [attention(q, q, q, window=(4, 2), algorithm=algorithm)]
            if algorithm == "split_kv":
                attention_varlen(q[0], q[0], q[0], starts, starts)
                attention_paged(q, cache, cache, table, lengths, causal=True)
                flash_attn_with_kvcache(q, q, q, cache_seqlens=1)
            ours += [attention(q, q, q, documents=[5, 7], algorithm=algorithm)]
        assert torch.equal(ours[0], expected[0])
        assert all(
            ours.dtype == right.dtype and torch.equal(ours, right)
            for ours, right in zip(run(), expected, strict=True)
        )
    finally:
        torch.set_default_dtype(torch.float32)


def test_an_error_comes_back_from_pickle():
    error = OutOfSharedMemoryError("flash2", 2, 1, "shared memory")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.required, again.limit) == (type(error), str(error), 2, 1)
    assert str(error).startswith("flash2 needs 2 bytes of shared memory a block, this GPU has 1: choose")


def test_numpys_numbers_are_numbers(device):
    kind = np.uint8
    q = Q[:1].to(device).clone().requires_grad_()
    given = {"window": 5, "block_q": 16, "block_kv": 32, "prefix": 4}
    cases = [({name: kind(each)}, {name: each}) for name, each in given.items()]
    cases += [({"causal": np.bool_(True)}, {"causal": True})]
    cases += [({"window": (kind(3), kind(2))}, {"window": (3, 2)})]
    cases += [({"documents": [kind(5), kind(7)]}, {"documents": [5, 7]})]
    cases += [({name: np.float16(0.5)}, {name: 0.5}) for name in ("scale", "softcap")]
    for numpys, pythons in cases:
        results = [attention(q, q, q, **each) for each in (numpys, pythons)]
        assert torch.equal(*results)
        if given.keys() & numpys:  # which hold for both passes
            assert torch.equal(*(torch.autograd.grad(each.sum(), q)[0] for each in results))
    rows = Q.to(device)
    asked = {"window_size": (kind(3), kind(0)), "softmax_scale": np.float32(0.5)}
    same = {"window_size": (3, 0), "softmax_scale": 0.5}
    assert torch.equal(*(flash_attn_func(rows, rows, rows, **each) for each in (asked, same)))
    held = [flash_attn_with_kvcache(rows, rows, rows, cache_seqlens=each) for each in (kind(1), 1)]
    assert torch.equal(*held)


def test_threads_do_not_disturb_one_another(device):
    inputs = [drawn(1, 2, 20, 16, seed=seed).to(device) for seed in range(6)]
    alone = [attention(each, each, each, causal=True) for each in inputs]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda each: attention(each, each, each, causal=True), inputs))
    assert all(map(torch.equal, together, alone))


ROTARY = torch.ones(8, 4)


def over_pages(starts, longest, device):
    cache, table = drawn(6, 4, 1, 16).to(device), torch.tensor([[4, 0], [2, 5]], device=device)
    arguments = PACKED.to(device), cache, cache, starts, torch.tensor([0, 6, 13], device=device)
    return flash_attn_varlen_func(
        *arguments, longest, 8, causal=True, block_table=table, return_attn_probs=True
    )


def test_queries_past_the_last_packed_sequence_give_nothing(device):
    out, lse, _ = over_pages(torch.tensor([0, 5, 10], device=device), 5, device)
    expected, _, _ = over_pages(torch.tensor([0, 5, 12], device=device), 7, device)
    assert not out[10:].any()
    assert (lse[:, 10:] == -torch.inf).all()
    assert torch.equal(out[:5], expected[:5])


def test_what_cannot_be_looked_at_is_not_a_number(monkeypatch, device):
    """On a GPU lengths are not waited for: rows that have no angle, or no place, must not look right."""
    monkeypatch.setattr("kernels.flash_attn.at_hand", lambda _: False)
    starts = STARTS.to(device)
    short, _, _ = over_pages(starts, 6, device)
    right, _, _ = over_pages(starts, 7, device)
    assert short[5].isnan().all()  # the first query of seven
    assert torch.equal(short.isnan().any(-1).any(-1).nonzero().flatten(), torch.tensor([5], device=device))
    assert torch.equal(short[6:], right[6:])
    tables = dict.fromkeys(("rotary_cos", "rotary_sin"), ROTARY[:7].to(device))
    out, *_ = from_cache(device, torch.tensor([3, 7], device=device), **tables)
    assert out[0].isfinite().all()
    assert out[1].isnan().all()


@ON_CPU
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_nested_tensors_are_refused_in_one_sentence(name):
    nested = torch.nested.nested_tensor([drawn(12, 2, 16), drawn(5, 2, 16)], layout=torch.jagged)
    given = dict.fromkeys("qkv", Q) | {name: nested.transpose(1, 2)}
    packed = dict.fromkeys("qkv", PACKED) | {name: nested}
    for call in (
        lambda: attention(**given),
        lambda: attention(**given, window=(1, 1)),
        lambda: attention_varlen(**packed, cu_seqlens_q=STARTS, cu_seqlens_k=STARTS),
    ):
        with pytest.raises(ValueError, match=f"^{name} is sparse or nested"):
            call()


def test_any_call_compiles_into_one_graph_whatever_its_numbers(device):
    """PyTorch compiles for any number where it has seen two: such a number is no float of Python's."""
    q, packed, starts = Q.to(device), PACKED.to(device).requires_grad_(), STARTS.int().to(device)

    def step(packed, number, length):
        out = attention_varlen(packed, packed, packed, starts, starts, causal=True, scale=number)
        out = out + flash_attn_varlen_func(packed, packed, packed, starts, starts, 7, 7, softcap=2.0)
        row = packed.transpose(0, 1)[None] + q[:1]
        return out + attention(row, row, row, softcap=10 * number, window=(length, 1))[0].transpose(0, 1)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=True)
    for given in ((0.3, 3), (0.7, 5)):
        ours, right = (
            torch.autograd.grad(run(packed, *given).sin().sum(), packed)[0] for run in (compiled, step)
        )
        assert largest_difference(ours, right.double()) < 1e-5
    torch.compiler.reset()

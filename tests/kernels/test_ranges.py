"""Windows to both sides, documents, prefixes, caps, sinks and slopes: results and gradients of float64."""

from itertools import product

import pytest
import torch
from attention_cases import ALGORITHMS, DTYPES, Shape, dtype_name, largest_difference, random_qkv

from kernels import attention, explain, reference_attention

SHAPES = [
    Shape("fewer-queries", 2, 1, 9, 21, 24, 16, 16),
    Shape("square", 1, 1, 21, 21, 16, 16, 16),
    Shape("more-queries", 1, 1, 30, 21, 20, 16, 32, batch=2),
]
DOCUMENTS = [6, 0, 1, 12, 2, 0]  # of 21 keys: two are empty, one is a single key
CASES = {
    "both-sides": {"window": (5, 3)},
    "right": {"window": (None, 4)},
    "left": {"window": [6, None]},
    "causal-right": {"causal": True, "window": (9, 3), "softcap": 5.0},
    "documents": {"documents": DOCUMENTS},
    "documents-causal": {"documents": DOCUMENTS, "causal": True},
    "documents-window": {"documents": tuple(DOCUMENTS), "window": (4, 2)},
    "prefix": {"causal": True, "prefix": 9},
    "softcap": {"softcap": 0.7, "scale": 0.9},
    "sinks": {"sinks": 1.0, "causal": True, "window": 7},
    "slopes": {"alibi_slopes": 1.0, "causal": True},
    "everything": {"documents": [12, 9], "window": (8, 8), "softcap": 3.0, "sinks": 4.0, "alibi_slopes": 2.0},
}


def drawn(case: dict, shape: Shape, device) -> dict:
    """The case's arguments; of sinks and slopes it gives the size, and these are drawn."""
    generator = torch.Generator().manual_seed(3)
    arguments = dict(case)
    for name, size in (("sinks", (shape.heads,)), ("alibi_slopes", (shape.batch, shape.heads))):
        if name in case:
            arguments[name] = case[name] * torch.rand(size, generator=generator).to(device)
    return arguments


def grid(algorithms):
    """Cases x algorithms, standard and flash1 in every other; shapes and dtypes in turn."""
    for (c, name), (a, algorithm) in product(enumerate(CASES), enumerate(algorithms)):
        if algorithm in ("standard", "flash1") and (a + c) % 2:
            continue
        shape, dtype = SHAPES[(a + c) % len(SHAPES)], DTYPES[(c // 3 + a) % len(DTYPES)]
        label = f"{name}-{algorithm}-{shape.name}-{dtype_name(dtype)}"
        yield pytest.param(CASES[name], algorithm, shape, dtype, id=label)


def bound(dtype, *tensors) -> float:
    """Four roundings of the largest of the numbers that are added up."""
    return 4 * max(torch.finfo(dtype).eps, 1e-6) * max(tensor.abs().max().item() for tensor in tensors)


@pytest.mark.parametrize(("case", "algorithm", "shape", "dtype"), list(grid(ALGORITHMS)))
def test_output_and_lse_equal_float64(case, algorithm, shape, dtype, device):
    q, k, v = random_qkv(shape, dtype, device, seed=5)
    arguments = drawn(case, shape, device)
    exact, exact_lse = reference_attention(q, k, v, **arguments)
    splits = 2 if algorithm == "split_kv" else None
    out, lse = attention(
        q, k, v, **arguments, algorithm=algorithm, splits=splits, **shape.blocks, return_lse=True
    )
    scores = dtype if algorithm == "standard" else torch.float32
    assert (out.dtype, lse.dtype) == (dtype, torch.float32)
    assert largest_difference(out, exact) <= bound(dtype, v)
    finite = exact_lse[exact_lse.isfinite()]
    assert largest_difference(lse, exact_lse) <= bound(scores, finite, torch.ones(1))


@pytest.mark.parametrize(("case", "algorithm", "shape", "dtype"), list(grid(["flash2"])))
def test_gradients_equal_float64s(case, algorithm, shape, dtype, device):
    arguments = drawn(case, shape, device)
    generator = torch.Generator().manual_seed(8)
    d_out = torch.randn(shape.batch, shape.heads, shape.seq_q, shape.head_dim, generator=generator).to(device)
    d_lse = torch.randn(d_out.shape[:3], generator=generator).to(device)

    def gradients(function, tensors, **options):
        leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
        given = dict(arguments)
        if "sinks" in given:
            leaves.append(given["sinks"].detach().clone().requires_grad_())
            given["sinks"] = leaves[-1]
        out, lse = function(*leaves[:3], **given, **options)
        seen = lse.isfinite()
        return torch.autograd.grad((out * d_out.to(out.dtype)).sum() + (lse * d_lse)[seen].sum(), leaves)

    tensors = random_qkv(shape, dtype, device, seed=6)
    ours = gradients(attention, tensors, algorithm=algorithm, **shape.blocks, return_lse=True)
    exact = gradients(reference_attention, [tensor.double() for tensor in tensors])
    for name, our, right in zip(("dq", "dk", "dv", "d_sinks"), ours, exact, strict=False):
        assert largest_difference(our, right) <= 2 * bound(dtype, right), name


@pytest.mark.parametrize(
    ("window", "causal", "same"),
    [
        ((4, 0), False, {"window": 5}),
        ((None, None), False, {}),
        ((4, 9), True, {"window": 5}),
        ((None, None), True, {"causal": True}),
    ],
)
def test_a_pair_that_a_plain_mask_says_is_that_mask(window, causal, same, device):
    q, k, v = random_qkv(SHAPES[0], torch.float16, device)
    ours = attention(q, k, v, window=window, causal=causal, **SHAPES[0].blocks)
    assert torch.equal(ours, attention(q, k, v, **same, **SHAPES[0].blocks))


def test_a_sink_takes_its_share_of_every_row(device):
    q, k, v = random_qkv(SHAPES[0], torch.float32, device)
    ones = torch.ones_like(v)
    sinks = torch.tensor([0.0, -torch.inf], device=device)
    sums, lse = attention(q, k, ones, sinks=sinks, return_lse=True)
    share = torch.exp(sinks[:, None] - lse)
    assert largest_difference(sums[..., 0], (1 - share).double()) < 1e-5
    assert (sums[:, 1] - 1).abs().max() < 1e-5  # the other head has none
    assert (sums[:, 0] < 0.999).all()


def test_flash3_leaves_caps_that_need_every_digit_to_flash2(device):
    q, k, v = random_qkv(SHAPES[1], torch.float16, device)
    taken = "sides, a prefix, documents, documents of few queries, softcap, sinks and slopes alone"
    assert explain(q, k, v, softcap=300.0).endswith(taken)
    with pytest.raises(ValueError, match=taken):
        attention(q, k, v, softcap=0.5, algorithm="flash3")


@pytest.mark.parametrize("softcap", [1e-35, 1e-3, 50.0, 1e5, 1e8, 1e38])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_cap_of_any_size_keeps_every_digit(softcap, algorithm, device):
    q, k, v = random_qkv(SHAPES[1], torch.float32, device, seed=5)
    options = {"softcap": softcap, "causal": True, "scale": 3.0}
    exact, exact_lse = reference_attention(q, k, v, **options)
    out, lse = attention(q, k, v, algorithm=algorithm, return_lse=True, **options)
    assert largest_difference(out, exact) < 1e-5
    assert largest_difference(lse, exact_lse) < 2e-5  # of 36

"""O, lse and gradients of every algorithm over shapes, masks, terms, dtypes and head dims of V: float64's."""

from itertools import product

import pytest
import torch
from attention_cases import (
    ALGORITHMS,
    DTYPES,
    MASKS,
    RICH,
    SHAPES,
    Shape,
    drawn,
    dtype_name,
    gradients,
    largest_difference,
    random_qkv,
)

from kernels import attention, reference_attention

SMALL = [
    Shape("fewer-queries", 2, 1, 9, 21, 24, 16, 16),
    Shape("square", 1, 1, 21, 21, 16, 16, 16),
    Shape("more-queries", 1, 1, 30, 21, 20, 16, 32, batch=2),
]
DOCUMENTS = [6, 0, 1, 12, 2, 0]  # of 21 keys: two are empty, one is a single key
TERMS = {  # of sinks and slopes the size
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
# V narrower; wider; no powers of two; Q and K in parts
OWN_V = [
    Shape(f"{dim}-beside-{v_dim}", 2, 1, 21, 31, dim, 16, 16, v_dim=v_dim)
    for dim, v_dim in ((24, 16), (16, 40), (7, 33), (192, 16))
]
ALL = {"documents": [20, 11], "softcap": 3.0, "sinks": 1.0, "window": (9, 4)}
OF_V = [  # algorithm, shape, options, dtype
    ("standard", 1, {"causal": True}, 1),
    ("standard", 0, ALL, 2),
    ("flash1", 0, {"causal": True}, 0),
    ("flash1", 2, ALL, 1),
    ("flash2", 0, {"causal": True}, 2),
    ("flash2", 1, {"causal": True}, 1),
    ("flash2", 2, ALL, 0),
    ("flash2", 3, ALL, 0),
    ("flash2", 3, {"causal": True}, 1),
    ("split_kv", 1, {"causal": True}, 0),
    ("split_kv", 0, ALL, 1),
]


def grid():
    """flash2 meets the rich shapes under every mask, the others in turn, as all others do; dtypes too."""
    for (a, algorithm), (s, shape), (m, mask) in product(*map(enumerate, (ALGORITHMS, SHAPES, MASKS))):
        rich = algorithm == "flash2" and shape.name in RICH
        if rich or (m - a - s) % len(MASKS) in (0, 2):
            yield mask, algorithm, shape, MASKS[mask], DTYPES[(a + s + m) % 3]
    for (a, algorithm), (c, name) in product(enumerate(ALGORITHMS), enumerate(TERMS)):
        if algorithm not in ("standard", "flash1") or (a + c) % 2 == 0:
            yield name, algorithm, SMALL[(a + c) % 3], TERMS[name], DTYPES[(c // 3 + a) % 3]
    for algorithm, shape, options, dtype in OF_V:
        yield "terms" if options is ALL else "causal", algorithm, OWN_V[shape], options, DTYPES[dtype]


def bound(dtype, *tensors) -> float:
    """Four roundings of the largest of the numbers that are added up."""
    return 4 * max(torch.finfo(dtype).eps, 1e-6) * max(tensor.abs().max().item() for tensor in tensors)


@pytest.mark.parametrize(
    ("algorithm", "shape", "options", "dtype"),
    [
        pytest.param(*case, id=f"{name}-{case[0]}-{case[1].name}-{dtype_name(case[3])}")
        for name, *case in grid()
    ],
)
def test_results_and_gradients_equal_float64s(algorithm, shape, options, dtype, device):
    options, sizes = dict(options), {"sinks": (shape.heads,), "alibi_slopes": (shape.batch, shape.heads)}
    for name in sizes.keys() & options.keys():
        options[name] = options[name] * drawn(*sizes[name], seed=3).abs().to(device)
    tensors = random_qkv(shape, dtype, device, seed=5)
    splits = 2 if algorithm == "split_kv" and options not in MASKS.values() else None
    ours = {"algorithm": algorithm, "splits": splits, **shape.blocks, "return_lse": True}
    exact, exact_lse = reference_attention(*tensors, **options)
    out, lse = attention(*tensors, **options, **ours)
    assert (out.shape, out.dtype, lse.dtype) == (exact.shape, dtype, torch.float32)
    assert largest_difference(out, exact) <= bound(dtype, tensors[2])
    scores = dtype if algorithm == "standard" else torch.float32
    finite = exact_lse[exact_lse.isfinite()]
    assert largest_difference(lse, exact_lse) <= bound(scores, finite, torch.ones(1))
    if algorithm == "flash2" or (algorithm == "split_kv" and shape.v_dim):  # split_kv's are flash2's
        d_out, d_lse = drawn(*exact.shape, seed=7).to(device), drawn(*lse.shape, seed=8).to(device)
        leaves = [*tensors, *([options.pop("sinks")] if "sinks" in options else [])]

        def run(attend, more):
            def of(q, k, v, sinks=None):
                return attend(q, k, v, sinks=sinks, **options, **more)

            return of

        found = gradients(run(attention, ours), leaves, d_out, d_lse)
        right = gradients(run(reference_attention, {}), [each.double() for each in leaves], d_out, d_lse)
        for name, our, expected in zip(("dq", "dk", "dv", "d_sinks"), found, right, strict=False):
            assert our.dtype == (torch.float32 if name == "d_sinks" else dtype)
            assert largest_difference(our, expected) <= 2 * bound(dtype, expected, torch.ones(1) / 4), name

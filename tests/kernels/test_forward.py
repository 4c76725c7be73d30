"""Every algorithm over shapes, masks and dtypes: about as near to float64 as eager PyTorch is."""

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
    dtype_name,
    eager_attention,
    largest_difference,
    random_qkv,
)

from kernels import attention, reference_attention

ROOMY = Shape("roomy", 2, 1, 24, 40, 32, 16, 32)


def grid():
    """The rich shapes under all masks, the others under two an algorithm, dtypes in turn: all pairs meet."""
    for (a, algorithm), (s, shape), (m, mask) in product(
        enumerate(ALGORITHMS), enumerate(SHAPES), enumerate(MASKS)
    ):
        if shape.name not in RICH and (m - a - s) % len(MASKS) not in (0, 2):
            continue
        dtype = DTYPES[(a + s + m) % len(DTYPES)]
        yield pytest.param(
            algorithm, shape, MASKS[mask], dtype, id=f"{algorithm}-{shape.name}-{mask}-{dtype_name(dtype)}"
        )


def output_bound(q, k, v, exact, mask, rewrites=0, **options):
    """Twice eager PyTorch's error, plus the rounding of the result, plus half an ulp a rewrite."""
    eager_error = largest_difference(eager_attention(q, k, v, **mask, **options)[0], exact)
    ulp = torch.finfo(q.dtype).eps * v.abs().max().item()
    return 2 * eager_error + ulp + rewrites * ulp / 2


def lse_bound(q, k, v, exact_lse, mask, dtype, **options):
    """Twice the error of eager scores of that dtype, plus four float32 roundings of the result."""
    eager_lse = eager_attention(q.to(dtype), k.to(dtype), v.to(dtype), **mask, **options)[1]
    largest = exact_lse[exact_lse.isfinite()].abs().max().item() if exact_lse.isfinite().any() else 0.0
    return 2 * largest_difference(eager_lse, exact_lse) + 4 * torch.finfo(torch.float32).eps * (1 + largest)


def check(algorithm, q, k, v, mask, block_q, block_kv, **options):
    exact, exact_lse = reference_attention(q, k, v, **mask, **options)
    out, lse = attention(
        q, k, v, **mask, **options, algorithm=algorithm, block_q=block_q, block_kv=block_kv, return_lse=True
    )
    assert out.shape == q.shape
    assert out.dtype == q.dtype
    assert lse.dtype == torch.float32
    rewrites = -(-k.shape[2] // block_kv) if algorithm == "flash1" else 0
    score_dtype = q.dtype if algorithm == "standard" else torch.float32
    assert largest_difference(out, exact) <= output_bound(q, k, v, exact, mask, rewrites, **options)
    assert largest_difference(lse, exact_lse) <= lse_bound(q, k, v, exact_lse, mask, score_dtype, **options)


@pytest.mark.parametrize(("algorithm", "shape", "mask", "dtype"), list(grid()))
def test_output_and_lse_equal_float64(algorithm, shape, mask, dtype, device):
    check(algorithm, *random_qkv(shape, dtype, device), mask, **shape.blocks)


def transposed(tensor):
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def every_other_column(tensor):
    return tensor.repeat_interleave(2, -1)[..., ::2]


def off_by_one_element(tensor):
    return torch.cat([tensor.new_zeros(1), tensor.flatten()])[1:].view(tensor.shape)


def columns_first(tensor):
    return tensor.mT.contiguous().mT


@pytest.mark.parametrize("layout", [transposed, every_other_column, off_by_one_element, columns_first])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_any_strides(algorithm, layout, device):
    q, k, v = random_qkv(ROOMY, torch.float16, device)
    strided = [layout(tensor) for tensor in (q, k, v)]
    options = {"causal": True, "algorithm": algorithm, **ROOMY.blocks}
    assert torch.equal(attention(*strided, **options), attention(q, k, v, **options))


def test_keys_expanded_over_heads_are_not_copied(device):
    q, k, v = random_qkv(ROOMY, torch.float16, device)
    shared = attention(q, k.expand(-1, 2, -1, -1), v.expand(-1, 2, -1, -1), **ROOMY.blocks)
    assert torch.equal(shared, attention(q, k, v, **ROOMY.blocks))


def test_output_is_laid_out_like_the_queries(device):
    q, k, v = (transposed(tensor) for tensor in random_qkv(ROOMY, torch.float16, device))
    for algorithm in ALGORITHMS:
        assert attention(q, k, v, algorithm=algorithm).stride() == q.stride()


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


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_given_scale(algorithm, device):
    check(algorithm, *random_qkv(ROOMY, torch.float32, device), {}, **ROOMY.blocks, scale=0.7)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_large_scores_do_not_overflow(algorithm, device):
    q, k, v = random_qkv(ROOMY, torch.float32, device)
    check(algorithm, q * 300, k, v, {"causal": True}, **ROOMY.blocks)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("window", [1, 5, 40, 1000])
def test_a_window_alone_looks_back_only(algorithm, window, device):
    q, k, v = random_qkv(ROOMY, torch.float32, device)
    options = {"window": window, "algorithm": algorithm, **ROOMY.blocks}
    assert torch.equal(attention(q, k, v, **options), attention(q, k, v, causal=True, **options))


def test_auto_is_flash2_with_blocks_of_its_own(device):
    q, k, v = random_qkv(ROOMY, torch.float16, device)
    assert torch.equal(attention(q, k, v), attention(q, k, v, algorithm="flash2", block_q=128, block_kv=64))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_defaults_serve_every_head_dim(algorithm, device):
    for head_dim in (3, 100, 200):
        shape = Shape("", 1, 1, 18, 18, head_dim, 0, 0)
        q, k, v = random_qkv(shape, torch.float32, device)
        assert (
            largest_difference(attention(q, k, v, algorithm=algorithm), reference_attention(q, k, v)[0])
            < 1e-5
        )


def test_nan_in_a_score_reaches_the_rows_that_see_it(device):
    q, k, v = random_qkv(ROOMY, torch.float32, device)
    k[:, :, 34] = torch.nan
    for algorithm in ALGORITHMS:
        out = attention(q, k, v, causal=True, algorithm=algorithm, **ROOMY.blocks)
        assert out[:, :, 18:].isnan().all()
        assert out[:, :, :18].isfinite().all()

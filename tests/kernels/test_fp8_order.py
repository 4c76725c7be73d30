"""FP8's producer and consumers, run as threads on the CPU: none waits for ever, the result is right."""

import math
from itertools import product

import pytest
import torch

from kernels import reference_attention
from kernels.algorithms.flash3 import forward as flash3
from kernels.algorithms.fp8 import forward as fp8
from kernels.algorithms.fp8.quantise import QUERIES, Quantised
from kernels.dispatch.dispatch import checked
from kernels.hopper import fp8 as fp8_kernel

SHAPES = [
    (1, 1, 1, 1, 1),
    (1, 4, 2, 200, 600),
    (2, 1, 1, 450, 130),  # causal rows that see no key
    (1, 2, 2, 130, 450),  # 64 rows see but one key block in part
]
HEAD_DIMS = (64, 128, 256)


@pytest.fixture
def on_threads(put_on_threads):
    put_on_threads(fp8_kernel, "attention_fp8_kernel", flash3, fp8)


def stored(values, keys):
    """V as the kernel takes it: transposed, 0 past the last key, at place 4 t + 2 j + i key 8 j + 2 t + i."""
    whole = torch.zeros(*values.shape[:2], values.shape[3], keys)
    whole[..., : values.shape[2]] = values.mT
    order = [8 * j + 2 * t + i for t in range(4) for j in range(2) for i in range(2)]
    return whole.unflatten(-1, (-1, 16))[..., order].flatten(-2).to(torch.float8_e4m3fn)


def attended(q, k, v, scales, causal=False):
    """(O, lse) of whole numbers in eight bits with scales of q, k and v, logits in units of log2."""
    call = checked(q.half(), k.half(), v.half(), causal, None, math.log(2), "fp8", stand_in=True)
    rows = fp8.TILING[q.shape[-1]]["BLOCK_KV"]
    eight_bits = q.to(torch.float8_e4m3fn), k.to(torch.float8_e4m3fn), stored(v, scales[2].shape[2] * rows)
    quantised = Quantised(*eight_bits, *scales[:2], scales[2].log2(), rows)
    return fp8.attend(quantised, call, torch.empty(q.shape))


def check(shape, head_dim, causal):
    """Against float64 of the same e4m3 numbers: all weights are powers of 2, which rounding leaves alone.

    Logits are whole numbers from -4 to 4 in units of log2, values' scales differ by 2^3 at most: P is 2^-3
    and more.
    """
    torch.manual_seed(0)
    batch, heads, kv_heads, seq_q, seq_kv = shape
    rows = fp8.TILING[head_dim]["BLOCK_KV"]
    q, k = torch.zeros(batch, heads, seq_q, head_dim), torch.zeros(batch, kv_heads, seq_kv, head_dim)
    q[..., :2] = 2 * torch.randint(-1, 2, q[..., :2].shape)
    k[..., :2] = torch.randint(-1, 2, k[..., :2].shape)
    v = torch.randint(-15, 16, k.shape).float()
    key_blocks = -(-seq_kv // rows)
    scales = [
        2.0 ** torch.randint(*exponents, (batch, count, blocks))
        for exponents, count, blocks in (
            ((-1, 1), heads, -(-seq_q // QUERIES)),
            ((0, 1), kv_heads, key_blocks),
            ((-6, -2), kv_heads, key_blocks),
        )
    ]
    whole = [
        tensor.double() * scale.repeat_interleave(block, 2)[:, :, : tensor.shape[2], None]
        for tensor, scale, block in zip((q, k, v), scales, (QUERIES, rows, rows), strict=True)
    ]
    out, lse = attended(q, k, v, scales, causal)
    exact_out, exact_lse = reference_attention(*whole, causal=causal, scale=math.log(2))
    seen = exact_lse > -math.inf
    assert torch.equal(lse == -math.inf, ~seen)
    torch.testing.assert_close(lse[seen].double(), exact_lse[seen], atol=1e-5, rtol=1e-6)
    torch.testing.assert_close(out.double(), exact_out, atol=1e-5 * whole[2].abs().amax().item(), rtol=0)
    assert (out[~seen] == 0).all()


@pytest.mark.parametrize(
    ("head_dim", "causal", "shape"),
    [(HEAD_DIMS[n % 3], causal, shape) for n, (causal, shape) in enumerate(product((False, True), SHAPES))],
    ids=str,
)
def test_partitions_finish_with_the_right_result(on_threads, shape, head_dim, causal):
    check(shape, head_dim, causal)


def test_a_tile_with_one_hidden_pair_is_masked(on_threads):
    """Above the diagonal a corner of a tile is enough."""
    check((1, 1, 1, 300, 363), 128, True)


def attend_blocks(logits, values, v_scales, head_dim):
    """(out, lse) of a query to blocks of 128 keys with these logits, in units of log2.

    All values of a block are a row of values, times 2 to its scale.
    """
    blocks = len(v_scales)
    q, k = torch.zeros(1, 1, 1, head_dim), torch.zeros(1, 1, 128 * blocks, head_dim)
    q[..., 0], k[..., 0] = 1.0, logits
    v = values.repeat_interleave(128, 0)[None, None]
    scales = torch.ones(1, 1, 1), torch.ones(1, 1, blocks), torch.tensor([[v_scales]]).exp2()
    out, lse = attended(q, k, v, scales)
    return out.flatten().double(), lse.item()


@pytest.mark.parametrize(
    ("logits", "v_scales", "head_dim"),
    [
        ((0.0, 5.0, 10.0), (10.0, 12.0, 9.0), 64),
        ((0.0, 5.0, 10.0), (10.0, 12.0, 9.0), 128),
        ((10.0, 5.0, 0.0), (9.0, 12.0, 10.0), 256),
        ((0.0, 0.0, 0.0), (-7.0, 0.0, -30.0), 64),  # small values count as much in the sum
        ((0.0, 0.0, 0.0), (-30.0, -7.0, 0.0), 64),
        ((0.0, 40.0, 80.0, 120.0, 160.0), (0.0,) * 5, 64),  # what is before would be scaled by 2^160
        ((160.0, 120.0, 80.0, 40.0, 0.0), (0.0,) * 5, 64),
    ],
    ids=str,
)
def test_references_follow_scores_and_the_scales_of_values(on_threads, logits, v_scales, head_dim):
    """The last keys are visited first."""
    of_keys = torch.tensor(logits).repeat_interleave(128)
    out, lse = attend_blocks(of_keys, torch.eye(len(logits), head_dim), v_scales, head_dim)
    weights = torch.tensor(logits, dtype=torch.float64).exp2()
    exact = weights * torch.tensor(v_scales, dtype=torch.float64).exp2() / weights.sum()
    least = exact.max().item() * 2.0**-24
    torch.testing.assert_close(out[: len(exact)], exact, rtol=1e-6, atol=least)  # powers of 2 are exact
    assert lse == pytest.approx(math.log(128) + weights.sum().log().item(), rel=1e-6)


def test_many_small_weights_behind_a_large_one_keep_their_sum(on_threads):
    """But in the large one's own block, where half of the keys' are rounded to 0."""
    logits, values = torch.zeros(9 * 128), torch.eye(9, 64)
    logits[-1] = 16.0
    out, lse = attend_blocks(logits, values, (0.0,) * 9, 64)
    total, lost = 2**16 + 9 * 128 - 1, 64
    torch.testing.assert_close(out[:8] / out[0], torch.ones(8).double(), rtol=1e-6, atol=0)
    assert 128 / total <= out[0] <= 128 / (total - lost)
    assert math.log(total - lost) <= lse + 1e-6
    assert lse <= math.log(total) + 1e-6


@pytest.fixture
def weights_over_exact(on_threads):
    """What 256 keys weigh whose logits go from 0 to -14, in units of log2, over the exact weights.

    V is the identity, so that O shows each; the log-sum-exp says what they were divided by.
    """
    below = torch.randint(14 * 256, (256,), generator=torch.Generator().manual_seed(0))
    below[-1] = 0
    q, k = torch.zeros(1, 1, 1, 256), torch.zeros(1, 1, 256, 256)
    q[..., :3] = -torch.tensor([1.0, 2.0**-4, 2.0**-8])
    k[..., :3] = torch.stack((below // 256, below // 16 % 16, below % 16), -1)
    v = torch.eye(256)[None, None]
    out, lse = attended(q, k, v, (torch.ones(1, 1, 1), torch.ones(1, 1, 2), torch.ones(1, 1, 2)))
    return out.flatten().double() * math.exp(lse.item()) / (-below.double() / 256).exp2()


def root_mean_square(numbers):
    return numbers.square().mean().sqrt()


def test_half_of_the_weights_are_rounded_exponentials_the_others_rounded_logits(weights_over_exact):
    ratios = weights_over_exact
    exponentials = torch.arange(256) % 32 >= 16
    errors = ratios - 1
    assert errors[exponentials].abs().max() <= 1 / 17  # half a step, just above a power of 2
    assert 1 / 17 < errors[~exponentials].abs().max() <= 0.08
    assert root_mean_square(errors[exponentials]) == pytest.approx(0.026, rel=0.2)
    assert root_mean_square(errors[~exponentials]) == pytest.approx(0.031, rel=0.2)
    assert abs(errors[~exponentials].mean()) < 3 * 0.031 / (~exponentials).sum().sqrt()

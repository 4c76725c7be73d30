"""The pass before attention in FP8: what it writes, held against numpy in float64."""

import math

import numpy as np
import pytest
import torch

from kernels.algorithms.fp8 import quantise as fp8_quantise
from kernels.algorithms.fp8.quantise import QUERIES, quantise
from kernels.dispatch.dispatch import checked
from kernels.launch.launch import interpreted

LARGEST = 448.0
KEYS = 64
DEVICE = "cpu" if interpreted() else "cuda"


def random_tensors(head_dim, dtype=torch.float16, batch=1, heads=2, kv_heads=1, seq_q=70, seq_kv=100):
    """q, k and v whose rows differ in size, with an outlier in each."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for count, rows in ((heads, seq_q), (kv_heads, seq_kv), (kv_heads, seq_kv)):
        tensor = torch.randn(batch, count, rows, head_dim, generator=generator)
        tensor *= torch.logspace(-2, 1, rows)[:, None]
        tensor[..., rows // 2, 3] = 40.0
        made.append(tensor.to(DEVICE, dtype))
    return made


def quantised(q, k, v, *, rotate=False, one_scale=False):
    return quantise(
        q, k, v, checked(q, k, v, stand_in=True), key_rows=KEYS, rotate=rotate, one_scale=one_scale
    )


def blocks_of(array, rows):
    """[..., blocks, rows, columns] of [..., all rows, columns], with zeros past the last."""
    *outer, length, columns = array.shape
    blocks = -(-length // rows)
    whole = np.zeros((*outer, blocks * rows, columns))
    whole[..., :length, :] = array
    return whole.reshape(*outer, blocks, rows, columns)


def float64(tensor):
    return tensor.cpu().to(torch.float64).numpy()


def check(tensor, found, scales, rows, largest=None):
    """Every number is the nearest to x / scale, and scale the block's largest magnitude over 448."""
    blocks = blocks_of(float64(tensor), rows)
    expected = np.abs(blocks).max((-2, -1)) if largest is None else np.full(blocks.shape[:-2], largest)
    np.testing.assert_allclose(float64(scales), expected / LARGEST, rtol=1e-6)
    nearest = float64(torch.from_numpy(blocks / float64(scales)[..., None, None]).to(torch.float8_e4m3fn))
    got = blocks_of(float64(found), rows)
    off = np.abs(got - nearest)
    assert (off > 0).mean() < 0.01  # where float32's own rounding decides a tie
    assert (off <= np.abs(nearest) / 8 + 2.0**-9).all()


@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.float16), (128, torch.bfloat16)])
def test_queries_and_keys_are_rounded_by_block(head_dim, dtype):
    q, k, v = random_tensors(head_dim, dtype, batch=2)
    found = quantised(q, k, v)
    check(q, found.q, found.q_scales, QUERIES)
    check(k, found.k, found.k_scales, KEYS)


@pytest.mark.parametrize("together", [1, 3, 4])
def test_blocks_are_rotated_alike_whichever_program_takes_them(monkeypatch, together):
    """Of 3 heads' 6 blocks each one by one, 3 and 3, or 4 and 2."""
    q, k, v = random_tensors(128, heads=3, seq_q=350)
    usual = quantised(q, k, v, rotate=True)
    monkeypatch.setattr(fp8_quantise, "TOGETHER", together)
    found = quantised(q, k, v, rotate=True)
    assert torch.equal(found.q.float(), usual.q.float())
    assert torch.equal(found.q_scales, usual.q_scales)


def in_order(values):
    """Keys of V as they were: place 4 t + 2 j + i inside 16 holds key 8 j + 2 t + i."""
    place = {(t, j, i): 4 * t + 2 * j + i for t in range(4) for j in range(2) for i in range(2)}
    order = [place[(key % 8) // 2, key // 8, key % 2] for key in range(16)]
    sixteens = values.reshape(*values.shape[:-1], -1, 16)
    return sixteens[..., order].reshape(values.shape)


@pytest.mark.parametrize("head_dim", [64, 256])
def test_values_are_transposed_with_keys_in_the_operands_order_and_zeros_past_the_last(head_dim):
    q, k, v = random_tensors(head_dim)
    found = quantised(q, k, v)
    assert found.v.shape == (1, 1, head_dim, 128)
    keys_by_rows = in_order(found.v.to(torch.float32)).mT
    check(v, keys_by_rows[:, :, :100].contiguous(), found.v_scales.exp2(), KEYS)
    assert (keys_by_rows[:, :, 100:] == 0).all()


def test_one_scale_is_the_whole_tensors():
    q, k, v = random_tensors(64)
    found = quantised(q, k, v, one_scale=True)
    check(q, found.q, found.q_scales, QUERIES, largest=float(q.abs().max()))
    check(k, found.k, found.k_scales, KEYS, largest=float(k.abs().max()))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of what is multiplied here
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_one_scale_is_that_of_the_sequences_that_are_finite(value):
    """The other's is infinite, so that its own results are NaN."""
    tensors = random_tensors(64, batch=2)
    clean = quantised(*tensors, one_scale=True)
    for each in tensors:
        each[1, 0, 3, 5] = value
    found = quantised(*tensors, one_scale=True)
    for name in ("q", "k", "v", "q_scales", "k_scales", "v_scales"):
        ours, right = getattr(found, name), getattr(clean, name)
        assert torch.equal(ours[0].float(), right[0].float())
        assert name in "qkv" or not ours[1].isfinite().any()


def dequantised(eight_bits, scales, rows):
    blocks = blocks_of(float64(eight_bits), rows) * float64(scales)[..., None, None]
    return blocks.reshape(*eight_bits.shape[:2], -1, eight_bits.shape[-1])[:, :, : eight_bits.shape[2]]


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_a_rotation_leaves_the_scores_and_spreads_an_outlier(head_dim):
    q, k, v = random_tensors(head_dim, heads=1, seq_q=64, seq_kv=64)
    found = quantised(q, k, v, rotate=True)
    turned_q = dequantised(found.q, found.q_scales, QUERIES)
    turned_k = dequantised(found.k, found.k_scales, KEYS)
    scores, exact = turned_q @ turned_k.swapaxes(2, 3), float64(q) @ float64(k).swapaxes(2, 3)
    rows = np.sqrt((float64(q) ** 2).sum(-1))[..., None] * np.sqrt((float64(k) ** 2).sum(-1))[..., None, :]
    assert np.abs(scores - exact).max() <= 2.0**-4 * rows.max()
    spread = np.abs(turned_q[0, 0, 32])
    assert spread.max() < 40 * (1 + 3 * math.sqrt(head_dim) / 40) / math.sqrt(head_dim) * 3
    assert np.sqrt((turned_q**2).sum()) == pytest.approx(np.sqrt((float64(q) ** 2).sum()), rel=0.01)


def test_zeros_stay_zeros_and_those_of_values_have_a_scale_of_one():
    """Attention takes logits with that scale: far below all others they would weigh nothing in the sum."""
    found = quantised(*map(torch.zeros_like, random_tensors(64)), rotate=True)
    assert not any(tensor.float().any() for tensor in (found.q, found.k, found.v))
    assert (found.q_scales > 0).all()
    assert (found.v_scales == 0).all()


def test_strided_heads_are_read_where_they_lie():
    q, k, v = random_tensors(64, heads=2, kv_heads=2)
    plain = quantised(q, k, v)
    found = quantised(*(each.transpose(1, 2).contiguous().transpose(1, 2) for each in (q, k, v)))
    for name in ("q", "k", "v"):
        assert torch.equal(getattr(found, name).float(), getattr(plain, name).float())

"""FP8's producer and consumers, run as threads on the CPU: none waits for ever, the result is right."""

import math
from itertools import product

import pytest
import torch
from gluon_threads import Descriptor, Fp8Kernel

from kernels import flash3, flash3_fp8_kernel, fp8, reference_attention
from kernels.arguments import checked
from kernels.dispatch import ALGORITHMS
from kernels.fp8_quantise import QUERIES, Quantised

SHAPES = [
    (1, 1, 1, 1, 1),
    (1, 4, 2, 200, 600),
    (2, 1, 1, 450, 130),  # causal rows that see no key
    (1, 2, 2, 130, 450),  # 64 rows see but one key block in part
]
HEAD_DIMS = (64, 128, 256)


@pytest.fixture
def on_threads(monkeypatch):
    """The launch with its GPU parts replaced: two blocks of threads share the tiles."""
    monkeypatch.setattr(flash3_fp8_kernel, "attention_fp8_kernel", Fp8Kernel())
    monkeypatch.setattr(flash3, "_descriptor", Descriptor)
    monkeypatch.setattr(fp8, "multiprocessors", lambda device: 2)
    monkeypatch.setattr(flash3, "zeroed_counter", lambda device: torch.zeros(1, dtype=torch.int32))


def eight_bits(*shape):
    return torch.randint(-15, 16, shape).to(torch.float32).to(torch.float8_e4m3fn)


def stored(values, keys):
    """V as the kernel takes it: transposed, 0 past the last key, at place 4 t + 2 j + i key 8 j + 2 t + i."""
    whole = torch.zeros(*values.shape[:2], values.shape[3], keys)
    whole[..., : values.shape[2]] = values.mT
    order = [8 * j + 2 * t + i for t in range(4) for j in range(2) for i in range(2)]
    return whole.unflatten(-1, (-1, 16))[..., order].flatten(-2).to(torch.float8_e4m3fn)


def check(shape, head_dim, causal):
    """Against float64 of the same e4m3 numbers: what is left is P rounded to four bits."""
    torch.manual_seed(0)
    batch, heads, kv_heads, seq_q, seq_kv = shape
    rows = fp8.TILING[head_dim]["BLOCK_KV"]
    q, k = eight_bits(batch, heads, seq_q, head_dim), eight_bits(batch, kv_heads, seq_kv, head_dim)
    v = eight_bits(batch, kv_heads, seq_kv, head_dim).float()
    key_blocks = -(-seq_kv // rows)
    scales = [
        0.05 * 2.0 ** torch.randint(-2, 3, (batch, count, blocks))
        for count, blocks in ((heads, -(-seq_q // QUERIES)), (kv_heads, key_blocks), (kv_heads, key_blocks))
    ]
    whole = [
        tensor.double() * scale.repeat_interleave(block, 2)[:, :, : tensor.shape[2], None]
        for tensor, scale, block in zip((q.float(), k.float(), v), scales, (QUERIES, rows, rows), strict=True)
    ]
    call = checked(
        q.half(), k.half(), v.half(), causal=causal, window=None, scale=0.7, algorithm="fp8",
        algorithms=ALGORITHMS, block_q=None, block_kv=None, splits=None, interpreted=True,
    )  # fmt: skip
    quantised = Quantised(q, k, stored(v, key_blocks * rows), *scales[:2], scales[2].log2(), rows)
    out, lse = fp8.attend(quantised, call, torch.empty(q.shape))
    exact_out, exact_lse = reference_attention(*whole, causal=causal, scale=0.7)
    seen = exact_lse > -math.inf
    assert torch.equal(lse == -math.inf, ~seen)
    torch.testing.assert_close(lse[seen].double(), exact_lse[seen], atol=1e-4, rtol=1e-5)
    largest = whole[2].abs().amax()
    assert (out.double() - exact_out).abs().max() <= largest / 16  # half a step of e4m3, of every weight
    assert (out.double() - exact_out).square().mean() <= (exact_out.square().mean() * 0.03**2)
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

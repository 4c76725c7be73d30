"""FP8's producer and consumers, run as threads on the CPU: none waits for ever, the result is right."""

import math
from itertools import product

import pytest
import torch
from gluon_threads import Descriptor, OnThreads

from kernels import flash3, fp8, reference_attention
from kernels.arguments import checked
from kernels.dispatch import ALGORITHMS
from kernels.fp8_quantise import QUERIES, Quantised
from kernels.hopper import fp8 as fp8_kernel
from kernels.hopper.fp8_softmax import rescale_asm

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
    monkeypatch.setattr(fp8_kernel, "attention_fp8_kernel", OnThreads(fp8_kernel.attention_fp8_kernel))
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


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_blocks_of_larger_scores_and_values_take_over(on_threads, head_dim):
    """Logits of 0, 5 and 10 in units of log2, the last keys' first, beside values of 2^9, 2^12 and 2^10."""
    q, k = torch.zeros(1, 1, 1, head_dim), torch.zeros(1, 1, 384, head_dim)
    q[..., 0], k[..., :128, 0], k[..., 128:256, 0] = 1.0, 2.0, 1.0
    v = torch.eye(3, head_dim).repeat_interleave(128, 0)[None, None]
    call = checked(
        q.half(), k.half(), v.half(), causal=False, window=None, scale=5 * math.log(2), algorithm="fp8",
        algorithms=ALGORITHMS, block_q=None, block_kv=None, splits=None, interpreted=True,
    )  # fmt: skip
    eight_bits = (q.to(torch.float8_e4m3fn), k.to(torch.float8_e4m3fn), stored(v, 384))
    v_scales = torch.tensor([10.0, 12.0, 9.0])
    scales = (torch.ones(1, 1, 1), torch.ones(1, 1, 3), v_scales[None, None])
    out, lse = fp8.attend(Quantised(*eight_bits, *scales, 128), call, torch.empty(q.shape))
    weights = torch.tensor([10.0, 5.0, 0.0]).exp2().double()
    exact = weights * v_scales.exp2().double() / weights.sum()
    torch.testing.assert_close(out[0, 0, 0, :3].double(), exact, rtol=1e-6, atol=0)  # powers of 2 are exact
    assert lse.item() == pytest.approx(math.log(128 * weights.sum()), rel=1e-6)


def run_ptx(asm, given):
    """What inline assembly leaves in its outputs, half as many as it is given; and how often it multiplied.

    A warp of one thread runs it.
    """
    outputs = len(given) // 2
    registers = {f"${outputs + n}": value for n, value in enumerate(given)} | {"0f3F800000": 1.0}
    does = {
        "setp.neu.f32": lambda a, b: a != b,
        "setp.neu.or.f32": lambda a, b, or_this: a != b or or_this,
        "vote.sync.any.pred": lambda a, _threads: a,
        "mov.f32": lambda a: a,
        "mul.f32": lambda a, b: a * b,
    }
    products = 0
    body, end = asm.strip("{} ").removeprefix(".reg .pred p; ").split(" DONE:")
    assert not end.strip()
    for line in body.rstrip(";").split("; "):
        name, operands = line.removeprefix("@!p ").split(" ", 1)
        if name == "bra":
            if not registers["p"]:
                break
            continue
        to, *from_ = operands.split(", ")
        registers[to] = does[name](*(registers.get(each) for each in from_))
        products += name == "mul.f32"
    return [registers[f"${n}"] for n in range(outputs)], products


@pytest.mark.parametrize("factors", [(1.0, 1.0), (0.5, 1.0), (1.0, 0.25), (0.5, 0.25)], ids=str)
def test_only_a_warp_whose_factors_are_all_one_skips_the_products(factors):
    """A thread's numbers are two of a row, two of the other, and so on."""
    numbers = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    by_number = [factors[n // 2 % 2] for n in range(8)]
    found, products = run_ptx(rescale_asm(8), numbers + by_number)
    assert found == [number * factor for number, factor in zip(numbers, by_number, strict=True)]
    assert products == (0 if factors == (1.0, 1.0) else 8)

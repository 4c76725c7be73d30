"""Q, K and V as numbers of 8 bits, e4m3, with a scale for each block of rows: what runs before FP8 attention.

A number x of a block is kept as the e4m3 number nearest to x / scale; scale is the block's largest magnitude
over 448, the largest e4m3 number. Q and K may first be rotated by R = D H / sqrt(head_dim), H the Hadamard
matrix of +1 and -1, D fixed signs on a diagonal: (Q R)(K R)^T is Q K^T, and an outlier spreads over all
columns. V is written transposed, because a product of 8-bit numbers takes only operands whose summed
dimension is contiguous; and the keys inside each 32 change places, so that P is multiplied in the registers
in which the scores leave it. Sources: Shah et al., FlashAttention-3, arXiv 2407.08608, section 3.3; PTX ISA,
register fragments of wgmma.mma_async.m64nNk32.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kernels.call import Call, ceil_div
from kernels.launch import launch, multiprocessors
from kernels.tile import INTERPRETED, head_start, inlined, load_tile, matmul, widened

LARGEST = tl.constexpr(448.0)
SMALLEST = tl.constexpr(1e-20)  # of a block's largest magnitude: a block of zeros needs a scale too
CHUNK = tl.constexpr(128)  # columns that one product rotates
QUERIES = 64  # rows of Q that share a scale: those of a warp group
FEW_NUMBERS = 8192  # of a block, that four warps take
TOGETHER = 4  # blocks that a program rotates by the same matrix, which takes as long to make
PROGRAMS = {128: 2}  # by head dim, an SM's where that was measured to be faster than TOGETHER for all
STAGES, MORE_STAGES = 2, 3  # of these blocks in flight, more of few numbers by so many programs


@inlined
def signs(rows, columns, DTYPE: tl.constexpr):
    """D H at [rows, columns], without its factor: +1 and -1 of 16 bits, made of their bits."""
    shared = rows[:, None] & columns[None, :]
    shared ^= shared >> 4
    shared ^= shared >> 2
    shared ^= shared >> 1  # the parity of the bits that row and column share
    of_row = (rows * 40503) >> 9  # multiplied by 2^16 over the golden ratio: no row's sign tells another's
    negative = (shared ^ of_row[:, None]) & 1
    one = 0x3C00 if tl.float16 == DTYPE else 0x3F80
    return ((negative << 15) | one).to(tl.uint16).to(DTYPE, bitcast=True)


@inlined
def as_e4m3(tile):
    """The nearest e4m3 numbers, ties to even; the interpreter's own cast rounds wrongly, so round before."""
    if INTERPRETED:
        bits = tile.to(tl.uint32, bitcast=True)
        rounded = ((bits + 0x7FFFF + ((bits >> 20) & 1)) & 0xFFF00000).to(tl.float32, bitcast=True)
        tile = tl.where(tl.abs(tile) < 2.0**-6, (tile + 1.5 * 2.0**14) - 1.5 * 2.0**14, rounded)
    return tile.to(tl.float8e4nv)


@inlined
def scale_of(largest, given):
    """A block's scale, from its largest magnitude or the whole tensor's that is given."""
    if given is not None:
        largest = tl.load(given)
    return tl.maximum(largest, SMALLEST) / LARGEST


@triton.jit(do_not_specialize=["heads", "seq", "together"])
def quantise_rows_kernel(
    tensor, quantised, scales, given, strides, quantised_strides, heads, seq, together,
    HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr, ROTATE: tl.constexpr,
):  # fmt: skip
    """One program so many blocks of rows of Q or K: quantised like tensor, scales [batch, heads, blocks]."""
    blocks = tl.cdiv(seq, BLOCK)
    groups = tl.cdiv(blocks, together)
    batch_head = tl.program_id(0) // groups
    batch = batch_head // heads
    head = batch_head % heads
    first = tl.program_id(0) % groups * together
    start = head_start(tensor, strides, batch, head)
    written = head_start(quantised, quantised_strides, batch, head)
    columns = tl.arange(0, HEAD_DIM if HEAD_DIM < CHUNK else CHUNK)
    turn = signs(columns, columns, tensor.dtype.element_ty) if ROTATE else None
    for block in range(first, tl.minimum(first + together, blocks)):
        rows = block * BLOCK + tl.arange(0, BLOCK)
        if HEAD_DIM <= CHUNK:
            tile = load_tile(start, strides, rows, columns, seq, HEAD_DIM, True)
            numbers = turned(tile, turn, HEAD_DIM)
            scale = scale_of(tl.max(tl.max(tl.abs(numbers), 1), 0), given)
            store_rows(written, quantised_strides, rows, columns, seq, numbers, scale)
        else:
            tl.static_assert(HEAD_DIM == 2 * CHUNK)
            left = turned(load_tile(start, strides, rows, columns, seq, CHUNK, True), turn, HEAD_DIM)
            beside = start + CHUNK * strides[3]
            right = turned(load_tile(beside, strides, rows, columns, seq, CHUNK, True), turn, HEAD_DIM)
            if ROTATE:  # H of twice the size is H, H above H, -H
                both = left + right
                right = left - right
                left = both
            largest = tl.max(tl.max(tl.maximum(tl.abs(left), tl.abs(right)), 1), 0)
            scale = scale_of(largest, given)
            store_rows(written, quantised_strides, rows, columns, seq, left, scale)
            store_rows(written, quantised_strides, rows, columns + CHUNK, seq, right, scale)
        tl.store(scales + batch_head * blocks + block, scale)


@inlined
def turned(tile, turn, HEAD_DIM: tl.constexpr):
    """A tile in float32, times D H / sqrt(HEAD_DIM) if that is to turn it."""
    if turn is None:
        return widened(tile)
    else:
        return matmul(tile, turn) * HEAD_DIM**-0.5


@inlined
def store_rows(start, strides, rows, columns, seq, numbers, scale):
    """Write numbers / scale, rounded."""
    at = start + rows.to(tl.int64)[:, None] * strides[2] + columns[None, :]
    tl.store(at, as_e4m3(numbers * (1.0 / scale)), mask=rows[:, None] < seq)


@triton.jit(do_not_specialize=["heads", "seq"])
def quantise_values_kernel(
    tensor, quantised, scales, given, strides, quantised_strides, heads, seq,
    HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program a block of keys of V: quantised [batch, heads, HEAD_DIM, blocks * BLOCK], 0 past the last.

    scales are the scales' log2: attention only multiplies by the ratio of two.

    Of the five bits that count the places inside 32, the keys there have the highest, then bit 1, then bits 3
    and 2, then the lowest: place 4 t + 2 j + i holds key 8 j + 2 t + i.
    """
    blocks = tl.cdiv(seq, BLOCK)
    batch_head = tl.program_id(0) // blocks
    batch = batch_head // heads
    head = batch_head % heads
    places = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    keys = (places & -15) | ((places & 2) << 2) | ((places & 12) >> 1)
    columns = tl.arange(0, HEAD_DIM)
    start = head_start(tensor, strides, batch, head)
    numbers = widened(load_tile(start, strides, keys, columns, seq, HEAD_DIM, True))
    scale = scale_of(tl.max(tl.max(tl.abs(numbers), 1), 0), given)
    written = head_start(quantised, quantised_strides, batch, head)
    at = written + columns[:, None] * quantised_strides[2] + places[None, :]
    tl.store(at, tl.trans(as_e4m3(numbers * (1.0 / scale))))
    tl.store(scales + tl.program_id(0), tl.log2(scale))


@dataclass(frozen=True)
class Quantised:
    """Q, K and V in e4m3: what attention in FP8 reads.

    q and k are [batch, heads, seq, head_dim], contiguous; v is [batch, kv_heads, head_dim, keys], keys being
    whole blocks of key_rows, in the order that `quantise_values_kernel` says and 0 past the last. Scales are
    float32 [batch, heads, blocks], of QUERIES rows of q, and of key_rows rows of k and, as log2, of v.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    q_scales: torch.Tensor
    k_scales: torch.Tensor
    v_scales: torch.Tensor
    key_rows: int


def quantise(q, k, v, call: Call, *, key_rows: int, rotate: bool, one_scale: bool) -> Quantised:
    """Q, K and V in e4m3; one_scale: a tensor's blocks all have the scale of its largest magnitude."""
    whole = [_largest(tensor) if one_scale else None for tensor in (q, k, v)]
    key_blocks = ceil_div(call.seq_kv, key_rows)
    eight_bits = {"dtype": torch.float8_e4m3fn, "device": q.device}
    q8, k8 = (torch.empty(tensor.shape, **eight_bits) for tensor in (q, k))
    v8 = torch.empty((*v.shape[:2], call.head_dim, key_blocks * key_rows), **eight_bits)
    q_scales = torch.empty((*q.shape[:2], ceil_div(call.seq_q, QUERIES)), device=q.device)
    k_scales, v_scales = (torch.empty((*k.shape[:2], key_blocks), device=q.device) for _ in range(2))
    for tensor, to, scales, largest, rows in (
        (q, q8, q_scales, whole[0], QUERIES),
        (k, k8, k_scales, whole[1], key_rows),
    ):
        together = TOGETHER
        if call.head_dim in PROGRAMS:
            together = ceil_div(scales.numel(), PROGRAMS[call.head_dim] * multiprocessors(q.device))
        options = {"BLOCK": rows, "ROTATE": rotate, "together": together}
        programs = scales.shape[0] * scales.shape[1] * ceil_div(scales.shape[2], together)
        _launched(quantise_rows_kernel, programs, call, (tensor, to, scales, largest), options)
    options = {"BLOCK": key_rows}
    _launched(quantise_values_kernel, v_scales.numel(), call, (v, v8, v_scales, whole[2]), options)
    return Quantised(q8, k8, v8, q_scales, k_scales, v_scales, key_rows)


def _largest(tensor: torch.Tensor) -> torch.Tensor:
    """The largest magnitude, a float32; in one pass, where abs would write another tensor first."""
    low, high = tensor.aminmax()
    return torch.maximum(-low, high).float()


def _launched(kernel, programs: int, call: Call, tensors: tuple, options: dict) -> None:
    tensor, to, _, _ = tensors
    few = options["BLOCK"] * call.head_dim <= FEW_NUMBERS
    launch(
        kernel,
        programs,
        call,
        tensors,
        num_warps=4 if few else 8,
        num_stages=MORE_STAGES if few and call.head_dim in PROGRAMS else STAGES,
        strides=tensor.stride(),
        quantised_strides=to.stride(),
        heads=tensor.shape[1],
        seq=tensor.shape[2],
        HEAD_DIM=call.head_dim,
        **options,
    )

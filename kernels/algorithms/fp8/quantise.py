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

from kernels.call.call import Call, ceil_div
from kernels.launch.launch import launch
from kernels.tile.tile import INTERPRETED, ROUND_ASM, head_start, inlined, load_tile, matmul, widened

LARGEST = tl.constexpr(448.0)
SMALLEST = tl.constexpr(1e-20)  # of a block's largest magnitude but 0: scales have an inverse
CHUNK = tl.constexpr(128)  # columns that one product rotates
QUERIES = 64  # rows of Q that share a scale: those of a warp group
TOGETHER = 8  # blocks that a program rotates by the same matrix, which takes as long to make as four of them


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
    """A block's scale, from its largest magnitude or the sequence's that is given; 1 of zeros."""
    if given is not None:
        largest = tl.load(given)
    return tl.where(largest == 0.0, 1.0, tl.maximum(largest, SMALLEST) / LARGEST)


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "seq_kv", "together", "of_q", "of_k"])
def quantise_kernel(
    q, k, v, strides, heads, kv_heads, seq_q, seq_kv, together, of_q, of_k,
    HEAD_DIM: tl.constexpr, QUERY_ROWS: tl.constexpr, KEY_ROWS: tl.constexpr, ROTATE: tl.constexpr,
):  # fmt: skip
    """The first `of_q` programs quantise blocks of Q, `together` each, then `of_k` of K, the others one of V.

    q, k and v are each (what is read, its 8 bits, its scales, each sequence's scale or None); what is
    written is as `Quantised` has it.
    """
    program = tl.program_id(0)
    if program < of_q:
        quantise_rows(q, strides[0], heads, seq_q, together, program, HEAD_DIM, QUERY_ROWS, ROTATE)
    elif program < of_q + of_k:
        quantise_rows(k, strides[1], kv_heads, seq_kv, together, program - of_q, HEAD_DIM, KEY_ROWS, ROTATE)
    else:
        quantise_values(v, strides[2], kv_heads, seq_kv, program - of_q - of_k, HEAD_DIM, KEY_ROWS)


@inlined
def quantise_rows(
    tensors, strides, heads, seq, together, program,
    HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr, ROTATE: tl.constexpr,
):  # fmt: skip
    """So many blocks of rows of Q or K; one where they are not rotated."""
    tensor, to, scales, given = tensors
    blocks = tl.cdiv(seq, BLOCK)
    groups = tl.cdiv(blocks, together)
    batch_head = program // groups
    start = head_start(tensor, strides, batch_head // heads, batch_head % heads)
    written = to + batch_head.to(tl.int64) * seq * HEAD_DIM
    scales += batch_head * blocks
    if given is not None:
        given += batch_head // heads
    first = program % groups * together
    if ROTATE:
        columns = tl.arange(0, HEAD_DIM if HEAD_DIM < CHUNK else CHUNK)
        turn = signs(columns, columns, tensor.dtype.element_ty)
        for block in range(first, tl.minimum(first + together, blocks)):
            quantise_block(start, strides, written, scales, given, seq, block, turn, HEAD_DIM, BLOCK)
    else:
        quantise_block(start, strides, written, scales, given, seq, first, None, HEAD_DIM, BLOCK)


@inlined
def quantise_block(
    start, strides, written, scales, given, seq, block, turn, HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr
):
    """A block of a head's rows, times `turn` if that is not None."""
    columns = tl.arange(0, HEAD_DIM if HEAD_DIM < CHUNK else CHUNK)
    rows = block * BLOCK + tl.arange(0, BLOCK)
    if HEAD_DIM <= CHUNK:
        tile = load_tile(start, strides, rows, columns, seq, HEAD_DIM, True)
        numbers = turned(tile, turn, HEAD_DIM)
        scale = scale_of(tl.max(tl.max(tl.abs(numbers), 1), 0), given)
        store_rows(written, rows, columns, seq, numbers, scale, HEAD_DIM)
    else:
        tl.static_assert(HEAD_DIM == 2 * CHUNK)
        left = turned(load_tile(start, strides, rows, columns, seq, CHUNK, True), turn, HEAD_DIM)
        beside = start + CHUNK * strides[3]
        right = turned(load_tile(beside, strides, rows, columns, seq, CHUNK, True), turn, HEAD_DIM)
        if turn is not None:  # H of twice the size is H, H above H, -H
            both = left + right
            right = left - right
            left = both
        largest = tl.max(tl.max(tl.maximum(tl.abs(left), tl.abs(right)), 1), 0)
        scale = scale_of(largest, given)
        store_rows(written, rows, columns, seq, left, scale, HEAD_DIM)
        store_rows(written, rows, columns + CHUNK, seq, right, scale, HEAD_DIM)
    tl.store(scales + block, scale)


@inlined
def turned(tile, turn, HEAD_DIM: tl.constexpr):
    """A tile in float32, times D H / sqrt(HEAD_DIM) if that is to turn it."""
    if turn is None:
        return widened(tile)
    else:
        return matmul(tile, turn) * HEAD_DIM**-0.5


@inlined
def store_rows(start, rows, columns, seq, numbers, scale, HEAD_DIM: tl.constexpr):
    """Write numbers / scale, rounded."""
    at = start + rows.to(tl.int64)[:, None] * HEAD_DIM + columns[None, :]
    tl.store(at, as_e4m3(numbers * (1.0 / scale)), mask=rows[:, None] < seq)


@inlined
def quantise_values(tensors, strides, heads, seq, program, HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr):
    """A block of keys of V.

    Of the five bits that count the places inside 32, the keys there have the highest, then bit 1, then bits 3
    and 2, then the lowest: place 4 t + 2 j + i holds key 8 j + 2 t + i. Those with the same t are four
    numbers of each column that one thread loads, so that fours of them change places, not bytes.
    """
    tensor, to, scales, given = tensors
    blocks = tl.cdiv(seq, BLOCK)
    batch_head = program // blocks
    fours = program % blocks * (BLOCK // 4) + tl.arange(0, BLOCK // 4)
    keys = fours // 4 * 16 + fours % 4 * 2
    columns = tl.arange(0, HEAD_DIM)
    if given is not None:
        given += batch_head // heads
    start = head_start(tensor, strides, batch_head // heads, batch_head % heads)
    first = widened(load_tile(start, strides, keys, columns, seq, HEAD_DIM, True))
    second = widened(load_tile(start, strides, keys + 1, columns, seq, HEAD_DIM, True))
    third = widened(load_tile(start, strides, keys + 8, columns, seq, HEAD_DIM, True))
    fourth = widened(load_tile(start, strides, keys + 9, columns, seq, HEAD_DIM, True))
    early, late = tl.maximum(tl.abs(first), tl.abs(second)), tl.maximum(tl.abs(third), tl.abs(fourth))
    scale = scale_of(tl.max(tl.max(tl.maximum(early, late), 1), 0), given)
    inverse = 1.0 / scale
    four = four_bytes(first * inverse, second * inverse, third * inverse, fourth * inverse)
    row = blocks * (BLOCK // 4)
    written = to.to(tl.pointer_type(tl.uint32)) + batch_head.to(tl.int64) * HEAD_DIM * row
    tl.store(written + columns[:, None] * row + fours[None, :], tl.trans(four))
    tl.store(scales + program, tl.log2(scale))


@inlined
def four_bytes(first, second, third, fourth):
    """Four numbers in e4m3, the first in the lowest byte."""
    if INTERPRETED:
        low = byte(first) | byte(second) << 8
        return low | byte(third) << 16 | byte(fourth) << 24
    else:
        numbers = [first, second, third, fourth]
        return tl.inline_asm_elementwise(ROUND_ASM, "=r,f,f,f,f", numbers, tl.uint32, is_pure=True, pack=1)


@inlined
def byte(numbers):
    """Numbers in e4m3 as the lowest bytes of 32 bits."""
    return as_e4m3(numbers).to(tl.uint8, bitcast=True).to(tl.uint32)


@dataclass(frozen=True)
class Quantised:
    """Q, K and V in e4m3: what attention in FP8 reads.

    q and k are [batch, heads, seq, head_dim], contiguous; v is [batch, kv_heads, head_dim, keys], keys being
    whole blocks of key_rows, in the order that `quantise_values` says and 0 past the last. Scales are float32
    [batch, heads, blocks], of QUERIES rows of q, and of key_rows rows of k and, as attention only multiplies
    by the ratio of two, as log2 of v.
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
    q_scales = torch.empty(
        (*q.shape[:2], ceil_div(call.seq_q, QUERIES)), dtype=torch.float32, device=q.device
    )
    k_scales, v_scales = (q_scales.new_empty((*k.shape[:2], key_blocks)) for _ in range(2))
    together = TOGETHER if rotate else 1
    of_q, of_k = (
        scales.shape[0] * scales.shape[1] * ceil_div(scales.shape[2], together)
        for scales in (q_scales, k_scales)
    )
    launch(
        quantise_kernel,
        of_q + of_k + v_scales.numel(),
        call,
        tuple(zip((q, k, v), (q8, k8, v8), (q_scales, k_scales, v_scales), whole, strict=True)),
        num_warps=4 if call.head_dim <= CHUNK and not rotate else 8,
        num_stages=2,
        strides=(q.stride(), k.stride(), v.stride()),
        heads=call.heads,
        kv_heads=call.kv_heads,
        seq_q=call.seq_q,
        seq_kv=call.seq_kv,
        together=together,
        of_q=of_q,
        of_k=of_k,
        HEAD_DIM=call.head_dim,
        QUERY_ROWS=QUERIES,
        KEY_ROWS=key_rows,
        ROTATE=rotate,
    )
    return Quantised(q8, k8, v8, q_scales, k_scales, v_scales, key_rows)


def _largest(tensor: torch.Tensor) -> torch.Tensor:
    """The largest magnitude, float32 [batch]; infinite for the sequences alone that are not finite."""
    every = tuple(range(1, tensor.dim()))
    largest = torch.maximum(-tensor.amin(every), tensor.amax(every)).float()
    finite = largest.isfinite()
    return torch.where(finite, torch.where(finite, largest, 0.0).max(), torch.inf)

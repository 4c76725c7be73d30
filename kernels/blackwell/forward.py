"""FlashAttention-4's forward pass for Blackwell (compute capability 10.0), in Gluon. NEVER RUN ON THE CHIP.

It is compiled for sm_100 without a GPU, and run thread by thread on a CPU, where its results are float64's;
this project has no Blackwell GPU, so nothing is known of its speed, and `attention` does not take it. Head
dims 64 and 128, no mask or causal. A block of threads takes two tiles of 128 queries of a head:

- a warp copies Q, and K and V in turns, by TMA;
- a warp issues the products: of each tile in turn P V of a key block, then Q Kᵀ of the next;
- two warp groups have a tile's softmax each, a row a thread: S comes from tensor memory, P takes its place;
- a fourth group rescales O in tensor memory where a maximum rises by more than 2^8, and at last divides it.

Source: Zadouri et al., FlashAttention-4, arXiv 2603.05451. A quarter of the exponentials are polynomials.
"""

import math

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    get_tmem_reg_layout,
    tcgen05_mma,
)
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from kernels.algorithms.flash3.forward import _descriptor
from kernels.hopper.buffer_queue import blocks_for, make_barriers, make_queue
from kernels.hopper.forward import load
from kernels.hopper.warp_group import LN_2, aggregate

ROWS = gl.constexpr(128)  # of a query tile: a row a thread of its softmax group
KEYS = gl.constexpr(128)
PART = gl.constexpr(32)  # columns of S, P or O that a thread has in registers at once
KV_BUFFERS = gl.constexpr(4)
THRESHOLD = gl.constexpr(8.0)  # in log2
SOFTMAX_REGISTERS, ISSUER_REGISTERS = gl.constexpr(192), gl.constexpr(40)  # of a thread
# of 2^x from 0 to 1, the highest power first: off by 8.6e-5 of it at most
CUBIC, SQUARE, LINEAR = gl.constexpr(0.07706705), gl.constexpr(0.22764498), gl.constexpr(0.69511679)


@gluon.constexpr_function
def _registers_of(columns):
    """Who holds what of a tile's part in registers: a row a thread."""
    return get_tmem_reg_layout(
        gl.float32, [128, columns], TensorMemoryLayout((128, columns), col_stride=1), 4
    )


@gluon.constexpr_function
def _tile_memory(columns):
    """Tensor memory of a tile of so many columns."""
    return TensorMemoryLayout((128, columns), col_stride=1)


PART_ROWS = gl.constexpr(gl.SliceLayout(1, _registers_of(32)))  # a number a row


@aggregate
class Block:
    """What the groups of one block of threads share: its tiles' place, tensor memory, and barriers.

    Barriers are a pair each, one a tile: `scored` (S is there), `weighed` (P is), `corrected` (O is
    rescaled), `known` and `read` (α is in `alphas`, and was read), `summed` (all of O is there).
    """

    query: object  # the first row
    batch: object
    head: object
    blocks: object  # key blocks, the last first
    seq_kv: object
    offset: object  # keys before the first query's own
    scale_log2: object
    s: object
    o: object
    alphas: object
    scored: object
    weighed: object
    corrected: object
    known: object
    read: object
    summed: object
    CAUSAL: gl.constexpr


@gluon.jit
def _copy(block, q_tensor, k_tensor, v_tensor, queries, keys, heads_per_kv_head):
    """The copying warp: Q of both tiles, and K and V of the key blocks in turns, the last first."""
    kv_head = block.head // heads_per_kv_head
    key = (block.blocks - 1) * KEYS
    load(queries, 0, q_tensor, block.batch, block.head, block.query)
    load(keys, 0, k_tensor, block.batch, kv_head, key)
    load(queries, 1, q_tensor, block.batch, block.head, block.query + ROWS)
    load(keys, 1, v_tensor, block.batch, kv_head, key)
    for visit in range(1, block.blocks):
        key -= KEYS
        load(keys, 2 * visit, k_tensor, block.batch, kv_head, key)
        load(keys, 2 * visit + 1, v_tensor, block.batch, kv_head, key)


@gluon.jit
def _weights_of(block, tile: gl.constexpr, DTYPE: gl.constexpr):
    """P of a tile, where its S was."""
    return block.s.index(tile).slice(0, KEYS // 2)._reinterpret(DTYPE, [ROWS, KEYS], _tile_memory(KEYS))


@gluon.jit
def _score(block, queries, keys, visit, tile: gl.constexpr, D: gl.constexpr):
    """Q Kᵀ of a tile; after the second, K's buffer is free."""
    q = queries.block(tile).reshape([ROWS, D])
    k = keys.block(visit).reshape([KEYS, D]).permute((1, 0))
    s = block.s.index(tile)
    if tile == 0:
        tcgen05_mma(q, k, s, use_acc=False, mbarriers=[block.scored.index(0)])
    else:
        freed = keys.empty.index(keys.buffer(visit))
        tcgen05_mma(q, k, s, use_acc=False, mbarriers=[block.scored.index(1), freed])


@gluon.jit
def _weigh(block, keys, visit, tile: gl.constexpr, first, last, D: gl.constexpr, DTYPE: gl.constexpr):
    """P V of a tile into its O; after the second, V's buffer is free."""
    v = keys.block(visit).reshape([KEYS, D])
    P, o = _weights_of(block, tile, DTYPE), block.o.index(tile)
    summed = block.summed.index(tile)
    if tile == 0:
        tcgen05_mma(P, v, o, use_acc=not first, mbarriers=[summed], mbarrier_preds=[last])
    else:
        freed = keys.empty.index(keys.buffer(visit))
        tcgen05_mma(P, v, o, use_acc=not first, mbarriers=[summed, freed], mbarrier_preds=[last, True])


@gluon.jit
def _multiply(block, queries, keys, D: gl.constexpr, DTYPE: gl.constexpr):
    """The warp that issues all products: barriers hear of one when it and all before it are done."""
    keys.wait_full(0)
    for tile in gl.static_range(2):
        queries.wait_full(tile)
        _score(block, queries, keys, 0, tile, D)
    for visit in range(block.blocks):
        more = visit + 1 < block.blocks
        keys.wait_full(2 * visit + 1)
        for tile in gl.static_range(2):
            mbarrier.wait(block.weighed.index(tile), visit & 1)
            if visit > 0:
                mbarrier.wait(block.corrected.index(tile), (visit - 1) & 1)
            _weigh(block, keys, 2 * visit + 1, tile, visit == 0, visit + 1 == block.blocks, D, DTYPE)
            if more:
                if tile == 0:
                    keys.wait_full(2 * visit + 2)
                _score(block, queries, keys, 2 * visit + 2, tile, D)


@gluon.jit
def _part(block, tile: gl.constexpr, part: gl.constexpr, key, masked):
    """A part of S in log2 units, -inf where it is masked."""
    LAYOUT: gl.constexpr = _registers_of(PART)
    S = block.s.index(tile).slice(part * PART, PART).load(LAYOUT) * block.scale_log2
    if masked:
        columns = key + part * PART + gl.arange(0, PART, gl.SliceLayout(0, LAYOUT))[None, :]
        rows = block.query + tile * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))[:, None]
        seen = columns < block.seq_kv
        if block.CAUSAL:
            seen = seen & (columns <= rows + block.offset)
        S = gl.where(seen, S, float("-inf"))
    return S


@gluon.jit
def _power_of_two(whole):
    """2^x of whole numbers, by putting them where a float32 has its exponent."""
    return ((whole.to(gl.int32) + 127) << 23).to(gl.float32, bitcast=True)


@gluon.jit
def _exp2_by_polynomial(x):
    """2^x by sums and products alone, for x up to THRESHOLD; 0 from -127 on."""
    bounded = gl.maximum(x, -127.0)
    whole = gl.floor(bounded)
    part = bounded - whole
    part = ((CUBIC * part + SQUARE) * part + LINEAR) * part + 1.0
    return gl.where(x > -127.0, part * _power_of_two(whole), 0.0)


@gluon.jit
def _soften(block, lse, tile: gl.constexpr, seq_q, heads, D: gl.constexpr, DTYPE: gl.constexpr):
    """A softmax group: m stays until a score passes it by more than THRESHOLD; α goes to the correction."""
    m = gl.full([ROWS], float("-inf"), gl.float32, PART_ROWS)
    total = gl.zeros([ROWS], gl.float32, PART_ROWS)
    alphas = block.alphas.index(tile)
    for visit in range(block.blocks):
        key = (block.blocks - 1 - visit) * KEYS
        masked = key + KEYS > block.seq_kv
        if block.CAUSAL:
            masked = masked | (key + KEYS - 1 > block.query + tile * ROWS + block.offset)
        mbarrier.wait(block.scored.index(tile), visit & 1)
        first = _part(block, tile, 0, key, masked)
        second = _part(block, tile, 1, key, masked)
        third = _part(block, tile, 2, key, masked)
        fourth = _part(block, tile, 3, key, masked)
        largest = gl.maximum(gl.maximum(first, second), gl.maximum(third, fourth))
        largest = gl.max(largest, axis=1)
        new = gl.where(largest - m > THRESHOLD, largest, m)
        offset = gl.where(new == float("-inf"), 0.0, new)
        alpha = gl.where(new > m, gl.exp2(m - offset), 1.0)
        if visit > 0:
            alphas.store(alpha)  # the last was read: S came after P V, and that after the correction
            mbarrier.arrive(block.known.index(tile), count=1)
        P = _weights_of(block, tile, DTYPE)
        first = gl.exp2(first - offset[:, None])
        P.slice(0, PART).store(first.to(DTYPE))
        second = _exp2_by_polynomial(second - offset[:, None])
        P.slice(PART, PART).store(second.to(DTYPE))
        third = gl.exp2(third - offset[:, None])
        P.slice(2 * PART, PART).store(third.to(DTYPE))
        fourth = gl.exp2(fourth - offset[:, None])
        P.slice(3 * PART, PART).store(fourth.to(DTYPE))
        mbarrier.arrive(block.weighed.index(tile), count=1)
        total = total * alpha + gl.sum((first + second) + (third + fourth), axis=1)
        m = new
    mbarrier.wait(block.read.index(tile), (block.blocks - 1) & 1 ^ 1)
    alphas.store(gl.where(total > 0.0, 1.0 / total, 0.0))
    mbarrier.arrive(block.known.index(tile), count=1)
    rows = block.query + tile * ROWS + gl.arange(0, ROWS, PART_ROWS)
    place = lse + (block.batch * heads + block.head) * seq_q + rows
    gl.store(place, gl.where(total > 0.0, m + gl.log2(total), float("-inf")) * LN_2, mask=rows < seq_q)


@gluon.jit
def _scaled(o, factor, D: gl.constexpr):
    """O in tensor memory times a number a row."""
    LAYOUT: gl.constexpr = _registers_of(PART)
    for part in gl.static_range(D // PART):
        piece = o.slice(part * PART, PART)
        piece.store(piece.load(LAYOUT) * factor[:, None])


@gluon.jit
def _correct(block, out_tensor, queries, D: gl.constexpr, DTYPE: gl.constexpr):
    """The correction group: O times α where a row's m rose, and at last O / l, which leaves by Q's place."""
    for visit in range(1, block.blocks):
        for tile in gl.static_range(2):
            mbarrier.wait(block.known.index(tile), (visit - 1) & 1)
            alpha = block.alphas.index(tile).load(PART_ROWS)
            mbarrier.arrive(block.read.index(tile), count=1)
            if gl.max(gl.where(alpha < 1.0, 1, 0), axis=0) > 0:
                _scaled(block.o.index(tile), alpha, D)
            mbarrier.arrive(block.corrected.index(tile), count=1)
    LAYOUT: gl.constexpr = _registers_of(PART)
    for tile in gl.static_range(2):
        mbarrier.wait(block.known.index(tile), (block.blocks - 1) & 1)
        inverse = block.alphas.index(tile).load(PART_ROWS)
        mbarrier.wait(block.summed.index(tile), 0)
        room = queries.block(tile)
        for part in gl.static_range(D // PART):
            piece = block.o.index(tile).slice(part * PART, PART).load(LAYOUT) * inverse[:, None]
            room.reshape([ROWS, D]).slice(part * PART, PART, dim=1).store(piece.to(DTYPE))
        fence_async_shared()
        row = block.query + tile * ROWS
        tma.async_copy_shared_to_global(out_tensor, [block.batch, block.head, row, 0], room)
    tma.store_wait(0)


@gluon.jit
def flash4_kernel(
    q_tensor, k_tensor, v_tensor, out_tensor, lse, heads, heads_per_kv_head, query_blocks, seq_q, seq_kv,
    scale_log2, CAUSAL: gl.constexpr,
):  # fmt: skip
    """One block of threads: two query tiles of a head, where causal the heaviest first; lse is natural."""
    D: gl.constexpr = q_tensor.block_type.shape[3]
    DTYPE: gl.constexpr = q_tensor.dtype
    program = gl.program_id(0)
    place = program % query_blocks
    if CAUSAL:
        place = query_blocks - 1 - place
    query, blocks = place * 2 * ROWS, gl.cdiv(seq_kv, KEYS)
    offset = seq_kv - seq_q
    if CAUSAL:
        blocks = gl.minimum(blocks, gl.cdiv(gl.maximum(query + 2 * ROWS + offset, 1), KEYS))
    queries = make_queue(blocks_for(q_tensor, 2), 2, 1)
    keys = make_queue(blocks_for(k_tensor, KV_BUFFERS), KV_BUFFERS, 1)
    NUMBERS: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    block = Block(
        query, program // query_blocks // heads, program // query_blocks % heads, blocks, seq_kv, offset,
        scale_log2,
        allocate_tensor_memory(gl.float32, [2, ROWS, KEYS], _tile_memory(KEYS)),
        allocate_tensor_memory(gl.float32, [2, ROWS, D], _tile_memory(D)),
        gl.allocate_shared_memory(gl.float32, [2, ROWS], NUMBERS),
        make_barriers(2, 1), make_barriers(2, 1), make_barriers(2, 1), make_barriers(2, 1),
        make_barriers(2, 1), make_barriers(2, 1), CAUSAL,
    )  # fmt: skip
    fence_async_shared()
    gl.warp_specialize(
        [
            (_correct, (block, out_tensor, queries, D, DTYPE)),
            (_soften, (block, lse, gl.constexpr(0), seq_q, heads, D, DTYPE)),
            (_soften, (block, lse, gl.constexpr(1), seq_q, heads, D, DTYPE)),
            (_multiply, (block, queries, keys, D, DTYPE)),
            (_copy, (block, q_tensor, k_tensor, v_tensor, queries, keys, heads_per_kv_head)),
        ],
        [4, 4, 1, 1],
        [SOFTMAX_REGISTERS, SOFTMAX_REGISTERS, ISSUER_REGISTERS, ISSUER_REGISTERS],
    )


def forward(
    q, k, v, *, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and lse of attention by FlashAttention-4's schedule; never run on the chip.

    q is [batch, heads, seq_q, head_dim], k and v [batch, kv_heads, seq_kv, head_dim], float16 or bfloat16 of
    head_dim 64 or 128; O is like q, lse float32 [batch, heads, seq_q], natural. Raises ValueError.
    """
    batch, heads, seq_q, head_dim = q.shape
    if head_dim not in (64, 128) or k.shape != v.shape:
        raise ValueError(f"head_dim is {head_dim}; it must be 64 or 128, and v must be like k")
    out, lse = torch.empty_like(q), torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    query_blocks = -(-seq_q // (2 * ROWS.value))
    descriptors = [_descriptor(tensor, ROWS.value) for tensor in (q, k, v, out)]
    scale_log2 = (head_dim**-0.5 if scale is None else scale) * math.log2(math.e)
    flash4_kernel[(query_blocks * batch * heads,)](
        *descriptors, lse, heads, heads // k.shape[1], query_blocks, seq_q, k.shape[2], scale_log2,
        CAUSAL=causal, num_warps=4,
    )  # fmt: skip
    return out, lse

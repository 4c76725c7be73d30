"""Decoding over a latent on Hopper: keys of 576 columns, of which the first 512 are the values as well.

So multi-head latent attention decodes where its projections are absorbed into Q and O: all heads share one
latent a token. It is copied into shared memory once, and serves both products. A block of threads has 64
heads. One warp group computes their scores and weights, and hands them on by way of shared memory. O, 64 x
512, lies in the registers of two others, a half of the columns each.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from kernels.hopper.buffer_queue import make_queue
from kernels.hopper.consumer import clean
from kernels.hopper.pages import boxes_of, load_pages, pages_of
from kernels.hopper.warp_group import (
    LN_2,
    ROWS,
    accumulator_layout,
    aggregate,
    barrier_of_warps,
    held_columns,
    start,
)

VALUES, ROPE = gl.constexpr(512), gl.constexpr(64)  # columns of a latent: those that are values, and the rest
HALF = gl.constexpr(256)
KEYS = gl.constexpr(64)  # of a block
BUFFERS = gl.constexpr(2)
HELD = gl.constexpr(128)  # first columns of Q that lie in registers: wgmma reads less shared memory


@aggregate
class Part:
    """The blocks of keys [first, end) of one sequence that a block of threads has, for heads from `row` on.

    They are visited from the last to the first, so that the first visited alone may reach past the last key.
    There is always one; of an empty part `length` is 0: it sees none of its keys.
    """

    batch: gl.tensor
    part: gl.tensor
    row: gl.tensor
    first: gl.tensor
    end: gl.tensor
    length: gl.tensor

    @gluon.jit
    def key(self, visit):
        """The first key of the block."""
        return (self.end - 1 - visit) * KEYS

    @gluon.jit
    def out_row(self, sizes):
        """Where its rows of O and lse begin: [parts, batch, heads]."""
        heads, batches = sizes
        return (self.part * batches + self.batch) * heads + self.row


@gluon.jit
def _part(heads, keys, splits, lengths, added):
    """That of this block of threads; those that share keys follow one another."""
    row_tiles = (heads + ROWS - 1) // ROWS
    row = gl.program_id(0) % row_tiles * ROWS
    part = gl.program_id(0) // row_tiles % splits
    batch = gl.program_id(0) // row_tiles // splits
    length = keys
    if lengths is not None:
        held = gl.maximum(gl.minimum(gl.load(lengths + batch), keys), 0).to(gl.int32)
        length = gl.minimum(held + added, keys)
    blocks = (length + KEYS - 1) // KEYS
    first = part * blocks // splits
    end = (part + 1) * blocks // splits
    length = gl.where(end > first, length, 0)
    return Part(batch, part, row, first, gl.maximum(end, first + 1), length)


@gluon.jit
def _place(visit, part, table, HOW: gl.constexpr):
    """(pages, slot) where the keys of a block lie; asked for long before, as a table's entries take long."""
    key = gl.maximum(part.key(visit), 0)
    if HOW.PAGED:
        entries, row_stride, stride, page_size = table
        own = entries + part.batch * row_stride
        place = (
            pages_of(own, stride, key, part.length, page_size, KEYS, HOW.PARTS),
            key % page_size if HOW.PARTS == 1 else 0,
        )
    else:
        place = (part.batch,), key
    return place


@gluon.jit
def _expect(queue, visit, part, tensor, PARTS: gl.constexpr):
    """Announce the bytes of a buffer, where the part has such a block; a copy is to follow."""
    BOXES: gl.constexpr = PARTS * queue.blocks.shape[4] // tensor.block_type.shape[3]
    if visit < part.end - part.first:
        mbarrier.expect(queue.arrival(visit), BOXES * tensor.block_type.nbytes)


@gluon.jit
def _fetch(queue, visit, place, column, part, tensor, PARTS: gl.constexpr):
    """Copy columns of the latents of a block of keys, where the part has such a block."""
    BOXES: gl.constexpr = queue.blocks.shape[4] // tensor.block_type.shape[3]
    if visit < part.end - part.first:
        boxes = boxes_of(queue.blocks, tensor, PARTS)
        for piece in gl.static_range(PARTS):
            for box in gl.static_range(BOXES):
                there = [place[0][piece], 0, place[1], column + box * tensor.block_type.shape[3]]
                block = boxes.index((queue.buffer(visit) * BOXES + box) * PARTS + piece)
                tma.async_copy_global_to_shared(tensor, there, queue.arrival(visit), block)


@gluon.jit
def _scores(Q, held, rope, latents, visit):
    """Q K^T of a block of keys, columns as they arrive; the first of Q's and those of its rope are held."""
    S = gl.zeros([ROWS, KEYS], gl.float32, accumulator_layout(KEYS))
    for half in gl.static_range(2):
        latents[half].wait_full(visit)
        K = latents[half].block(visit).reshape([KEYS, HALF])
        if half == 0:
            S = warpgroup_mma(held, K.slice(0, HELD, dim=1).permute((1, 0)), S, use_acc=False, is_async=True)
            K = K.slice(HELD, HALF - HELD, dim=1)
            some = Q.slice(HELD, HALF - HELD, dim=1)
        else:
            some = Q.slice(HALF, HALF, dim=1)
        S = warpgroup_mma(some, K.permute((1, 0)), S, is_async=True)
    latents[2].wait_full(visit)
    K = latents[2].block(visit).reshape([KEYS, ROPE])
    S = warpgroup_mma(rope, K.permute((1, 0)), S, is_async=True)
    S, rope, held = warpgroup_mma_wait(0, deps=[S, rope, held])
    return S


@gluon.jit
def _weigh(lse, sizes, tensors, table, queries, latents, passed, part, scale_log2, HOW: gl.constexpr):
    """Each block's weights, and what O is multiplied by before their product comes; at its end 1 / l."""
    weights, factors = passed
    q_tensor, q_rope, _, k_rope = tensors
    ropes = latents[2]
    load_pages(queries[0], queries[0].blocks, 0, q_tensor, (part.batch,), 0, part.row, 0, 1, 0)
    load_pages(queries[1], queries[1].blocks, 0, q_rope, (part.batch,), 0, part.row, VALUES, 1, 0)
    for visit in gl.static_range(BUFFERS):
        _expect(ropes, visit, part, k_rope, HOW.PARTS)
        _fetch(ropes, visit, _place(visit, part, table, HOW), VALUES, part, k_rope, HOW.PARTS)
    SCORES: gl.constexpr = accumulator_layout(KEYS)
    running_max = gl.full([ROWS], float("-inf"), gl.float32, gl.SliceLayout(1, SCORES))
    running_sum = gl.zeros([ROWS], gl.float32, gl.SliceLayout(1, SCORES))
    queries[0].wait_full(0)
    Q = queries[0].block(0).reshape([ROWS, VALUES])
    held = held_columns(Q, HELD, KEYS)
    queries[1].wait_full(0)
    rope = held_columns(queries[1].block(0).reshape([ROWS, ROPE]), ROPE, KEYS)
    blocks = part.end - part.first
    for visit in range(blocks):
        place = _place(visit + BUFFERS, part, table, HOW)
        S = _scores(Q, held, rope, latents, visit)
        keys = part.length - part.key(visit)
        if keys < KEYS:
            columns = gl.arange(0, KEYS, layout=gl.SliceLayout(0, SCORES))[None, :]
            S = gl.where(columns < keys, S, float("-inf"))
            if HOW.PAGED:  # slots behind the last key may hold anything
                for half in gl.static_range(2):
                    clean(latents[half], visit, keys)
        new_max = gl.maximum(running_max, gl.max(S, axis=1))
        offset = gl.where(new_max == float("-inf"), 0.0, new_max * scale_log2)
        alpha = gl.exp2(running_max * scale_log2 - offset)
        running_max = new_max
        factors.wait_empty(visit)
        factors.block(visit).store(alpha)
        mbarrier.arrive(factors.arrival(visit), count=1)
        P = gl.exp2(S * scale_log2 - offset[:, None])
        running_sum = running_sum * alpha + gl.sum(P, axis=1)
        weights.wait_empty(visit)
        weights.block(visit).reshape([ROWS, KEYS]).store(P.to(weights.blocks.dtype))
        fence_async_shared()
        mbarrier.arrive(weights.arrival(visit), count=1)
        _expect(ropes, visit + BUFFERS, part, k_rope, HOW.PARTS)
        _fetch(ropes, visit + BUFFERS, place, VALUES, part, k_rope, HOW.PARTS)
    factors.wait_empty(blocks)
    factors.block(blocks).store(gl.where(running_sum == 0.0, 0.0, 1.0 / running_sum))
    mbarrier.arrive(factors.arrival(blocks), count=1)
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, SCORES))
    row_lse = (running_max * scale_log2 + gl.log2(running_sum)) * LN_2
    gl.store(lse + part.out_row(sizes) + rows, row_lse, mask=part.row + rows < sizes[0])


@gluon.jit
def _rescaled(out, factors, visit):
    factors.wait_full(visit)
    factor = factors.block(visit).load(gl.SliceLayout(1, accumulator_layout(HALF)))
    factors.release(visit)
    return out * factor[:, None]


@gluon.jit
def _add_up(out_tensor, sizes, tensors, table, latents, passed, part, HOW: gl.constexpr, SIDE: gl.constexpr):
    """A half of the columns of O; once a product is done nobody reads its latents: the next are copied."""
    OUT: gl.constexpr = accumulator_layout(HALF)
    weights, factors = passed
    values, k_tensor = latents[SIDE], tensors[2]
    for visit in gl.static_range(BUFFERS):
        _expect(values, visit, part, k_tensor, HOW.PARTS)
        _fetch(values, visit, _place(visit, part, table, HOW), SIDE * HALF, part, k_tensor, HOW.PARTS)
    out = gl.zeros([ROWS, HALF], gl.float32, OUT)
    blocks = part.end - part.first
    for visit in range(blocks):
        place = _place(visit + BUFFERS, part, table, HOW)
        out = _rescaled(out, factors, visit)
        weights.wait_full(visit)
        values.wait_full(visit)
        P = weights.block(visit).reshape([ROWS, KEYS])
        out = warpgroup_mma(P, values.block(visit).reshape([KEYS, HALF]), out, is_async=True)
        _expect(values, visit + BUFFERS, part, k_tensor, HOW.PARTS)
        out = warpgroup_mma_wait(0, deps=[out])
        barrier_of_warps()
        _fetch(values, visit + BUFFERS, place, SIDE * HALF, part, k_tensor, HOW.PARTS)
        weights.release(visit)
    out = _rescaled(out, factors, blocks)
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, OUT))[:, None]
    columns = SIDE * HALF + gl.arange(0, HALF, layout=gl.SliceLayout(0, OUT))[None, :]
    places = out_tensor + gl.cast(part.out_row(sizes), gl.int64) * VALUES + (rows * VALUES + columns)
    gl.store(places, out, mask=(part.row + rows < sizes[0]) & (columns >= 0))


@gluon.jit
def _attend(
    outputs, sizes, tensors, table, queries, latents, passed, part, scale_log2, HOW: gl.constexpr,
    NUMBER: gl.constexpr,
):  # fmt: skip
    """The first warp group weighs, the others add up."""
    out, lse = outputs
    if NUMBER == 0:
        _weigh(lse, sizes, tensors, table, queries, latents, passed, part, scale_log2, HOW)
    else:
        _add_up(out, sizes, tensors, table, latents, passed, part, HOW, NUMBER - 1)


@gluon.jit
def _queue(dtype, NUMBER: gl.constexpr, ROWS_OF: gl.constexpr, COLUMNS: gl.constexpr, READERS: gl.constexpr):
    LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([1, 1, ROWS_OF, COLUMNS], dtype)
    return make_queue(
        gl.allocate_shared_memory(dtype, [NUMBER, 1, 1, ROWS_OF, COLUMNS], LAYOUT), NUMBER, READERS
    )


@gluon.jit(
    do_not_specialize=[
        "batches", "heads", "keys", "splits", "added", "row_stride", "table_stride", "page_size",
    ]
)  # fmt: skip
def latent_kernel(
    q_tensor, q_rope, k_tensor, k_rope, out, lse, block_table, lengths,
    batches, heads, keys, splits, added, row_stride, table_stride, page_size, scale_log2, HOW: gl.constexpr,
):  # fmt: skip
    """One block of threads for 64 heads of a part of the keys of a sequence: its O, and its natural lse.

    q_tensor and q_rope are descriptors of [batch, 1, heads, 576], in blocks of 512 and of 64 columns;
    k_tensor and k_rope of [batch or pages, 1, keys, 576], of 256 and of 64, or, of small pages, all of 64.
    out is [splits, batch, heads, 512], in float32 where parts are to be added up; lse float32.
    Where HOW is PAGED the sequence's row of block_table names PARTS pages for a block of keys, or one that
    holds whole blocks, and it has lengths[i] + added keys, at most `keys`.
    """
    DTYPE: gl.constexpr = q_tensor.dtype
    part = _part(heads, keys, splits, lengths, added)
    weights = _queue(DTYPE, BUFFERS, ROWS, KEYS, 2)
    # the rope of Q lies where weights will, until it is in registers
    queries = _queue(DTYPE, 1, ROWS, VALUES, 1), make_queue(weights.blocks, 1, 1)
    # each half is read last as values, by the warp group that has those columns of O
    latents = (
        _queue(DTYPE, BUFFERS, KEYS, HALF, 1),
        _queue(DTYPE, BUFFERS, KEYS, HALF, 1),
        _queue(DTYPE, BUFFERS, KEYS, ROPE, 1),
    )
    row = gl.allocate_shared_memory(gl.float32, [BUFFERS, ROWS], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    passed = weights, make_queue(row, BUFFERS, 2)
    fence_async_shared()
    table = (block_table, row_stride, table_stride, page_size)
    tensors, sizes = (q_tensor, q_rope, k_tensor, k_rope), (heads, batches)
    start(
        _attend, ((out, lse), sizes, tensors, table, queries, latents, passed, part, scale_log2, HOW), [], HOW
    )

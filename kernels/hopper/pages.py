"""flash3's forward pass over keys in pages: its consumers, behind a producer that follows a block table.

Lengths and tables are read on the GPU, so that a CUDA graph replays with new ones. A block of keys lies in
one page, or in several whole ones. Slots behind a sequence's last key may hold anything.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from kernels.hopper.buffer_queue import blocks_for, make_queue
from kernels.hopper.consumer import consume
from kernels.hopper.forward import load
from kernels.hopper.schedule import Schedule, draw, make_tile_blocks, next_tile
from kernels.hopper.warp_group import ROWS, pause, start

COLUMNS = gl.constexpr(64)  # of a row of shared memory: 128 bytes, what TMA's widest swizzle spans


@gluon.jit
def boxes_of(blocks, box, PARTS: gl.constexpr):
    """Buffers [.., keys, head_dim] as TMA's boxes of COLUMNS each: the first of all rows come first."""
    if PARTS > 1 or box.block_type.shape[3] < blocks.shape[4]:
        BOXES: gl.constexpr = blocks.shape[0] * PARTS * (blocks.shape[4] // COLUMNS)
        SHAPE: gl.constexpr = [BOXES, 1, 1, blocks.shape[3] // PARTS, COLUMNS]
        boxes = blocks._reinterpret(blocks.dtype, SHAPE, box.layout)
    else:
        boxes = blocks
    return boxes


@gluon.jit
def pages_of(table, stride, key, length, page_size, BLOCK_KV: gl.constexpr, PARTS: gl.constexpr):
    """The pages of a block's keys from `key` on; 0 for one behind the last key: its entry leads nowhere."""
    page = key // (page_size if PARTS == 1 else BLOCK_KV // PARTS)  # no division where it is known
    pages = ()
    for part in gl.static_range(PARTS):
        first = key + part * (BLOCK_KV // PARTS)
        pages = pages + (gl.load(table + (page + part) * stride, first < length, other=0).to(gl.int32),)  # noqa: RUF005
    return pages


@gluon.jit
def load_pages(
    queue, boxes, visit, descriptor, pages, kv_head, slot, column, PARTS: gl.constexpr, REST: gl.constexpr
):
    """Copy a block of keys from `slot` of one page on, or from whole ones, once its last reader is done."""
    PIECES: gl.constexpr = queue.blocks.shape[4] // descriptor.block_type.shape[3]
    queue.wait_empty(visit)
    mbarrier.expect(queue.arrival(visit), PARTS * PIECES * descriptor.block_type.nbytes)
    for part in gl.static_range(PARTS):
        for piece in gl.static_range(PIECES):
            box = boxes.index((queue.buffer(visit) * PIECES + piece) * PARTS + part)
            place = [pages[part], kv_head, slot, column + piece * descriptor.block_type.shape[3]]
            tma.async_copy_global_to_shared(descriptor, place, queue.arrival(visit), box)
        if REST:  # all at once, boxes hold up the softmax that begins then
            pause(REST)


@gluon.jit
def _produce(given, WHAT: gl.constexpr):
    """As `forward.produce` by a block table; WHAT: "both", or "keys", with Q and tiles, or "values"."""
    inputs, queues, tiles, counter, table = given
    PARTS: gl.constexpr = tiles.HOW.PARTS
    REST: gl.constexpr = tiles.HOW.REST
    q_tensor, k_tensor, v_tensor = inputs
    queries, keys, values, next_tiles = queues
    entries, row_stride, stride, page_size = table
    k_boxes = boxes_of(keys.blocks, k_tensor, PARTS)
    v_boxes = boxes_of(values.blocks, v_tensor, PARTS)
    tile = gl.program_id(0)
    tile_visit = 0
    visit = 0
    while tile < tiles.tiles():
        row, batch, head = tiles.place(tile)
        schedule = tiles.of(batch, head, tiles.whole_span())
        own = entries + batch * row_stride
        kv_head = head // schedule.heads_per_kv_head
        first, end = schedule.seen_blocks(row, schedule.BLOCK_Q)
        for index in range(end - first):
            key = (end - 1 - index) * schedule.BLOCK_KV
            pages = pages_of(own, stride, key, schedule.seq_kv, page_size, schedule.BLOCK_KV, PARTS)
            slot = key % page_size if PARTS == 1 else 0
            if WHAT != "values":
                load_pages(keys, k_boxes, visit, k_tensor, pages, kv_head, slot, 0, PARTS, REST)
                if index == 0:
                    load(queries, tile_visit, q_tensor, batch, head, row)
            if WHAT != "keys":
                load_pages(values, v_boxes, visit, v_tensor, pages, kv_head, slot, 0, PARTS, REST)
            if WHAT != "values" and not schedule.HOW.CAUSAL:  # noqa: SIM102 (known when compiling)
                if index == 0:
                    tile = draw(counter, next_tiles, tile_visit, schedule, tile)
            visit += 1
        if WHAT == "values":
            tile = next_tile(next_tiles, tile_visit, 1)
        elif schedule.HOW.CAUSAL:
            tile = draw(counter, next_tiles, tile_visit, schedule, tile)
        tile_visit += 1


@gluon.jit(
    do_not_specialize=[
        "batch_heads", "heads_per_kv_head", "heads_together", "query_blocks", "capacity", "added",
        "row_stride", "page_size",
    ]
)  # fmt: skip
def paged_attention_kernel(
    q_tensor, k_tensor, v_tensor, out_tensor, lse, counter, block_table, lengths,
    batch_heads, heads_per_kv_head, heads_together, query_blocks, capacity, added,
    row_stride, table_stride, page_size, scale_log2, HOW: gl.constexpr,
):  # fmt: skip
    """As `forward.attention_kernel`, with K and V [pages, kv_heads, page_size, head_dim].

    Sequence i has lengths[i] + added keys, at most capacity; PARTS of their pages, one after another in its
    row of block_table, make a block of BLOCK_KV keys, or 1 of them holds whole blocks. REST: nanoseconds that
    a producer rests after each of several.
    """
    CONSUMERS: gl.constexpr = HOW.CONSUMERS
    BLOCK_KV: gl.constexpr = HOW.BLOCK_KV
    DTYPE: gl.constexpr = q_tensor.dtype
    HEAD_DIM: gl.constexpr = q_tensor.block_type.shape[3]
    tiles = Schedule(
        batch_heads, q_tensor.shape[1], heads_per_kv_head, heads_together, query_blocks,
        q_tensor.shape[2], capacity, gl.to_tensor(0), None, None, None, lengths, added,
        None, None, None, None, None, None, None, None, None, None, None, CONSUMERS * ROWS, BLOCK_KV, HOW,
    )  # fmt: skip
    KEYS: gl.constexpr = gl.NVMMASharedLayout.get_default_for([1, 1, BLOCK_KV, HEAD_DIM], DTYPE)
    q_blocks = blocks_for(q_tensor, HOW.Q_BUFFERS * CONSUMERS)
    k_blocks = gl.allocate_shared_memory(DTYPE, [HOW.KV_BUFFERS, 1, 1, BLOCK_KV, HEAD_DIM], KEYS)
    v_blocks = gl.allocate_shared_memory(DTYPE, [HOW.KV_BUFFERS, 1, 1, BLOCK_KV, HEAD_DIM], KEYS)
    next_tiles = make_tile_blocks(1)
    queues = (
        make_queue(q_blocks, HOW.Q_BUFFERS, CONSUMERS),
        make_queue(k_blocks, HOW.KV_BUFFERS, CONSUMERS),
        make_queue(v_blocks, HOW.KV_BUFFERS, CONSUMERS),
        make_queue(next_tiles, 2, CONSUMERS + HOW.PRODUCERS - 1),
    )
    fence_async_shared()

    table = (block_table, row_stride, table_stride, page_size)
    consumed = (out_tensor, lse, None), queues, tiles, scale_log2, None, None
    produced = (q_tensor, k_tensor, v_tensor), queues, tiles, counter, table
    if HOW.PRODUCERS == 1:
        start(consume, consumed, [(_produce, (produced, "both"))], HOW)
    else:
        start(consume, consumed, [(_produce, (produced, "keys")), (_produce, (produced, "values"))], HOW)

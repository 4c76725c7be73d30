"""The warp that copies: it draws tiles, and fills shared memory with their Q, K and V by TMA."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from kernels.hopper.tiles import draw, draw_placed


@gluon.jit
def load(queue, visit, descriptor, batch, head, row):
    """Copy the rows from `row` on that fill this visit's buffer, once its last reader is done."""
    PARTS: gl.constexpr = queue.blocks.shape[0] // queue.full.shape[0]
    queue.wait_empty(visit)
    mbarrier.expect(queue.arrival(visit), PARTS * descriptor.block_type.nbytes)
    for part in gl.static_range(PARTS):
        part_row = row + part * descriptor.block_type.shape[2]
        tma.async_copy_global_to_shared(
            descriptor, [batch, head, part_row, 0], queue.arrival(visit), queue.block(visit, part)
        )


@gluon.jit
def _load_values(queue, visit, descriptor, batch, head, key, TRANSPOSED: gl.constexpr):
    """`load` of the keys from `key` on, which are columns of V where that is TRANSPOSED."""
    if TRANSPOSED:
        arrival = queue.arrival(visit)
        queue.wait_empty(visit)
        mbarrier.expect(arrival, descriptor.block_type.nbytes)
        tma.async_copy_global_to_shared(descriptor, [batch, head, 0, key], arrival, queue.block(visit))
    else:
        load(queue, visit, descriptor, batch, head, key)


@gluon.jit
def produce(inputs, queues, schedule, counter, AHEAD: gl.constexpr, TRANSPOSED: gl.constexpr):
    """Draw tiles and copy their Q, K and V, key blocks from the last to the first.

    Equal tiles are drawn one AHEAD. Of unequal ones the next is drawn when all copies of the one before are
    under way: SMs that took theirs a whole tile before would drift apart, and would not end together.
    """
    q_tensor, k_tensor, v_tensor = inputs
    queries, keys, values, next_tiles = queues
    tile = schedule.handed(gl.program_id(0))
    if schedule.HOW.PLACED:
        place = schedule.place(tile)
    tile_visit = 0
    visit = 0
    while tile < schedule.tiles():
        if schedule.HOW.PLACED:
            row, batch, head = place
        else:
            row, batch, head = schedule.place(tile)
        kv_head = head // schedule.heads_per_kv_head
        before = schedule.before(row)
        first, end = schedule.own_blocks(tile, *schedule.seen_blocks(row, schedule.BLOCK_Q, before))
        key = (end - 1 - schedule.later(tile)) * schedule.BLOCK_KV - before
        # Q_i, and the first K_j and V_j
        load(keys, visit, k_tensor, batch, kv_head, key)
        load(queries, tile_visit, q_tensor, batch, head, row)
        _load_values(values, visit, v_tensor, batch, kv_head, key, TRANSPOSED)
        if AHEAD:
            # before the other copies: a consumer without a row asks before it hands back what others see
            tile = draw(counter, next_tiles, tile_visit, schedule, tile)
        # each other K_j and V_j, once the consumers have released the buffer's stage
        for _ in range(end - first - 1):
            key -= schedule.BLOCK_KV
            visit += 1
            load(keys, visit, k_tensor, batch, kv_head, key)
            _load_values(values, visit, v_tensor, batch, kv_head, key, TRANSPOSED)
        if schedule.HOW.PLACED:
            tile, place = draw_placed(counter, next_tiles, tile_visit, schedule)
        elif not AHEAD:
            tile = draw(counter, next_tiles, tile_visit, schedule, tile)
        visit += 1
        tile_visit += 1

"""The warp that copies: it draws tiles, and fills shared memory with their Q, K and V by TMA."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from kernels.hopper.tiles import draw, draw_packed, draw_placed, tell_packed


@gluon.jit
def load(queue, visit, descriptor, batch, head, row, OF_COLUMNS: gl.constexpr = False):
    """Copy the rows from `row` on that fill this visit's buffer, once its last reader is done.

    A buffer's blocks are of rows one after another, or of the columns of the same ones.
    """
    PARTS: gl.constexpr = queue.blocks.shape[0] // queue.full.shape[0]
    queue.wait_empty(visit)
    mbarrier.expect(queue.arrival(visit), PARTS * descriptor.block_type.nbytes)
    for part in gl.static_range(PARTS):
        if OF_COLUMNS:
            place = [batch, head, row, part * descriptor.block_type.shape[3]]
        else:
            place = [batch, head, row + part * descriptor.block_type.shape[2], 0]
        tma.async_copy_global_to_shared(descriptor, place, queue.arrival(visit), queue.block(visit, part))


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
def produce(inputs, queues, tiles, counter, AHEAD: gl.constexpr, TRANSPOSED: gl.constexpr):
    """Draw tiles and copy their Q, K and V, key blocks from the last to the first.

    Equal tiles are drawn one AHEAD. Of unequal ones the next is drawn when all copies of the one before are
    under way: SMs that took theirs a whole tile before would drift apart, and would not end together.
    """
    q_tensor, k_tensor, v_tensor = inputs
    queries, keys, values, next_tiles = queues
    tile = tiles.handed(gl.program_id(0))
    if tiles.starts is not None:
        tile, row, batch, head, span = tell_packed(counter, next_tiles, 0, tiles, tile)
    elif tiles.HOW.PLACED:
        place = tiles.place(tile)
    tile_visit = 0
    visit = 0
    while tile < tiles.tiles():
        if tiles.starts is not None:
            schedule = tiles.of(batch, head, span)
            query, first_key = schedule.first_query + row, schedule.first_key
        else:
            if tiles.HOW.PLACED:
                row, batch, head = place
            else:
                row, batch, head = tiles.place(tile)
            schedule, query, first_key = tiles, row, 0
        kv_head = head // schedule.heads_per_kv_head
        before = schedule.before(row)
        first, end = schedule.own_blocks(tile, *schedule.seen_blocks(row, schedule.BLOCK_Q, before))
        key = first_key + (end - 1 - schedule.later(tile)) * schedule.BLOCK_KV - before
        # Q_i, and the first K_j and V_j
        load(keys, visit, k_tensor, batch, kv_head, key, True)
        load(queries, tile_visit, q_tensor, batch, head, query)
        _load_values(values, visit, v_tensor, batch, kv_head, key, TRANSPOSED)
        if tiles.starts is not None:
            if tiles.HOW.EARLY:
                following = draw_packed(counter, next_tiles, tile_visit + 1, tiles)
        elif AHEAD:
            # before the other copies: a consumer without a row asks before it hands back what others see
            tile = draw(counter, next_tiles, tile_visit, tiles, tile)
        # each other K_j and V_j, once the consumers have released the buffer's stage
        for _ in range(end - first - 1):
            key -= schedule.BLOCK_KV
            visit += 1
            load(keys, visit, k_tensor, batch, kv_head, key, True)
            _load_values(values, visit, v_tensor, batch, kv_head, key, TRANSPOSED)
        if tiles.starts is not None:
            if not tiles.HOW.EARLY:
                following = draw_packed(counter, next_tiles, tile_visit + 1, tiles)
            tile, row, batch, head, span = following
        elif tiles.HOW.PLACED:
            tile, place = draw_placed(counter, next_tiles, tile_visit, tiles)
        elif not AHEAD:
            tile = draw(counter, next_tiles, tile_visit, tiles, tile)
        visit += 1
        tile_visit += 1

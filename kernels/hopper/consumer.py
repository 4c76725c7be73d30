"""A warp group that computes: attention of 64 query rows of every tile."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma, warpgroup_mma_wait

from kernels.hopper.schedule import first_keys, next_packed, next_placed, next_tile
from kernels.hopper.softmax import LOG2_E, ends_with_sink, softmax_step, weights_of
from kernels.hopper.warp_group import (
    LN_2,
    ROWS,
    Turns,
    accumulator_layout,
    barrier_of_warps,
    beside,
    columns_of,
    held_columns,
    no_output,
    now,
    output_layout,
    part_count,
    part_of,
    scaled,
    start_output,
    start_scores,
    store_times,
)

CLEANED = gl.constexpr(32)  # rows of V at a time


@gluon.jit
def skip(blocks, visit, keys, values, turns):
    """Hand back key blocks that only other consumers see; taking turns all the same keeps them even."""
    for _ in range(blocks):
        turns.take()
        turns.pass_on()
        keys.wait_full(visit)
        keys.release(visit)
        values.wait_full(visit)
        values.release(visit)
        visit += 1
    return visit


@gluon.jit
def _blocks_of(schedule, tile, tile_row, row, before):
    """The first key block that a tile sees, and that its rows from `row` see; the ends of theirs, its."""
    seen = schedule.seen_blocks(tile_row, schedule.BLOCK_Q, before)
    tile_first, tile_end = schedule.own_blocks(tile, *seen)
    if schedule.HOW.SKIPS:
        first, end = schedule.own_blocks(tile, *schedule.seen_blocks(row, ROWS, before))
    else:  # each sees a part of all
        first, end = tile_first, tile_end
    return tile_first, first, end, tile_end


@gluon.jit
def _first_weights(S, Q, key_block, view, scale_log2, schedule, turns, OUT: gl.constexpr):
    """P of a row's first key block as an operand, the rows' maximum and sum; S may be of its first keys."""
    KEYS: gl.constexpr = S.shape[1]
    FIRST: gl.constexpr = accumulator_layout(KEYS)
    SCORES_ROW: gl.constexpr = gl.SliceLayout(1, accumulator_layout(schedule.BLOCK_KV))
    nothing_seen = gl.full([ROWS], float("-inf"), gl.float32, gl.SliceLayout(1, FIRST))
    nothing = gl.zeros([ROWS], gl.float32, gl.SliceLayout(1, FIRST))
    S = schedule.masked(S, view, key_block, True, FIRST, turns.CONSUMER)
    weights, running_max, running_sum, _ = softmax_step(
        S, nothing_seen, nothing, scale_log2, schedule.HOW.CHAINS, schedule.HOW.ALL_SEE
    )
    running_max = gl.convert_layout(running_max, SCORES_ROW, assert_trivial=True)
    running_sum = gl.convert_layout(running_sum, SCORES_ROW, assert_trivial=True)
    P = weights_of(weights, Q[0], OUT, schedule.HOW.PAIRED, schedule.BLOCK_KV)
    return P, running_max, running_sum


@gluon.jit
def clean(values, visit, held):
    """Zero the rows of this visit's V behind the `held` first: a weight of 0 times NaN would be NaN."""
    BLOCK_KV: gl.constexpr = values.blocks.shape[3]
    HEAD_DIM: gl.constexpr = values.blocks.shape[4]
    if held < BLOCK_KV:
        values.wait_full(visit)
        _clean_rows(values.block(visit).reshape([BLOCK_KV, HEAD_DIM]), held)
        if values.tails is not None:
            _clean_rows(values.tail(visit), held)
        fence_async_shared()


@gluon.jit
def _clean_rows(V, held):
    SPREAD: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    for part in gl.static_range(V.shape[0] // CLEANED):
        if held < (part + 1) * CLEANED:
            rows = part * CLEANED + gl.arange(0, CLEANED, layout=gl.SliceLayout(1, SPREAD))
            some = V.slice(part * CLEANED, CLEANED, dim=0)
            kept = some.load(SPREAD)
            some.store(gl.where((rows < held)[:, None], kept, gl.zeros_like(kept)))


@gluon.jit
def _visit_others(
    last, first, P, state, Q, held, keys, values, schedule, view, scale_log2, turns, HELD: gl.constexpr
):
    """Key blocks last - 1 down to first: S of each beside P V of the one before, the last P V but one."""
    SCORES: gl.constexpr = accumulator_layout(schedule.BLOCK_KV)
    COLUMNS: gl.constexpr = schedule.HOW.V_COLUMNS
    PRODUCTS: gl.constexpr = part_count(COLUMNS, 0)
    OUT: gl.constexpr = output_layout(COLUMNS, 0)
    out, running_max, running_sum, visit = state
    for step in range(last - first):
        # S of key block j is issued, then O += P V of block j - 1
        keys.wait_full(visit + 1)
        turns.take()
        S = start_scores(Q, held, keys, visit + 1, HELD, schedule.BLOCK_KV, schedule.HOW.COLUMNS)
        values.wait_full(visit)
        out = start_output(P, values, visit, out, COLUMNS)
        turns.pass_on()
        # the softmax of block j, under P V of block j - 1 and the other consumers' products
        S = warpgroup_mma_wait(PRODUCTS, deps=[S])
        keys.release(visit + 1)
        S = schedule.masked(S, view, last - 1 - step, False, SCORES, turns.CONSUMER)
        weights, running_max, running_sum, alpha = softmax_step(
            S, running_max, running_sum, scale_log2, schedule.HOW.CHAINS, schedule.HOW.ALL_SEE
        )
        # but where Q is held, ptxas moves this wait to before the softmax; by force held back, 5% slower
        done = warpgroup_mma_wait(0, deps=out + (P,))  # noqa: RUF005 (Gluon unpacks none)
        values.release(visit)
        # O rescaled by alpha, P of block j as an operand of the next step
        out = scaled(done[0:PRODUCTS], alpha, COLUMNS)
        P = weights_of(weights, Q[0], OUT, schedule.HOW.PAIRED, schedule.BLOCK_KV)
        visit += 1
    return P, out, running_max, running_sum, visit


@gluon.jit
def _leave(out, partial, place, row, schedule):
    """Store O over a part of the keys as it is: float32 [batch, heads, seq_q, head_dim]."""
    out = out[0]
    HEAD_DIM: gl.constexpr = out.shape[1]
    OUT: gl.constexpr = accumulator_layout(HEAD_DIM)
    batch, head = place
    rows = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, OUT))[:, None]
    columns = gl.arange(0, HEAD_DIM, layout=gl.SliceLayout(0, OUT))[None, :]
    first = gl.cast((batch * schedule.heads + head) * schedule.seq_q, gl.int64) * HEAD_DIM
    inside = (rows < schedule.seq_q) & (columns >= 0)
    gl.store(partial + first + rows * HEAD_DIM + columns, out, mask=inside)


@gluon.jit
def _store(state, block, output, place, row, schedule, scale_log2):
    """Divide by the row sums, and store the output, by way of `block`, and the log-sum-exp."""
    out, running_max, running_sum = state
    out_tensor, lse = output[0], output[1]
    batch, head = place
    share = gl.where(running_sum == 0.0, 0.0, 1.0 / running_sum)
    out = scaled(out, share, schedule.HOW.V_COLUMNS)
    if schedule.splits is not None:
        _leave(out, out_tensor, place, row, schedule)
    else:
        _copy_out(out, block, out_tensor, batch, head, row, schedule.HOW)
    rows = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, accumulator_layout(schedule.BLOCK_KV)))
    row_lse = (running_max * scale_log2 + gl.log2(running_sum)) * LN_2
    lse_rows = lse + (batch * schedule.heads + head) * schedule.seq_q + rows
    gl.store(lse_rows, row_lse, mask=rows < schedule.seq_q)


@gluon.jit
def _copy_out(out, block, out_tensor, batch, head, row, HOW: gl.constexpr):
    """Store O by way of `block` and by TMA, which leaves out what is past the tensor's rows and columns."""
    tile = block.reshape([ROWS, block.shape[3]])
    if HOW.STAGED:  # half of the columns at a time
        halves = gl.split(out[0].reshape([ROWS, 2, tile.shape[1]]).permute((0, 2, 1)))
        for half in gl.static_range(2):
            tma.store_wait(0)
            barrier_of_warps()
            tile.store(halves[half].to(tile.dtype))
            fence_async_shared()
            tma.async_copy_shared_to_global(out_tensor, [batch, head, row, half * tile.shape[1]], block)
    else:
        for part in gl.static_range(part_count(HOW.V_COLUMNS, 0)):
            some = tile.slice(part_of(HOW.V_COLUMNS, 0, part, 0), part_of(HOW.V_COLUMNS, 0, part, 1), dim=1)
            some.store(out[part].to(tile.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(out_tensor, [batch, head, row, 0], block)


@gluon.jit
def _store_with_terms(state, block, output, sink, place, row, schedule, total, scale_log2):
    """As `_store`, with a sink if there is one, and where sequences are packed, up to the end of this one."""
    out, running_max, running_sum = state
    out_tensor, lse = output[0], output[1]
    batch, head = place
    COLUMNS: gl.constexpr = schedule.HOW.V_COLUMNS
    if schedule.starts is not None:  # what follows the last sequence sees no key
        running_max = gl.where(schedule.seq_kv > 0, running_max, float("-inf"))
        running_sum = gl.where(schedule.seq_kv > 0, running_sum, 0.0)
    if sink is None:
        share = gl.where(running_sum == 0.0, 0.0, 1.0 / running_sum)
        row_lse = (running_max * scale_log2 + gl.log2(running_sum)) * LN_2
    else:
        share, row_lse = ends_with_sink(running_max, running_sum, sink, scale_log2)
    out = scaled(out, share, COLUMNS)
    first = row
    if schedule.starts is None:
        _copy_out(out, block, out_tensor, batch, head, row, schedule.HOW)
    else:
        first = schedule.first_query + row
        if (row + ROWS <= schedule.seq_q) & (schedule.seq_kv > 0):
            _copy_out(out, block, out_tensor, batch, head, first, schedule.HOW)
        else:
            strides = output[4]
            start = gl.cast(batch, gl.int64) * strides[0] + gl.cast(head, gl.int64) * strides[1]
            for part in gl.static_range(part_count(COLUMNS, 0)):
                rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, output_layout(COLUMNS, part)))[:, None]
                columns = gl.arange(
                    part_of(COLUMNS, 0, part, 0),
                    part_of(COLUMNS, 0, part, 0) + part_of(COLUMNS, 0, part, 1),
                    layout=gl.SliceLayout(0, output_layout(COLUMNS, part)),
                )[None, :]
                places = gl.cast(first + rows, gl.int64) * strides[2] + columns
                inside = (row + rows < schedule.seq_q) & (columns < out_tensor.shape[3])
                some = gl.where(schedule.seq_kv > 0, out[part], 0.0).to(block.dtype)
                gl.store(output[3] + start + places, some, mask=inside)
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, accumulator_layout(schedule.BLOCK_KV)))
    lse_rows = lse + (batch * schedule.heads + head) * total + first + rows
    gl.store(lse_rows, row_lse, mask=row + rows < schedule.seq_q)


@gluon.jit
def _leave_piece(out, partial, row):
    """Store O of a piece as it is, from a row of `partial` on."""
    HEAD_DIM: gl.constexpr = out.shape[1]
    OUT: gl.constexpr = accumulator_layout(HEAD_DIM)
    rows = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, OUT))[:, None]
    columns = gl.arange(0, HEAD_DIM, layout=gl.SliceLayout(0, OUT))[None, :]
    gl.store(partial + (rows * HEAD_DIM + columns), out)


@gluon.jit
def _store_or_leave(
    state, block, output, tile, place, row, schedule, scale_log2, CONSUMER: gl.constexpr
):  # fmt: skip
    """Divide by the row sums, and store O and the log-sum-exp: a piece's in its slot, all rows of it.

    With the order of `_store`, the wait for P V in the loop over keys would come too soon.
    """
    out, running_max, running_sum = state
    out_tensor, lse, _, partial, partial_lse = output
    batch, head = place
    HEAD_DIM: gl.constexpr = block.shape[3]
    OUT: gl.constexpr = accumulator_layout(HEAD_DIM)
    out = out[0] * beside(gl.where(running_sum == 0.0, 0.0, 1.0 / running_sum), OUT)
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, accumulator_layout(schedule.BLOCK_KV)))
    inside = row + rows < schedule.seq_q
    lse_rows = lse + (batch * schedule.heads + head) * schedule.seq_q + row
    if tile >= schedule.whole:
        slot_row = schedule.slot(tile) * schedule.BLOCK_Q + CONSUMER * ROWS
        _leave_piece(out, partial, slot_row)
        lse_rows = partial_lse + slot_row
        inside = rows >= 0
    else:
        block.reshape([ROWS, HEAD_DIM]).store(out.to(block.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(out_tensor, [batch, head, row, 0], block)
    row_lse = (running_max * scale_log2 + gl.log2(running_sum)) * LN_2
    gl.store(lse_rows + rows, row_lse, mask=inside)


@gluon.jit
def _leave_results(
    state, block, output, sink, tile, place, row, schedule, total, scale_log2, CONSUMER: gl.constexpr
):
    """Store O and the log-sum-exp in the way of this kernel."""
    if schedule.share is not None:
        _store_or_leave(state, block, output, tile, place, row, schedule, scale_log2, CONSUMER)
    elif schedule.starts is not None or sink is not None:
        _store_with_terms(state, block, output, sink, place, row, schedule, total, scale_log2)
    else:
        _store(state, block, output, place, row, schedule, scale_log2)


@gluon.jit
def _drawn_late(tiles, next_tiles, tile_visit, row, batch, head, span):
    """The tile to come next, its first row, batch, head and span, what is not known yet being as it was."""
    if tiles.starts is not None:
        tile, row, batch, head, span = next_packed(next_tiles, tile_visit + 1)
    elif tiles.HOW.PLACED:
        tile, row, batch, head = next_placed(next_tiles, tile_visit)
    else:
        tile = next_tile(next_tiles, tile_visit)
        if tiles.HOW.SKIPS:
            row, batch, head = tiles.place(tile)
    return tile, row, batch, head, span


@gluon.jit
def _hand_back(queries, tile_visit):
    """Give Q's shared memory back to the producer, once the output that leaves by way of it has left."""
    tma.store_wait(0)
    barrier_of_warps()
    queries.release(tile_visit)


@gluon.jit
def consume(output, queues, tiles, scale_log2, blocks, sinks, CONSUMER: gl.constexpr):
    """Attention of 64 rows of every tile; output: O, lse, room for O, and for pieces or packed rows."""
    HELD: gl.constexpr = tiles.HOW.HELD
    TRACED: gl.constexpr = tiles.HOW.TRACED
    queries, keys, values, next_tiles = queues
    COLUMNS: gl.constexpr = tiles.HOW.V_COLUMNS
    OUT: gl.constexpr = output_layout(COLUMNS, 0)
    SCORES_ROW: gl.constexpr = gl.SliceLayout(1, accumulator_layout(tiles.BLOCK_KV))
    PACKED: gl.constexpr = tiles.starts is not None
    KEYS: gl.constexpr = first_keys(tiles.HOW, tiles.BLOCK_KV, CONSUMER)
    STAGED: gl.constexpr = tiles.HOW.STAGED
    LATE: gl.constexpr = queries.full.shape[0] > 1  # the next tile starts while this one's output leaves

    turns = Turns(CONSUMER, tiles.HOW.CONSUMERS, tiles.HOW.TURNS)
    turns.begin()
    span = tiles.whole_span()
    if PACKED:
        tile, tile_row, batch, head, span = next_packed(next_tiles, 0)
    else:
        tile = tiles.handed(gl.program_id(0))
        if tiles.HOW.SKIPS:
            tile_row, batch, head = tiles.place(tile)
    tile_visit = 0
    visit = 0
    while tile < tiles.tiles():
        this_tile, began = tile, now(TRACED)
        if not (tiles.HOW.SKIPS or PACKED):  # once, as shorter code is faster there
            tile_row, batch, head = tiles.place(tile)
        schedule = tiles.of(batch, head, span)
        sink = None
        if sinks is not None:  # asked for long before it is needed
            sink = gl.load(sinks + head) * LOG2_E
        row = tile_row + CONSUMER * ROWS
        before = schedule.before(tile_row)
        positions = schedule.position(row + gl.arange(0, ROWS, layout=SCORES_ROW)) + before
        tile_first, first, end, tile_end = _blocks_of(schedule, tile, tile_row, row, before)
        view = positions, schedule.whole_blocks(row, ROWS, before, schedule.later(tile)), before
        if schedule.HOW.SKIPS:
            visit = skip(tile_end - end, visit, keys, values, turns)
        # wait for Q_i and the first K_j: S = Q_i K_j^T alone, and its softmax
        queries.wait_full(tile_visit)
        Q_block = queries.block(tile_visit, CONSUMER * tiles.HOW.PIECES)
        Q = columns_of(queries, tile_visit, CONSUMER, tiles.HOW.PIECES)
        out = no_output(COLUMNS)
        keys.wait_full(visit)
        held = held_columns(Q[0], HELD, schedule.BLOCK_KV)
        S = start_scores(Q, held, keys, visit, HELD, KEYS, tiles.HOW.COLUMNS)
        if LATE:  # noqa: SIM102 (known when compiling, what follows is not)
            if tile_visit > 0:
                _hand_back(queries, tile_visit - 1)
        S = warpgroup_mma_wait(0, deps=[S])
        keys.release(visit)
        if tiles.lengths is not None or PACKED:
            clean(values, visit, schedule.seq_kv - (end - 1) * schedule.BLOCK_KV)
        P, running_max, running_sum = _first_weights(S, Q, end - 1, view, scale_log2, schedule, turns, OUT)
        # all other key blocks: Q K^T of one is issued before the softmax that waits for P V of the one before
        P, out, running_max, running_sum, visit = _visit_others(
            end - 1, first, P, (out, running_max, running_sum, visit),
            Q, held, keys, values, schedule, view, scale_log2, turns, HELD,
        )  # fmt: skip
        if STAGED:
            queries.release(tile_visit)
        # the last P V, under which the next tile is asked for
        values.wait_full(visit)
        out = start_output(P, values, visit, out, COLUMNS)
        place = schedule.out_batch(tile, batch), head
        if not (schedule.HOW.CAUSAL or PACKED):
            tile = next_tile(next_tiles, tile_visit)
            tile_row, batch, head = tiles.place(tile)
        done = warpgroup_mma_wait(0, deps=out + (P,))  # noqa: RUF005
        values.release(visit)
        visit += 1
        if schedule.HOW.SKIPS:
            visit = skip(first - tile_first, visit, keys, values, turns)
        if schedule.HOW.CAUSAL or PACKED:  # drawn late, so asked for once all is handed back
            tile, tile_row, batch, head, span = _drawn_late(
                tiles, next_tiles, tile_visit, tile_row, batch, head, span
            )
        # O_i = O / l and L_i = m + log l
        _leave_results(
            (done[0 : part_count(COLUMNS, 0)], running_max, running_sum),
            output[2].index(CONSUMER) if STAGED else Q_block, output, sink, this_tile, place, row, schedule,
            tiles.seq_q, scale_log2, CONSUMER,
        )  # fmt: skip
        if CONSUMER == 0:
            store_times(blocks, this_tile, began, TRACED)
        if not (LATE or STAGED):
            _hand_back(queries, tile_visit)
        tile_visit += 1
    tma.store_wait(0)

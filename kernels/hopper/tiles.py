"""Tiles as they are handed out: the producer draws each from a counter, and tells the consumers of it."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def make_tile_blocks(NUMBERS: gl.constexpr):
    """Room to tell two tiles, in so many numbers each."""
    return gl.allocate_shared_memory(gl.int32, [2 * NUMBERS, 1], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))


@gluon.jit
def draw(counter, next_tiles, tile_visit, schedule, tile):
    """The tile to come after this one, which the consumers are told as well."""
    if schedule.share is not None and tile >= schedule.whole:
        before, behind = schedule.unvisited(tile)
        after = tile + schedule.key_blocks() - before - behind
    else:
        after = schedule.handed(gl.num_programs(0) + gl.atomic_add(counter, 1, sem="relaxed"))
    _tell(next_tiles, tile_visit, (after,), 1)
    return after


@gluon.jit
def draw_placed(counter, next_tiles, tile_visit, schedule):
    """As `draw`, with the tile's place: the consumers need not divide between two tiles."""
    drawn = gl.num_programs(0) + gl.atomic_add(counter, 1, sem="relaxed")
    row, batch, head = schedule.place(drawn)
    _tell(next_tiles, tile_visit, (drawn, row, batch, head), 4)
    return drawn, (row, batch, head)


@gluon.jit
def draw_packed(counter, next_tiles, told, tiles):
    """The tile of packed sequences to come next, and where it is: see `Schedule.placed`."""
    drawn = gl.num_programs(0) + gl.atomic_add(counter, 1, sem="relaxed")
    return tell_packed(counter, next_tiles, told, tiles, drawn)


@gluon.jit
def tell_packed(counter, next_tiles, told, tiles, drawn):
    """The first number from `drawn` on that is a tile of packed sequences, and where it is, see `placed`."""
    row, batch, head, first_query, queries, first_key, keys = tiles.placed(drawn)
    while (drawn < tiles.tiles()) & (row >= queries):
        drawn = gl.num_programs(0) + gl.atomic_add(counter, 1, sem="relaxed")
        row, batch, head, first_query, queries, first_key, keys = tiles.placed(drawn)
    _tell(next_tiles, told, (drawn, row, batch, head, first_query, queries, first_key, keys), 8)
    return drawn, row, batch, head, (first_query, queries, first_key, keys)


@gluon.jit
def _tell(next_tiles, tile_visit, numbers, COUNT: gl.constexpr):
    SCALAR: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    next_tiles.wait_empty(tile_visit)
    for part in gl.static_range(COUNT):
        next_tiles.block(tile_visit, part).store(gl.full([1], numbers[part], gl.int32, SCALAR))
    mbarrier.arrive(next_tiles.arrival(tile_visit), count=1)


@gluon.jit
def _told(next_tiles, tile_visit, part: gl.constexpr, WARPS: gl.constexpr = 4):
    told = next_tiles.block(tile_visit, part).load(gl.BlockedLayout([1], [32], [WARPS], [0]))
    return gl.max(told, axis=0)


@gluon.jit
def next_tile(next_tiles, tile_visit, WARPS: gl.constexpr = 4):
    """The tile that the producer drew to come after this one, as a partition of so many warps is told."""
    next_tiles.wait_full(tile_visit)
    tile = _told(next_tiles, tile_visit, 0, WARPS)
    next_tiles.release(tile_visit)
    return tile


@gluon.jit
def next_placed(next_tiles, tile_visit):
    """The tile that the producer drew to come after this one; its first row, batch and head."""
    next_tiles.wait_full(tile_visit)
    tile = _told(next_tiles, tile_visit, 0)
    row = _told(next_tiles, tile_visit, 1)
    batch = _told(next_tiles, tile_visit, 2)
    head = _told(next_tiles, tile_visit, 3)
    next_tiles.release(tile_visit)
    return tile, row, batch, head


@gluon.jit
def next_packed(next_tiles, told):
    """As `next_placed`, with the first and the number of its sequence's queries, and of its keys."""
    next_tiles.wait_full(told)
    first_query = _told(next_tiles, told, 4)
    queries = _told(next_tiles, told, 5)
    first_key = _told(next_tiles, told, 6)
    keys = _told(next_tiles, told, 7)
    tile, row, batch, head = next_placed(next_tiles, told)
    return tile, row, batch, head, (first_query, queries, first_key, keys)

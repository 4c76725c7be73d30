"""What producer and consumers agree on: the order of tiles, how they are told of, and the keys seen."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from kernels.hopper.softmax import capped, sloped
from kernels.hopper.warp_group import aggregate, beside

LANES = gl.constexpr(128)  # sequences that are looked at together


@gluon.constexpr_function
def first_keys(how, block_kv, consumer):
    """Keys of a consumer's first scores, see `Schedule`."""
    half = (how.SHIFTED or how.EDGES == "halved") and consumer % 2 == 0
    return block_kv // 2 if half else block_kv


@aggregate
class Schedule:
    """Tiles in the order they are handed out, and the keys that rows of queries see.

    HOW is what the kernel is compiled for. Of it ALIGNED says that of the key blocks of ROWS queries only the
    last may reach past a query or the last key.
    EDGES is "between" where a key block is as long as a tile of two consumers, and both edges of the mask lie
    between blocks: of a tile's last block the first consumer sees no more than a part of the first half, the
    second consumer all of that; so, the other way round, of the first. It is "halved" where besides the first
    consumer's scores are of that half alone, else "anywhere".
    SHIFTED says that a key block begins where a tile of three consumers does: of their own last blocks the
    first and the third see no more than a part of the first half, of which their scores are. There EDGES is
    "between" where what is said above is so of each consumer's own blocks, the third being as the first.
    WIDE says that a window has the keys of a block, ALL_SEE that of its last block every query sees a
    key. PAIRED, CHAINS and PLACED are ways to compute the same, see `flash3.forward`. SKIPS: consumers have
    first and last blocks of their own.
    With `splits`, if not None, there is no mask, and the keys of a tile fall into so many parts.
    With `share`, if not None, there is no mask, and only the first `whole` tiles are handed out whole. Of the
    key blocks of all others each block of threads has an equal share, of two tiles at most: a piece of each,
    whose number is `whole` and that of its first key block, counted from the first of all of these.
    With `lengths`, if not None, sequence i has lengths[i] + added keys, seq_kv at most.
    With `ahead`, if not None, and CAUSAL, a query sees so many keys behind its own; with `prefix` all of so
    many first ones. `cap`, if not None, is what products are multiplied by before their tanh. `slopes`, if
    not None, points to what a score falls by a key of distance, float32 [batch, heads], times per_slope what
    a product does; `slope` is a tile's.
    With `starts`, if not None, sequences are packed end to end, `sequences` of them, see `span`; a tile's
    schedule is that of its own, which begins at first_query and first_key.
    """

    batch_heads: gl.tensor
    heads: gl.tensor
    heads_per_kv_head: gl.tensor
    heads_together: gl.tensor
    query_blocks: gl.tensor
    seq_q: gl.tensor
    seq_kv: gl.tensor
    window: gl.tensor
    splits: object
    whole: object
    share: object
    lengths: object
    added: object
    ahead: object
    prefix: object
    cap: object
    slopes: object
    per_slope: object
    slope: object
    starts: object
    key_starts: object
    sequences: object
    first_query: object
    first_key: object
    BLOCK_Q: gl.constexpr
    BLOCK_KV: gl.constexpr
    HOW: gl.constexpr

    @gluon.jit
    def tiles(self):
        """Where the numbers end that are handed out, each part of a tile and each piece having its own."""
        tiles = self.batch_heads * self.query_blocks
        if self.splits is not None:
            tiles = tiles * self.splits
        if self.share is not None:
            end = gl.minimum((gl.program_id(0) + 1) * self.share, (tiles - self.whole) * self.key_blocks())
            tiles = self.whole + end
        return tiles

    @gluon.jit
    def key_blocks(self):
        """Of a tile, without a mask."""
        return (self.seq_kv + self.BLOCK_KV - 1) // self.BLOCK_KV

    @gluon.jit
    def handed(self, drawn):
        """The tile of a number that is drawn: behind whole ones the first piece of this block's share."""
        if self.share is not None:
            drawn = gl.where(drawn < self.whole, drawn, self.whole + gl.program_id(0) * self.share)
        return drawn

    @gluon.jit
    def unvisited(self, tile):
        """Key blocks of a cut tile before its piece, and those behind it."""
        blocks = self.key_blocks()
        before = (tile - self.whole) % blocks
        return before, gl.maximum(blocks - before - (self.tiles() - tile), 0)

    @gluon.jit
    def later(self, tile):
        """By how much its key blocks are numbered too high: a piece is as one of a tile's last blocks.

        Where the ends of what tiles visit vary, ptxas waits for P V too soon.
        """
        later = 0
        if self.share is not None:
            _, behind = self.unvisited(tile)
            later = gl.where(tile < self.whole, 0, behind)
        return later

    @gluon.jit
    def slot(self, tile):
        """Where what a piece leaves is: pieces of a tile follow one another."""
        return (tile - self.whole) // self.key_blocks() + gl.program_id(0)

    @gluon.jit
    def of(self, batch, head, span):
        """The schedule of one tile's sequence: of as many keys as it has, where the device says so."""
        if self.lengths is not None:
            held = gl.minimum(gl.load(self.lengths + batch), self.seq_kv).to(gl.int32) + self.added
            own = self._of((0, self.seq_q, 0, gl.minimum(held, self.seq_kv)), None)
        elif self.slopes is not None:
            own = self._of(span, gl.load(self.slopes + batch * self.heads + head) * self.per_slope)
        elif self.starts is not None:
            own = self._of(span, None)
        else:
            own = self
        return own

    @gluon.jit
    def _of(self, span, slope):
        first_query, seq_q, first_key, seq_kv = span
        return Schedule(
            self.batch_heads, self.heads, self.heads_per_kv_head, self.heads_together, self.query_blocks,
            seq_q, seq_kv, self.window, None, None, None, None, None, self.ahead, self.prefix, self.cap,
            None, None, slope, self.starts, None, None, first_query, first_key, self.BLOCK_Q, self.BLOCK_KV,
            self.HOW,
        )  # fmt: skip

    @gluon.jit
    def whole_span(self):
        """(first query, queries, first key, keys) where nothing is packed."""
        return 0, self.seq_q, 0, self.seq_kv

    @gluon.jit
    def placed(self, tile):
        """Where a packed tile is: its first row, batch, head, first query, queries, first key, keys.

        Sequence i has the numbers from starts[i] // BLOCK_Q + i on, at most one more than it has tiles: of
        that one the row is none of its queries. What follows the last sequence is one more, without keys.
        """
        row, batch, head = self.place(tile)
        number = row // self.BLOCK_Q
        sequence, stride = gl.to_tensor(0), gl.to_tensor(1)
        while stride * LANES <= self.sequences:
            stride *= LANES
        while stride > 0:  # so many at a time, as loads take long to come
            each = sequence + stride * gl.arange(0, LANES, layout=gl.BlockedLayout([4], [32], [1], [0]))
            begins = self._edge(self.starts, gl.minimum(each, self.sequences), self.seq_q)
            reached = (begins // self.BLOCK_Q + each <= number) & (each <= self.sequences)
            reached = gl.sum(reached.to(gl.int32), axis=0)
            sequence += gl.maximum(reached - 1, 0) * stride
            stride = stride // LANES
        follows = gl.minimum(sequence + 1, self.sequences)
        first_query = self._edge(self.starts, sequence, self.seq_q)
        end_query = self._edge(self.starts, follows, self.seq_q)
        end_query = gl.where(sequence < self.sequences, end_query, self.seq_q)
        first_key = self._edge(self.key_starts, sequence, self.seq_kv)
        keys = gl.maximum(self._edge(self.key_starts, follows, self.seq_kv) - first_key, 0)
        row = (number - first_query // self.BLOCK_Q - sequence) * self.BLOCK_Q
        return row, batch, head, first_query, end_query - first_query, first_key, keys

    @gluon.jit
    def _edge(self, starts, sequence, most):
        """Where one begins: what lies on a GPU may be anything, and must not lead out of the tensors."""
        return gl.cast(gl.minimum(gl.maximum(gl.load(starts + sequence), 0), most), gl.int32)

    @gluon.jit
    def place(self, tile):
        """(first query row, batch, head) of a tile, the heaviest first; past the last one it."""
        tile = gl.minimum(tile, self.tiles() - 1)
        if self.splits is not None:
            tile = tile // self.splits
        if self.share is not None:
            piece = tile - self.whole
            tile = gl.where(piece < 0, tile, self.whole + piece // self.key_blocks())
        if self.HOW.CAUSAL:
            heads_set = tile // (self.heads_together * self.query_blocks)
            first_head = heads_set * self.heads_together
            heads = gl.minimum(self.heads_together, self.batch_heads - first_head)
            tile_in_set = tile - first_head * self.query_blocks
            query_block = self.query_blocks - 1 - tile_in_set // heads
            batch_head = first_head + tile_in_set % heads
        else:
            query_block = tile % self.query_blocks
            batch_head = tile // self.query_blocks
        return query_block * self.BLOCK_Q, batch_head // self.heads, batch_head % self.heads

    @gluon.jit
    def own_blocks(self, tile, first, end):
        """[first, end) of those of a tile's key blocks that its part has, the last of these if none."""
        if self.splits is not None:
            blocks = (self.seq_kv + self.BLOCK_KV - 1) // self.BLOCK_KV
            part = tile % self.splits
            end = (part + 1) * blocks // self.splits
            first = gl.minimum(gl.maximum(first, part * blocks // self.splits), end - 1)
        if self.share is not None:
            before, behind = self.unvisited(tile)
            first = gl.where(tile < self.whole, first, gl.maximum(first, before + behind))
        return first, end

    @gluon.jit
    def out_batch(self, tile, batch):
        """Where O and lse of a tile go: those of all batches' first parts come first."""
        if self.splits is not None:
            batch += tile % self.splits * (self.batch_heads // self.heads)
        return batch

    @gluon.jit
    def position(self, row):
        """The key a query stands at: the last query stands at the last key."""
        return row + self.seq_kv - self.seq_q

    @gluon.jit
    def before(self, tile_row):
        """Keys that a tile's key blocks count before the first one; masks, positions and blocks do so too."""
        before = 0
        if self.HOW.SHIFTED:
            before = -self.position(tile_row) & (self.BLOCK_KV - 1)
        return before

    @gluon.jit
    def reached(self, end, before):
        """Where the keys end that are seen, of a query before which stand the keys before `end`."""
        if self.ahead is not None:
            end = gl.minimum(end + self.ahead, self.seq_kv + before)
        if self.prefix is not None:
            end = gl.maximum(end, gl.minimum(self.prefix, self.seq_kv) + before)
        return end

    @gluon.jit
    def seen_blocks(self, row, ROWS: gl.constexpr, before=0):
        """[first, end) of the key blocks that any of ROWS queries from `row` sees; a masked one if none."""
        begin = before
        end = self.seq_kv + before
        if self.HOW.WINDOWED:
            begin = gl.maximum(self.position(row) + before - self.window + 1, before)
        if self.HOW.CAUSAL:
            end = self.reached(self.position(gl.minimum(row + ROWS, self.seq_q)) + before, before)
        begin = gl.where(row < self.seq_q, begin, self.seq_kv + before)
        end_block = gl.maximum((end + self.BLOCK_KV - 1) // self.BLOCK_KV, 1)
        return gl.minimum(begin // self.BLOCK_KV, end_block - 1), end_block

    @gluon.jit
    def whole_blocks(self, row, ROWS: gl.constexpr, before=0, later=0):
        """[first, end) of the key blocks that all of ROWS queries from `row` see whole, if first < end."""
        begin = before
        end = self.seq_kv + before
        if self.HOW.WINDOWED:
            begin = gl.maximum(self.position(row + ROWS) + before - self.window, before)
        if self.HOW.CAUSAL:
            end = gl.minimum(self.position(row) + 1, self.seq_kv) + before
            end = gl.maximum(self.reached(end, before), before)
        return (begin + self.BLOCK_KV - 1) // self.BLOCK_KV, end // self.BLOCK_KV + later

    @gluon.jit
    def last_seen(self, positions, before):
        """The last key that each row sees."""
        if self.ahead is not None or self.prefix is not None:
            positions = self.reached(positions + 1, before) - 1
        return positions

    @gluon.jit
    def masked(
        self, scores, view, key_block, LAST: gl.constexpr, SCORES: gl.constexpr, CONSUMER: gl.constexpr = 0
    ):
        """scores [rows, keys], -inf where hidden; view: positions, `whole_blocks`, `before`."""
        positions, whole, before = view
        whole_first, whole_end = whole
        if self.cap is not None:
            scores = capped(scores, self.cap)
        if self.slope is not None:
            columns, own = self._columns(scores.shape[1], SCORES)
            keys = key_block * self.BLOCK_KV + columns + own
            scores = sloped(scores, self.slope, beside(positions, SCORES) - keys)
        if LAST or not self.HOW.ALIGNED:  # noqa: SIM102 (known when compiling, what follows is not)
            if key_block >= whole_end:
                scores = self._without_later_keys(scores, positions, before, key_block, SCORES, CONSUMER)
        if self.HOW.WINDOWED and not (LAST and self.HOW.WIDE):  # noqa: SIM102
            if key_block < whole_first:
                scores = self._without_earlier_keys(scores, positions, before, key_block, SCORES, CONSUMER)
        return scores

    @gluon.jit
    def _without_later_keys(
        self, scores, positions, before, key_block, SCORES: gl.constexpr, CONSUMER: gl.constexpr
    ):  # fmt: skip
        columns, own = self._columns(scores.shape[1], SCORES)
        last = self.seq_kv - 1 - key_block * self.BLOCK_KV
        if self.HOW.CAUSAL:
            last = beside(self.last_seen(positions, before), SCORES) - key_block * self.BLOCK_KV
        seen = columns <= last - own
        if self.HOW.EDGES != "anywhere" and CONSUMER % 2 == 1:  # which sees all of the first half
            seen = seen | (columns < self.BLOCK_KV // 2)
        return gl.where(seen, scores, float("-inf"))

    @gluon.jit
    def _without_earlier_keys(
        self, scores, positions, before, key_block, SCORES: gl.constexpr, CONSUMER: gl.constexpr
    ):  # fmt: skip
        columns, own = self._columns(scores.shape[1], SCORES)
        unseen = beside(positions, SCORES) - self.window
        if self.HOW.SHIFTED:
            unseen = gl.maximum(unseen, before - 1)
        seen = columns > unseen - key_block * self.BLOCK_KV - own
        if self.HOW.EDGES != "anywhere" and CONSUMER % 2 == 0:  # which sees all of the second half
            seen = seen | (columns >= self.BLOCK_KV // 2)
        return gl.where(seen, scores, float("-inf"))

    @gluon.jit
    def _columns(self, COLUMNS: gl.constexpr, SCORES: gl.constexpr):
        """The columns of scores, as the sum of two.

        For windows, where PAIRED and where EDGES asks for the half of each the first is known when compiling,
        as a thread owns columns 2 * (lane % 4) plus what is known: comparing then needs no register for it,
        which the loop over keys would hold. Elsewhere ptxas does better with the sum.
        """
        columns = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, SCORES))[None, :]
        own = columns & (6 if self.HOW.WINDOWED or self.HOW.EDGES != "anywhere" or self.HOW.PAIRED else 0)
        return columns - own, own


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

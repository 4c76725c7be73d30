"""What producer and consumers agree on: the order of tiles, and the keys that their queries see."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language.core import _aggregate as aggregate

from kernels.hopper.warp_group import beside


@aggregate
class Schedule:
    """Tiles in the order they are handed out, and the keys that rows of queries see.

    ALIGNED says that of the key blocks of ROWS queries only the last may reach past a query or the last key.
    EDGES is "between" where a key block is as long as a tile of two consumers, and both edges of the mask lie
    between blocks: of a tile's last block the first consumer sees no more than a part of the first half, the
    second consumer all of that; so, the other way round, of the first. It is "halved" where besides the first
    consumer's scores are of that half alone, else "anywhere". WIDE says that a window has the keys of a
    block. PAIRED and SHORT_WAITS are ways to compute the same, see `kernels.flash3`.
    """

    batch_heads: gl.tensor
    heads: gl.tensor
    heads_per_kv_head: gl.tensor
    heads_together: gl.tensor
    query_blocks: gl.tensor
    seq_q: gl.tensor
    seq_kv: gl.tensor
    window: gl.tensor
    BLOCK_Q: gl.constexpr
    BLOCK_KV: gl.constexpr
    CAUSAL: gl.constexpr
    WINDOWED: gl.constexpr
    ALIGNED: gl.constexpr
    EDGES: gl.constexpr
    WIDE: gl.constexpr
    PAIRED: gl.constexpr
    SHORT_WAITS: gl.constexpr

    @gluon.constexpr_function
    def __init__(
        self, batch_heads, heads, heads_per_kv_head, heads_together, query_blocks, seq_q, seq_kv, window,
        BLOCK_Q, BLOCK_KV, CAUSAL, WINDOWED, ALIGNED,
        EDGES="anywhere", WIDE=False, PAIRED=False, SHORT_WAITS=False,
    ):  # fmt: skip
        self.batch_heads = batch_heads
        self.heads = heads
        self.heads_per_kv_head = heads_per_kv_head
        self.heads_together = heads_together
        self.query_blocks = query_blocks
        self.seq_q = seq_q
        self.seq_kv = seq_kv
        self.window = window
        self.BLOCK_Q = gl.constexpr(BLOCK_Q)
        self.BLOCK_KV = gl.constexpr(BLOCK_KV)
        self.CAUSAL = gl.constexpr(CAUSAL)
        self.WINDOWED = gl.constexpr(WINDOWED)
        self.ALIGNED = gl.constexpr(ALIGNED)
        self.EDGES = gl.constexpr(EDGES)
        self.WIDE = gl.constexpr(WIDE)
        self.PAIRED = gl.constexpr(PAIRED)
        self.SHORT_WAITS = gl.constexpr(SHORT_WAITS)

    @gluon.constexpr_function
    def first_keys(self, consumer):
        """Keys of a consumer's first scores."""
        return self.BLOCK_KV // 2 if self.EDGES == "halved" and consumer == 0 else self.BLOCK_KV

    @gluon.jit
    def tiles(self):
        return self.batch_heads * self.query_blocks

    @gluon.jit
    def of(self, batch):
        """The schedule of one sequence: this one of all."""
        return self

    @gluon.jit
    def clean(self, values, visit, schedule, key_block):
        """Rows of V behind the last key are zero: TMA reads so past the end of a tensor."""

    @gluon.jit
    def place(self, tile):
        """(first query row, batch, head) of a tile; of the last one for numbers past it.

        Causal tiles are unequal: the heaviest come first, within a set of heads whose K and V share the L2.
        """
        tile = gl.minimum(tile, self.tiles() - 1)
        if self.CAUSAL:
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
    def position(self, row):
        """The key a query stands at: the last query stands at the last key."""
        return row + self.seq_kv - self.seq_q

    @gluon.jit
    def seen_blocks(self, row, ROWS: gl.constexpr):
        """[first, end) of the key blocks that any of ROWS queries from `row` sees; a masked one if none."""
        begin = 0
        end = self.seq_kv
        if self.WINDOWED:
            begin = gl.maximum(self.position(row) - self.window + 1, 0)
        if self.CAUSAL:
            end = self.position(gl.minimum(row + ROWS, self.seq_q))
        begin = gl.where(row < self.seq_q, begin, self.seq_kv)
        end_block = gl.maximum((end + self.BLOCK_KV - 1) // self.BLOCK_KV, 1)
        return gl.minimum(begin // self.BLOCK_KV, end_block - 1), end_block

    @gluon.jit
    def whole_blocks(self, row, ROWS: gl.constexpr):
        """[first, end) of the key blocks that all of ROWS queries from `row` see whole, if first < end."""
        begin = 0
        end = self.seq_kv
        if self.WINDOWED:
            begin = gl.maximum(self.position(row + ROWS) - self.window, 0)
        if self.CAUSAL:
            end = gl.maximum(gl.minimum(self.position(row) + 1, self.seq_kv), 0)
        return (begin + self.BLOCK_KV - 1) // self.BLOCK_KV, end // self.BLOCK_KV

    @gluon.jit
    def masked(
        self, scores, view, key_block, LAST: gl.constexpr, SCORES: gl.constexpr, CONSUMER: gl.constexpr = 0
    ):
        """scores [rows, keys] with -inf where a row does not see the key.

        view: the rows' positions, and their `whole_blocks`, which stay as they are. LAST is said of a last
        block.
        """
        positions, whole = view
        whole_first, whole_end = whole
        if LAST or not self.ALIGNED:  # noqa: SIM102 (known when compiling, what follows is not)
            if key_block >= whole_end:
                scores = self._without_later_keys(scores, positions, key_block, SCORES, CONSUMER)
        if self.WINDOWED and not (LAST and self.WIDE):  # noqa: SIM102
            if key_block < whole_first:
                scores = self._without_earlier_keys(scores, positions, key_block, SCORES, CONSUMER)
        return scores

    @gluon.jit
    def _without_later_keys(
        self, scores, positions, key_block, SCORES: gl.constexpr, CONSUMER: gl.constexpr
    ):  # fmt: skip
        columns, own = self._columns(scores.shape[1], SCORES)
        last = self.seq_kv - 1 - key_block * self.BLOCK_KV
        if self.CAUSAL:
            last = beside(positions, SCORES) - key_block * self.BLOCK_KV
        seen = columns <= last - own
        if self.EDGES != "anywhere" and CONSUMER == 1:  # which sees all of the first half
            seen = seen | (columns < self.BLOCK_KV // 2)
        return gl.where(seen, scores, float("-inf"))

    @gluon.jit
    def _without_earlier_keys(
        self, scores, positions, key_block, SCORES: gl.constexpr, CONSUMER: gl.constexpr
    ):  # fmt: skip
        columns, own = self._columns(scores.shape[1], SCORES)
        before = beside(positions, SCORES) - self.window - key_block * self.BLOCK_KV
        seen = columns > before - own
        if self.EDGES != "anywhere" and CONSUMER == 0:  # which sees all of the second half
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
        own = columns & (6 if self.WINDOWED or self.EDGES != "anywhere" or self.PAIRED else 0)
        return columns - own, own

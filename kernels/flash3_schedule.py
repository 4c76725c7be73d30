"""What all parts of the flash3 kernel agree on: the order of tiles, the keys they see, who waits for whom."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier
from triton.language.core import _aggregate as aggregate

WARP_GROUP = gl.constexpr(128)  # threads


@gluon.constexpr_function
def named_barrier_asm(action, threads):
    return f"bar.{action} $1, {threads}; mov.b32 $0, $1;"


@gluon.jit
def named_barrier(ACTION: gl.constexpr, name, THREADS: gl.constexpr, OWN: gl.constexpr = WARP_GROUP):
    """PTX `bar.sync` or `bar.arrive` of the OWN threads that run this, of THREADS in all."""
    ASM: gl.constexpr = named_barrier_asm(ACTION, THREADS)
    names = gl.full([OWN], name, gl.int32, gl.BlockedLayout([1], [32], [OWN // 32], [0]))
    gl.inline_asm_elementwise(ASM, "=r,r", [names], dtype=gl.int32, is_pure=False, pack=1)


@aggregate
class Ring:
    """Buffers that one side fills and the other drains; visit i uses buffer i modulo their number.

    Each buffer has two barriers: `full` (it holds visit i) and `empty` (whoever read visit i is done).
    A buffer is one of `blocks`, or several that are filled together. With a NAME, readers hand it back by the
    named barrier NAME + buffer, which a warp passes alone: before an mbarrier Triton gathers the warp group.
    """

    blocks: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    PARTS: gl.constexpr
    NAME: gl.constexpr
    THREADS: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, blocks, full, empty, NAME=0, READERS=0):
        self.blocks = blocks
        self.full = full
        self.empty = empty
        self.PARTS = gl.constexpr(blocks.shape[0] // full.shape[0])
        self.NAME = gl.constexpr(NAME)
        self.THREADS = gl.constexpr(READERS * 128 + 32)  # readers and the warp that fills

    @gluon.jit
    def buffer(self, visit):
        return visit & (self.full.shape[0] - 1)

    @gluon.jit
    def block(self, visit, part=0):
        """Block `part` of this visit's buffer."""
        return self.blocks.index(self.buffer(visit) * self.PARTS + part)

    @gluon.jit
    def _parity(self, visit):
        return (visit // self.full.shape[0]) & 1

    @gluon.jit
    def wait_full(self, visit):
        mbarrier.wait(self.full.index(self.buffer(visit)), self._parity(visit))

    @gluon.jit
    def wait_empty(self, visit):
        if self.NAME == 0:
            mbarrier.wait(self.empty.index(self.buffer(visit)), self._parity(visit) ^ 1)
        elif visit >= self.full.shape[0]:
            named_barrier("sync", self.NAME + self.buffer(visit), self.THREADS, 32)

    @gluon.jit
    def arrival(self, visit):
        """The barrier that a copy into this visit's buffer reports to."""
        return self.full.index(self.buffer(visit))

    @gluon.jit
    def release(self, visit):
        if self.NAME == 0:
            mbarrier.arrive(self.empty.index(self.buffer(visit)), count=1)
        else:
            named_barrier("arrive", self.NAME + self.buffer(visit), self.THREADS)


@gluon.jit
def make_ring(blocks, BUFFERS: gl.constexpr, READERS: gl.constexpr, NAME: gl.constexpr = 0):
    """A ring of BUFFERS, a power of two, over `blocks`; each is read by READERS warp groups."""
    full = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    for buffer in gl.static_range(BUFFERS):
        mbarrier.init(full.index(buffer), count=1)
        mbarrier.init(empty.index(buffer), count=READERS)
    return Ring(blocks, full, empty, NAME, READERS)


@aggregate
class Schedule:
    """Tiles in the order they are handed out, and the keys that rows of queries see.

    ALIGNED says that of the key blocks of ROWS queries only the last may reach past a query or the last key.
    EDGES says that a key block is as long as a tile of two consumers, and that both edges of the mask lie
    between blocks: of a tile's last block the first consumer sees no more than a part of the first half, the
    second consumer all of that; so, the other way round, of the first. With HALF the first consumer's scores
    are of that half alone. WIDE says that a window has the keys of a block.
    PAIRED, CHAINS and SHORT_WAITS are ways to compute the same, see `kernels.flash3`.
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
    HALF: gl.constexpr
    WIDE: gl.constexpr
    PAIRED: gl.constexpr
    CHAINS: gl.constexpr
    SHORT_WAITS: gl.constexpr

    @gluon.constexpr_function
    def __init__(
        self,
        batch_heads,
        heads,
        heads_per_kv_head,
        heads_together,
        query_blocks,
        seq_q,
        seq_kv,
        window,
        BLOCK_Q,
        BLOCK_KV,
        CAUSAL,
        WINDOWED,
        ALIGNED,
        EDGES=False,
        HALF=False,
        WIDE=False,
        PAIRED=False,
        CHAINS=False,
        SHORT_WAITS=False,
    ):
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
        self.HALF = gl.constexpr(HALF)
        self.WIDE = gl.constexpr(WIDE)
        self.PAIRED = gl.constexpr(PAIRED)
        self.CHAINS = gl.constexpr(CHAINS)
        self.SHORT_WAITS = gl.constexpr(SHORT_WAITS)

    @gluon.constexpr_function
    def first_keys(self, consumer):
        """Keys of a consumer's first scores."""
        return self.BLOCK_KV // 2 if self.HALF and consumer == 0 else self.BLOCK_KV

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
        self, scores, positions, key_block, whole, LAST: gl.constexpr, SCORES: gl.constexpr,
        CONSUMER: gl.constexpr = 0,
    ):  # fmt: skip
        """scores [rows, keys] with -inf where the row at `positions` does not see the key.

        whole is as `whole_blocks` returns it: blocks in it stay as they are. LAST is said of a last block.
        """
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
            last = (self._beside(positions, SCORES) - key_block * self.BLOCK_KV)[:, None]
        seen = columns <= last - own
        if self.EDGES and CONSUMER == 1:  # which sees all of the first half
            seen = seen | (columns < self.BLOCK_KV // 2)
        return gl.where(seen, scores, float("-inf"))

    @gluon.jit
    def _without_earlier_keys(
        self, scores, positions, key_block, SCORES: gl.constexpr, CONSUMER: gl.constexpr
    ):  # fmt: skip
        columns, own = self._columns(scores.shape[1], SCORES)
        before = (self._beside(positions, SCORES) - self.window - key_block * self.BLOCK_KV)[:, None]
        seen = columns > before - own
        if self.EDGES and CONSUMER == 0:  # which sees all of the second half
            seen = seen | (columns >= self.BLOCK_KV // 2)
        return gl.where(seen, scores, float("-inf"))

    @gluon.jit
    def _beside(self, positions, SCORES: gl.constexpr):
        return gl.convert_layout(positions, gl.SliceLayout(1, SCORES), assert_trivial=True)

    @gluon.jit
    def _columns(self, COLUMNS: gl.constexpr, SCORES: gl.constexpr):
        """The columns of scores, as the sum of two.

        For windows, where PAIRED and where EDGES asks for the half of each the first is known when compiling,
        as a thread owns columns 2 * (lane % 4) plus what is known: comparing then needs no register for it,
        which the loop over keys would hold. Elsewhere ptxas does better with the sum.
        """
        columns = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, SCORES))[None, :]
        own = columns & (6 if self.WINDOWED or self.EDGES or self.PAIRED else 0)
        return columns - own, own

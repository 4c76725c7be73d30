"""The query blocks that a block of keys visits in the backward pass, and the mask of each visit."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernels.backward import shared_key_blocks as shares
from kernels.backward.places import FAR, OF_KEYS
from kernels.hopper.softmax import capped, sloped
from kernels.hopper.warp_group import ROWS, aggregate

NUMBERS, END = gl.constexpr(OF_KEYS), gl.constexpr(FAR)
key_block_at = gluon.jit(shares.key_block_at)


@aggregate
class Visits:
    """A key block of a key head, and the query blocks that see it, over all query heads that share it.

    Where SHARED, a block of threads may have but some of those query blocks, of every head. SQUARE says
    causal and as many queries as keys: the first ROWS queries see none of the second consumer's.
    With `ahead`, `prefix`, `cap`, `slopes` and `per_slope`, if not None, a query sees more keys, and scores
    are made of products, as `kernels.hopper.schedule.Schedule` says. With `first_query`, if not None,
    sequences are packed end to end, and this is of one: it begins at first_query and first_key, and its
    query blocks are numbered from first_block on, of query_blocks in all.
    """

    batch: gl.tensor
    kv_head: gl.tensor
    key: gl.tensor
    first: gl.tensor
    end: gl.tensor
    heads: gl.tensor
    heads_per_kv_head: gl.tensor
    seq_q: gl.tensor
    seq_kv: gl.tensor
    window: gl.tensor
    ahead: object
    prefix: object
    cap: object
    slopes: object
    per_slope: object
    first_query: object
    first_key: object
    first_block: object
    query_blocks: object
    batches: object
    BLOCK_Q: gl.constexpr
    HOW: gl.constexpr

    @gluon.jit
    def capped(self, products):
        """As `kernels.hopper.softmax.capped`, where there is a cap."""
        if self.cap is not None:
            products = capped(products, self.cap)
        return products

    @gluon.jit
    def uncapped(self, weights, scores):
        """The weights of capped scores, -inf where hidden, times what these rise by with their products."""
        if self.cap is not None:
            tanh = gl.maximum(scores, -1.0)
            weights = weights * (1.0 - tanh * tanh)
        return weights

    @gluon.jit
    def weighed(self, scores, lse, place, key, FROM: gl.constexpr, scale_log2, SCORES: gl.constexpr):
        """exp(scores - lse) [ROWS keys, queries from FROM on]; a score falls by its head's slope if any."""
        if self.slopes is not None:
            head, block = place
            slope = gl.load(self.slopes + self.batch * self.heads + head) * self.per_slope
            rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, SCORES))[:, None]
            columns = gl.arange(0, scores.shape[1], layout=gl.SliceLayout(0, SCORES))[None, :]
            columns += block * self.BLOCK_Q + FROM + self.seq_kv - self.seq_q - key
            if self.HOW.CAUSAL and not self.HOW.BEYOND:  # no key behind its query: a term of each
                lse = lse + columns.to(gl.float32) * (slope * scale_log2)
                scores = scores + rows.to(gl.float32) * slope
            else:
                scores = sloped(scores, slope, columns - rows)
        return gl.exp2(scores * scale_log2 - lse)

    @gluon.jit
    def of_queries(self, tensor, head, row):
        """The coordinates by which TMA knows rows of Q or dO from `row` on."""
        if self.first_query is None:
            place = (self.batch, head, row, 0)
        else:
            batch = self.batch * (tensor.shape[1] // self.batches)  # rows
            place = packed_rows(batch + self.first_query, self.seq_q, head, row)
        return place

    @gluon.jit
    def of_keys(self, tensor, row):
        """The same of K, V, dK or dV, and rows from `row` of this key block on."""
        if self.first_key is None:
            place = (self.batch, self.kv_head, self.key + row, 0)
        else:
            batch = self.batch * (tensor.shape[1] // self.batches)
            place = packed_rows(batch + self.first_key, self.seq_kv, self.kv_head, self.key + row)
        return place

    @gluon.jit
    def numbered(self, block):
        """A query block's number among those of all sequences, and how many these are."""
        blocks = (self.seq_q + self.BLOCK_Q - 1) // self.BLOCK_Q
        if self.first_block is not None:
            block, blocks = self.first_block + block, self.query_blocks
        return block, blocks

    @gluon.jit
    def nothing_to_visit(self):
        """Whether these are keys of no query, or no keys at all, which packed sequences leave."""
        return (self.seq_q == 0) | (self.key >= self.seq_kv)

    @gluon.jit
    def count(self):
        return (self.end - self.first) * self.heads_per_kv_head

    @gluon.jit
    def whole(self):
        """Whether no other block of threads has queries of these keys; where SHARED, no mask hides any."""
        return (self.end - self.first) * self.BLOCK_Q >= self.seq_q

    @gluon.jit
    def first_place(self):
        """(query head, query block) of visit 0."""
        return self.kv_head * self.heads_per_kv_head, self.first

    @gluon.jit
    def next_place(self, place):
        """(query head, query block) of the visit after the one at `place`."""
        head, block = place
        last = block == self.end - 1
        return gl.where(last, head + 1, head), gl.where(last, self.first, block + 1)

    @gluon.jit
    def sees(self, key, block):
        """Whether a query of the block sees any of ROWS keys from `key`."""
        position = block * self.BLOCK_Q + self.seq_kv - self.seq_q
        seen = position + self.BLOCK_Q > key
        if self.HOW.WINDOWED:
            seen = seen & (position - key - ROWS + 1 < self.window)
        return seen

    @gluon.jit
    def masked_if_partial(self, scores, key, query, SCORES: gl.constexpr):
        """scores [ROWS keys, queries], both from a first one, with -inf where the key is hidden."""
        BY_COLUMNS: gl.constexpr = self.HOW.SQUARE or (self.HOW.WINDOWED and not self.HOW.BEYOND)
        if BY_COLUMNS:
            scores = self._masked_by_columns(scores, key, query, SCORES)
        else:
            scores = self._masked_by_keys(scores, key, query, SCORES)
        return scores

    @gluon.jit
    def _masked_by_keys(self, scores, key, query, SCORES: gl.constexpr):
        """The same under any mask."""
        position = query + self.seq_kv - self.seq_q  # the last query stands at the last key
        partial = key + ROWS > self.seq_kv
        seen_by_first = position  # the last key that the first query sees
        if self.ahead is not None:
            seen_by_first = position + self.ahead
        if self.HOW.CAUSAL:
            hidden = seen_by_first < key + ROWS - 1
            if self.prefix is not None:
                hidden = hidden & (self.prefix < key + ROWS)
            partial = partial | hidden
        if self.HOW.WINDOWED:
            partial = partial | (position + scores.shape[1] - self.window > key)
        if partial:
            keys = key + gl.arange(0, ROWS, layout=gl.SliceLayout(1, SCORES))[:, None]
            columns = gl.arange(0, scores.shape[1], layout=gl.SliceLayout(0, SCORES))[None, :]
            seen = keys < self.seq_kv
            if self.HOW.CAUSAL:
                reached = keys <= seen_by_first + columns
                if self.prefix is not None:
                    reached = reached | (keys < self.prefix)
                seen = seen & reached
            if self.HOW.WINDOWED:
                seen = seen & (keys > position - self.window + columns)
            scores = gl.where(seen, scores, float("-inf"))
        return scores

    @gluon.jit
    def _masked_by_columns(self, scores, key, query, SCORES: gl.constexpr):
        """The same under a causal mask, which hides keys past the last too.

        Columns are a sum of two: what a thread has for its own, and what is known when compiling, which takes
        no register to compare with.
        """
        ahead = key + self.seq_q - self.seq_kv - query  # queries to the one at the first key
        columns = gl.arange(0, scores.shape[1], layout=gl.SliceLayout(0, SCORES))[None, :]
        own = columns & 6
        columns -= own
        rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, SCORES))[:, None]
        partial = ahead + ROWS - 1 > 0
        if self.HOW.WINDOWED:
            partial = partial | (ahead + self.window < scores.shape[1])
        if partial:
            first = rows + ahead - own
            seen = columns >= first
            if self.HOW.WINDOWED:
                seen = seen & (columns < first + self.window)
            scores = gl.where(seen, scores, float("-inf"))
        return scores


@gluon.jit
def packed_rows(first, count, head, row):
    """Rows from `row` on of a sequence, out of bounds behind its end, see `packed_shape`."""
    return END, first + count, head, END - count + row, 0


@gluon.jit
def visits_of(
    program, batch_heads, kv_heads, heads_together, heads_per_kv_head, seq_q, seq_kv, window, score, others,
    cut, rows, BLOCK_Q: gl.constexpr, BLOCK_KV: gl.constexpr, HOW: gl.constexpr,
):  # fmt: skip
    """Those of a block of threads, of batch_heads key heads; a masked one where no query sees the keys.

    The key blocks that most queries see come first, within a set of heads whose tensors share the L2. Where
    SHARED, the last are shared as `cut` says. rows: of lse, whose blocks are those of all packed sequences.
    """
    _, _, cap, per_slope, ahead, prefix = score
    slopes, places = others
    number, part, parts = program, 0, 1
    if HOW.SHARED:
        number, part, parts = _share_of(program, cut)
    key_blocks = (seq_kv + BLOCK_KV - 1) // BLOCK_KV
    if places is not None:  # those that sequences have at most
        key_blocks = gl.num_programs(0) // batch_heads
    batch_head, key_block = key_block_at(number, batch_heads, heads_together, key_blocks)
    key = key_block * BLOCK_KV
    batches, first_query, first_key, first_block, query_blocks = None, None, None, None, None
    if places is not None:
        own = places + key_block * NUMBERS
        key, seq_kv, seq_q = gl.load(own), gl.load(own + 1), gl.load(own + 2)
        first_key, first_query, first_block = gl.load(own + 3), gl.load(own + 4), gl.load(own + 5)
        batches, query_blocks = batch_heads // kv_heads, rows // BLOCK_Q
    begin = 0
    end = seq_q
    if HOW.CAUSAL:
        begin = key + seq_q - seq_kv
        if ahead is not None:
            begin = begin - ahead
        begin = gl.maximum(begin, 0)
        if prefix is not None:
            begin = gl.where(key < prefix, 0, begin)
    if HOW.WINDOWED:
        end = gl.minimum(key + BLOCK_KV - 1 + window + seq_q - seq_kv, seq_q)
    first = gl.minimum(begin, seq_q - 1) // BLOCK_Q
    end = gl.maximum((end + BLOCK_Q - 1) // BLOCK_Q, first + 1)
    if HOW.SHARED:
        first, end = part * end // parts, (part + 1) * end // parts
    return Visits(
        batch_head // kv_heads, batch_head % kv_heads, key, first, end, kv_heads * heads_per_kv_head,
        heads_per_kv_head, seq_q, seq_kv, window, ahead, prefix, cap, slopes, per_slope,
        first_query, first_key, first_block, query_blocks, batches, BLOCK_Q, HOW,
    )  # fmt: skip


@gluon.jit
def _share_of(program, cut):
    """(key block, which part of the queries, of how many) of a block of threads."""
    whole, coarse, coarse_shares, fine_shares = cut
    number, part, parts = program, 0, 1
    if program >= whole + coarse:
        share = program - whole - coarse
        number = whole + coarse // coarse_shares + share // fine_shares
        part, parts = share % fine_shares, fine_shares
    elif program >= whole:
        share = program - whole
        number = whole + share // coarse_shares
        part, parts = share % coarse_shares, coarse_shares
    return number, part, parts

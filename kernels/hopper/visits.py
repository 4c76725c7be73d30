"""The query blocks that a block of keys visits in the backward pass, and the mask of each visit."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernels.backward import shared_key_blocks as shares
from kernels.hopper.scores import capped
from kernels.hopper.warp_group import ROWS, aggregate

key_block_at = gluon.jit(shares.key_block_at)


@aggregate
class Visits:
    """A key block of a key head, and the query blocks that see it, over all query heads that share it.

    Where SHARED, a block of threads may have but some of those query blocks, of every head. SQUARE says
    causal and as many queries as keys: the first ROWS queries see none of the second consumer's.
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
    cap: object
    BLOCK_Q: gl.constexpr
    HOW: gl.constexpr

    @gluon.jit
    def capped(self, products):
        """As `kernels.hopper.scores.capped`, where there is a cap."""
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
        if self.HOW.SQUARE or self.HOW.WINDOWED:
            scores = self._masked_by_columns(scores, key, query, SCORES)
        else:
            position = query + self.seq_kv - self.seq_q  # the last query stands at the last key
            partial = key + ROWS > self.seq_kv
            if self.HOW.CAUSAL:
                partial = partial | (position < key + ROWS - 1)
            if partial:
                keys = key + gl.arange(0, ROWS, layout=gl.SliceLayout(1, SCORES))[:, None]
                seen = keys < self.seq_kv
                if self.HOW.CAUSAL:
                    columns = gl.arange(0, scores.shape[1], layout=gl.SliceLayout(0, SCORES))[None, :]
                    seen = seen & (keys <= position + columns)
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
def visits_of(
    program, batch_heads, kv_heads, heads_together, heads_per_kv_head, seq_q, seq_kv, window, cap, cut,
    BLOCK_Q: gl.constexpr, BLOCK_KV: gl.constexpr, HOW: gl.constexpr,
):  # fmt: skip
    """Those of a block of threads, of batch_heads key heads; a masked one where no query sees the keys.

    The key blocks that most queries see come first, within a set of heads whose tensors share the L2. Where
    SHARED, blocks of threads share the last ones as `cut` says, see `kernels.backward.shared_key_blocks`.
    """
    number, part, parts = program, 0, 1
    if HOW.SHARED:
        number, part, parts = _share_of(program, cut)
    key_blocks = (seq_kv + BLOCK_KV - 1) // BLOCK_KV
    batch_head, key_block = key_block_at(number, batch_heads, heads_together, key_blocks)
    key = key_block * BLOCK_KV
    begin = 0
    end = seq_q
    if HOW.CAUSAL:
        begin = gl.maximum(key + seq_q - seq_kv, 0)
    if HOW.WINDOWED:
        end = gl.minimum(key + BLOCK_KV - 1 + window + seq_q - seq_kv, seq_q)
    first = gl.minimum(begin, seq_q - 1) // BLOCK_Q
    end = gl.maximum((end + BLOCK_Q - 1) // BLOCK_Q, first + 1)
    if HOW.SHARED:
        first, end = part * end // parts, (part + 1) * end // parts
    return Visits(
        batch_head // kv_heads, batch_head % kv_heads, key, first, end, kv_heads * heads_per_kv_head,
        heads_per_kv_head, seq_q, seq_kv, window, cap, BLOCK_Q, HOW,
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

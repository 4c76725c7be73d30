"""The backward pass on Hopper as one kernel, in Gluon: a warp that copies, warp groups that compute.

A block of threads keeps a block of K and V in shared memory, 64 keys for each of its two consumers. By TMA
its producer warp copies the query blocks that see them, one after another: Q, dO, lse and delta. A consumer
computes all transposed, [keys, queries]: so P and dS are in the registers from which wgmma takes its left
operand, for dV += P dO and dK += dS Q. dQ = dS K takes the keys of both consumers: each leaves its dS in
shared memory, and with the next query block each adds half of dQ to sums in global memory.
Source: Shah et al., FlashAttention-3, arXiv 2407.08608, section 3 and appendix B.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.language.core import _aggregate as aggregate

from kernels.flash3_kernel import ROWS, _as_operand, _load, accumulator_layout, barrier_of_warps
from kernels.flash3_schedule import Ring, make_ring

CONSUMERS = gl.constexpr(2)
BLOCK_KV = gl.constexpr(128)  # ROWS keys a consumer
SIDE = gl.constexpr(64)  # a consumer's half of a query block's dQ: SIDE queries x SIDE columns
EXCHANGES = gl.constexpr(4)  # buffers for dS


@gluon.constexpr_function
def held_layout(size):
    """Who holds which of the numbers that `_add_d_queries` adds: a thread 4 neighbours at a time."""
    return gl.DistributedLinearLayout(
        reg_bases=[[1], [2], *([512 << i] for i in range((size // 512).bit_length() - 1))],
        lane_bases=[[4], [8], [16], [32], [64]],
        warp_bases=[[128], [256]],
        block_bases=[],
        shape=[size],
    )


@aggregate
class Visits:
    """A key block of a key head, and the query blocks that see it, over all query heads that share it.

    SQUARE says causal and as many queries as keys: the first ROWS queries see none of the second consumer's.
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
    BLOCK_Q: gl.constexpr
    CAUSAL: gl.constexpr
    WINDOWED: gl.constexpr
    SQUARE: gl.constexpr

    @gluon.constexpr_function
    def __init__(
        self,
        batch,
        kv_head,
        key,
        first,
        end,
        heads,
        heads_per_kv_head,
        seq_q,
        seq_kv,
        window,
        BLOCK_Q,
        CAUSAL,
        WINDOWED,
        SQUARE,
    ):
        self.batch = batch
        self.kv_head = kv_head
        self.key = key
        self.first = first
        self.end = end
        self.heads = heads
        self.heads_per_kv_head = heads_per_kv_head
        self.seq_q = seq_q
        self.seq_kv = seq_kv
        self.window = window
        self.BLOCK_Q = gl.constexpr(BLOCK_Q)
        self.CAUSAL = gl.constexpr(CAUSAL)
        self.WINDOWED = gl.constexpr(WINDOWED)
        self.SQUARE = gl.constexpr(SQUARE)

    @gluon.jit
    def count(self):
        return (self.end - self.first) * self.heads_per_kv_head

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
        if self.WINDOWED:
            seen = seen & (position - key - ROWS + 1 < self.window)
        return seen

    @gluon.jit
    def masked_if_partial(self, scores, key, query, SCORES: gl.constexpr):
        """scores [ROWS keys, queries], both from a first one, with -inf where the key is hidden."""
        if self.SQUARE or self.WINDOWED:
            scores = self._masked_by_columns(scores, key, query, SCORES)
        else:
            position = query + self.seq_kv - self.seq_q  # the last query stands at the last key
            partial = key + ROWS > self.seq_kv
            if self.CAUSAL:
                partial = partial | (position < key + ROWS - 1)
            if partial:
                keys = key + gl.arange(0, ROWS, layout=gl.SliceLayout(1, SCORES))[:, None]
                seen = keys < self.seq_kv
                if self.CAUSAL:
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
        if self.WINDOWED:
            partial = partial | (ahead + self.window < scores.shape[1])
        if partial:
            first = rows + ahead - own
            seen = columns >= first
            if self.WINDOWED:
                seen = seen & (columns < first + self.window)
            scores = gl.where(seen, scores, float("-inf"))
        return scores


@gluon.jit
def _visits_of(
    program, batch_heads, kv_heads, heads_together, heads_per_kv_head, seq_q, seq_kv, window,
    BLOCK_Q: gl.constexpr, BLOCK_KV: gl.constexpr, CAUSAL: gl.constexpr, WINDOWED: gl.constexpr,
    SQUARE: gl.constexpr,
):  # fmt: skip
    """Those of a block of threads, of batch_heads key heads; a masked one where no query sees the keys.

    The key blocks that most queries see come first, within a set of heads whose tensors share the L2.
    """
    key_blocks = (seq_kv + BLOCK_KV - 1) // BLOCK_KV
    heads_set = program // (heads_together * key_blocks)
    first_head = heads_set * heads_together
    heads = gl.minimum(heads_together, batch_heads - first_head)
    in_set = program - first_head * key_blocks
    batch_head = first_head + in_set % heads
    key = in_set // heads * BLOCK_KV
    begin = 0
    end = seq_q
    if CAUSAL:
        begin = gl.maximum(key + seq_q - seq_kv, 0)
    if WINDOWED:
        end = gl.minimum(key + BLOCK_KV - 1 + window + seq_q - seq_kv, seq_q)
    first = gl.minimum(begin, seq_q - 1) // BLOCK_Q
    end = gl.maximum((end + BLOCK_Q - 1) // BLOCK_Q, first + 1)
    return Visits(
        batch_head // kv_heads, batch_head % kv_heads, key, first, end, kv_heads * heads_per_kv_head,
        heads_per_kv_head, seq_q, seq_kv, window, BLOCK_Q, CAUSAL, WINDOWED, SQUARE,
    )  # fmt: skip


@gluon.jit
def _load_rows(ring, terms, visit, tensor, term_tensor, batch, place, visits):
    """Copy a block of Q or dO, and the numbers that go with its rows, once the last reader is done."""
    head, block = place
    row = block * visits.BLOCK_Q
    arrival = ring.arrival(visit)
    ring.wait_empty(visit)
    mbarrier.expect(arrival, tensor.block_type.nbytes + term_tensor.block_type.nbytes)
    tma.async_copy_global_to_shared(tensor, [batch, head, row, 0], arrival, ring.block(visit))
    tma.async_copy_global_to_shared(term_tensor, [batch, head, row], arrival, terms.index(ring.buffer(visit)))


@gluon.jit
def _produce(inputs, rings, visits):
    """Copy K and V once, and Q and dO of every visit."""
    q_tensor, k_tensor, v_tensor, d_out_tensor, lse_tensor, delta_tensor = inputs
    keys, values, queries, d_outs, lse, delta, _ = rings
    place = visits.first_place()
    _load(keys, 0, k_tensor, visits.batch, visits.kv_head, visits.key)
    _load_rows(queries, lse, 0, q_tensor, lse_tensor, visits.batch, place, visits)
    _load(values, 0, v_tensor, visits.batch, visits.kv_head, visits.key)
    _load_rows(d_outs, delta, 0, d_out_tensor, delta_tensor, visits.batch, place, visits)
    for visit in range(1, visits.count()):
        place = visits.next_place(place)
        _load_rows(queries, lse, visit, q_tensor, lse_tensor, visits.batch, place, visits)
        _load_rows(d_outs, delta, visit, d_out_tensor, delta_tensor, visits.batch, place, visits)


@gluon.jit
def _without(block, FROM: gl.constexpr, dim: gl.constexpr):
    """What of a block comes from FROM on."""
    if FROM > 0:
        block = block.slice(FROM, block.shape[dim] - FROM, dim=dim)
    return block


@gluon.jit
def _rows(ring, visit, FROM: gl.constexpr = 0):
    """This visit's block of Q or dO as a matrix, from a row on."""
    return _without(ring.block(visit).reshape([ring.blocks.shape[3], ring.blocks.shape[4]]), FROM, 0)


@gluon.jit
def _terms(terms, ring, visit, FROM: gl.constexpr, LAYOUT: gl.constexpr):
    """The numbers that go with those rows, in a row."""
    block = _without(terms.index(ring.buffer(visit)).reshape([ring.blocks.shape[3]]), FROM, 0)
    return block.load(gl.SliceLayout(0, LAYOUT))[None, :]


@gluon.jit
def _hand_over(exchange, visit):
    """Let both consumers read the dS of a visit that this one has left."""
    fence_async_shared()
    barrier_of_warps()
    mbarrier.arrive(exchange.arrival(visit), count=1)


@gluon.jit
def _leave_nothing(exchange, visit, CONSUMER: gl.constexpr, QUERIES: gl.constexpr):
    """0 for dS of the first queries of a visit, which see no key of this consumer."""
    nothing = gl.zeros([ROWS, QUERIES], exchange.blocks.dtype, accumulator_layout(QUERIES))
    block = exchange.block(visit, CONSUMER)
    if block.shape[1] > QUERIES:
        block = block.slice(0, QUERIES, dim=1)
    block.store(nothing)


@gluon.jit
def _start_d_values(
    visit, block, K, V, d_V, rings, visits, scale_log2, CONSUMER: gl.constexpr, FROM: gl.constexpr = 0
):  # fmt: skip
    """Issue dV + P dO of a visit, and leave dS in `exchange`; returns P and dS as left operands with it.

    Of queries before FROM in their block none sees a key of this consumer.
    """
    _, _, queries, d_outs, lse, delta, exchange = rings
    QUERIES: gl.constexpr = visits.BLOCK_Q - FROM
    SCORES: gl.constexpr = accumulator_layout(QUERIES)
    OPERANDS: gl.constexpr = accumulator_layout(K.shape[1])
    nothing = gl.zeros([ROWS, QUERIES], gl.float32, SCORES)
    queries.wait_full(visit)
    S = warpgroup_mma(K, _rows(queries, visit, FROM).permute((1, 0)), nothing, use_acc=False, is_async=True)
    d_outs.wait_full(visit)
    # dP - delta of one product: there are too few registers to hold delta beside dP
    d_P = nothing - _terms(delta, d_outs, visit, FROM, SCORES)
    d_P = warpgroup_mma(V, _rows(d_outs, visit, FROM).permute((1, 0)), d_P, is_async=True)
    S = warpgroup_mma_wait(1, deps=[S])
    S = visits.masked_if_partial(S, visits.key + CONSUMER * ROWS, block * visits.BLOCK_Q + FROM, SCORES)
    weights = gl.exp2(S * scale_log2 - _terms(lse, queries, visit, FROM, SCORES))
    P = _as_operand(weights, K.dtype, OPERANDS)
    LATE: gl.constexpr = QUERIES > SIDE  # dV + P dO: P and dP of so many queries would be spilled
    if LATE:
        d_P = warpgroup_mma_wait(0, deps=[d_P])
    else:
        d_V = warpgroup_mma(P, _rows(d_outs, visit, FROM), d_V, is_async=True)
        d_P = warpgroup_mma_wait(1, deps=[d_P])
    d_S = (weights * d_P).to(K.dtype)
    if FROM > 0:
        _leave_nothing(exchange, visit, CONSUMER, FROM)
    _without(exchange.block(visit, CONSUMER), FROM, 1).store(d_S)
    _hand_over(exchange, visit)
    if LATE:
        d_V = warpgroup_mma(P, _rows(d_outs, visit, FROM), d_V, is_async=True)
    return d_V, P, _as_operand(d_S, K.dtype, OPERANDS)


@gluon.jit
def _visit_first(
    block, K, V, gradients, rings, visits, scale_log2, head_start,
    CONSUMER: gl.constexpr, FROM: gl.constexpr,
):  # fmt: skip
    """dV and dK of the first visit, whose queries see no key of this consumer before FROM."""
    d_V, d_K = gradients
    d_V, P, d_S = _start_d_values(0, block, K, V, d_V, rings, visits, scale_log2, CONSUMER, FROM)
    if CONSUMER == 0 and not visits.SQUARE:
        mbarrier.arrive(head_start.index(0), count=1)
    d_K = warpgroup_mma(d_S, _rows(rings[2], 0, FROM), d_K, is_async=True)
    d_V, d_K, P, d_S = warpgroup_mma_wait(0, deps=[d_V, d_K, P, d_S])
    return d_V, d_K


@gluon.jit
def _start_d_queries(visit, keys, exchange, CONSUMER: gl.constexpr):
    """Issue this half of dQ / scale: of the queries if they are more than SIDE, else of the columns."""
    HEAD_DIM: gl.constexpr = keys.blocks.shape[4]
    exchange.wait_full(visit)
    d_Q = gl.zeros([SIDE, SIDE], gl.float32, accumulator_layout(SIDE))
    for part in gl.static_range(CONSUMERS):
        d_S = exchange.block(visit, part)
        K = keys.block(0, part).reshape([ROWS, HEAD_DIM])
        if d_S.shape[1] > SIDE:
            d_S = d_S.slice(CONSUMER * SIDE, SIDE, dim=1)
        else:
            K = K.slice(CONSUMER * SIDE, SIDE, dim=1)
        d_Q = warpgroup_mma(d_S.permute((1, 0)), K, d_Q, use_acc=part > 0, is_async=True)
    return d_Q


@gluon.jit
def _add_d_queries(d_Q, sums, place, visits, CONSUMER: gl.constexpr):
    """Add half of dQ / scale to sums, zero at first, its numbers in the order in which threads hold them.

    That is [column // 8, row // 16, row % 8, column % 8 // 2, row // 8 % 2, column % 2]: a thread adds 16
    bytes at a time, a warp 512. Blocks of threads come in any order, so the last bits may differ.
    """
    SIZE: gl.constexpr = d_Q.shape[0] * d_Q.shape[1]
    HELD: gl.constexpr = held_layout(SIZE)
    head, block = place
    query_blocks = (visits.seq_q + visits.BLOCK_Q - 1) // visits.BLOCK_Q
    part = ((visits.batch * visits.heads + head) * query_blocks + block) * CONSUMERS + CONSUMER
    held = d_Q.reshape([4, 2, 8, d_Q.shape[1] // 8, 4, 2]).permute((3, 0, 2, 4, 1, 5)).reshape([SIZE])
    held = gl.convert_layout(held, HELD, assert_trivial=True)
    first = sums + gl.cast(part, gl.int64) * SIZE
    gl.atomic_add(first + gl.arange(0, SIZE, layout=HELD), held, sem="relaxed")


@gluon.jit
def _store(gradient, output, shared, visits, CONSUMER: gl.constexpr):
    """Start the store of dK or dV of this consumer's keys by way of shared memory."""
    shared.reshape([ROWS, shared.shape[3]]).store(gradient.to(shared.dtype))
    fence_async_shared()
    row = visits.key + CONSUMER * ROWS
    tma.async_copy_shared_to_global(output, [visits.batch, visits.kv_head, row, 0], shared)


@gluon.jit
def _consume(outputs, sums, rings, visits, scale, scale_log2, head_start, CONSUMER: gl.constexpr):
    """dK and dV of ROWS keys, and half of what the key block gives to dQ, a visit later than the rest."""
    keys, values, queries, _, _, _, exchange = rings
    d_k_tensor, d_v_tensor = outputs
    HEAD_DIM: gl.constexpr = keys.blocks.shape[4]
    K = keys.block(0, CONSUMER).reshape([ROWS, HEAD_DIM])
    V_block = values.block(0, CONSUMER)
    V = V_block.reshape([ROWS, HEAD_DIM])
    d_V = gl.zeros([ROWS, HEAD_DIM], gl.float32, accumulator_layout(HEAD_DIM))
    d_K = gl.zeros([ROWS, HEAD_DIM], gl.float32, accumulator_layout(HEAD_DIM))

    # queries at the start of the first block that see no key of this consumer, and whether the last may not
    HIDDEN: gl.constexpr = ROWS if visits.SQUARE and CONSUMER == 1 else 0
    SHORT: gl.constexpr = visits.SQUARE and visits.WINDOWED and CONSUMER == 0 and visits.BLOCK_Q == ROWS

    keys.wait_full(0)
    values.wait_full(0)
    place = visits.first_place()
    if CONSUMER == 1:  # one multiplies while the other takes exponentials
        mbarrier.wait(head_start.index(0), 0)
    if SHORT:  # so that the machine code is what was timed, of the other kernels below
        end = visits.count()
    if HIDDEN == visits.BLOCK_Q:
        _leave_nothing(exchange, 0, CONSUMER, HIDDEN)
        _hand_over(exchange, 0)
    else:
        d_V, d_K = _visit_first(
            place[1], K, V, (d_V, d_K), rings, visits, scale_log2, head_start, CONSUMER, HIDDEN
        )
        if CONSUMER == 0 and visits.SQUARE:  # the other has less of this visit, or none
            mbarrier.arrive(head_start.index(0), count=1)
    queries.release(0)
    if not SHORT:
        end = visits.count()
    else:
        end -= gl.where(visits.sees(visits.key, visits.end - 1), 0, 1)
    for visit in range(1, end):
        last_place = place
        place = visits.next_place(place)
        d_V, P, d_S = _start_d_values(visit, place[1], K, V, d_V, rings, visits, scale_log2, CONSUMER)
        d_Q = _start_d_queries(visit - 1, keys, exchange, CONSUMER)
        d_K = warpgroup_mma(d_S, _rows(queries, visit), d_K, is_async=True)
        d_Q = warpgroup_mma_wait(1, deps=[d_Q])
        _add_d_queries(d_Q, sums, last_place, visits, CONSUMER)
        d_V, d_K, P, d_S = warpgroup_mma_wait(0, deps=[d_V, d_K, P, d_S])
        queries.release(visit)
    if SHORT:  # noqa: SIM102 (known when compiling, what follows is not)
        if end < visits.count():
            last_place = place
            place = visits.next_place(place)
            _leave_nothing(exchange, end, CONSUMER, visits.BLOCK_Q)
            _hand_over(exchange, end)
            d_Q = _start_d_queries(end - 1, keys, exchange, CONSUMER)
            d_Q = warpgroup_mma_wait(0, deps=[d_Q])
            _add_d_queries(d_Q, sums, last_place, visits, CONSUMER)
    d_Q = _start_d_queries(visits.count() - 1, keys, exchange, CONSUMER)
    _store(d_V, d_v_tensor, V_block, visits, CONSUMER)
    d_Q = warpgroup_mma_wait(0, deps=[d_Q])
    _add_d_queries(d_Q, sums, place, visits, CONSUMER)
    tma.store_wait(0)
    barrier_of_warps()
    _store(d_K * scale, d_k_tensor, V_block, visits, CONSUMER)
    tma.store_wait(0)


@gluon.jit
def make_barriers(NUMBER: gl.constexpr, COUNT: gl.constexpr):
    """Barriers at which COUNT have to arrive."""
    barriers = gl.allocate_shared_memory(gl.int64, [NUMBER, 1], mbarrier.MBarrierLayout())
    for barrier in gl.static_range(NUMBER):
        mbarrier.init(barriers.index(barrier), count=COUNT)
    return barriers


@gluon.jit
def _make_exchange(blocks):
    """Buffers for dS that both consumers fill and both read.

    None waits for an empty one: who has seen the other's dS of visit i knows it done with dQ of visit i - 2,
    so that 4 buffers are enough for i + 2.
    """
    full = make_barriers(EXCHANGES, CONSUMERS)
    return Ring(blocks, full, full)


@gluon.jit(
    do_not_specialize=[
        "batch_heads", "kv_heads", "heads_together", "heads_per_kv_head", "seq_q", "seq_kv", "window",
    ]
)  # fmt: skip
def gradient_kernel(
    q_tensor, k_tensor, v_tensor, d_out_tensor, lse_tensor, delta_tensor, d_k_tensor, d_v_tensor, sums,
    batch_heads, kv_heads, heads_together, heads_per_kv_head, seq_q, seq_kv, window, scale, scale_log2,
    CAUSAL: gl.constexpr, WINDOWED: gl.constexpr, SQUARE: gl.constexpr, BUFFERS: gl.constexpr,
    CONSUMER_REGISTERS: gl.constexpr, PRODUCER_REGISTERS: gl.constexpr,
):  # fmt: skip
    """One block of threads a key block of a key head: its dK and dV, and what it adds to dQ.

    Tensors are descriptors [batch, heads, seq, head_dim] of blocks [1, 1, rows, head_dim], lse and delta
    [batch, heads, seq]; sums is as `_add_d_queries` writes it.
    """
    DTYPE: gl.constexpr = q_tensor.dtype
    HEAD_DIM: gl.constexpr = q_tensor.block_type.shape[3]
    BLOCK_Q: gl.constexpr = q_tensor.block_type.shape[2]
    EXCHANGE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, BLOCK_Q], DTYPE)
    visits = _visits_of(
        gl.program_id(0), batch_heads, kv_heads, heads_together, heads_per_kv_head, seq_q, seq_kv, window,
        BLOCK_Q, BLOCK_KV, CAUSAL, WINDOWED, SQUARE,
    )  # fmt: skip
    k_blocks = gl.allocate_shared_memory(DTYPE, [CONSUMERS, 1, 1, ROWS, HEAD_DIM], k_tensor.layout)
    v_blocks = gl.allocate_shared_memory(DTYPE, [CONSUMERS, 1, 1, ROWS, HEAD_DIM], v_tensor.layout)
    q_blocks = gl.allocate_shared_memory(DTYPE, [BUFFERS, 1, 1, BLOCK_Q, HEAD_DIM], q_tensor.layout)
    d_out_blocks = gl.allocate_shared_memory(DTYPE, [BUFFERS, 1, 1, BLOCK_Q, HEAD_DIM], d_out_tensor.layout)
    d_s_blocks = gl.allocate_shared_memory(DTYPE, [EXCHANGES * CONSUMERS, ROWS, BLOCK_Q], EXCHANGE)
    lse = gl.allocate_shared_memory(gl.float32, [BUFFERS, 1, 1, BLOCK_Q], lse_tensor.layout)
    delta = gl.allocate_shared_memory(gl.float32, [BUFFERS, 1, 1, BLOCK_Q], delta_tensor.layout)
    queries = make_ring(q_blocks, BUFFERS, CONSUMERS)
    rings = (
        make_ring(k_blocks, 1, CONSUMERS),
        make_ring(v_blocks, 1, CONSUMERS),
        queries,
        Ring(d_out_blocks, make_barriers(BUFFERS, 1), queries.empty),  # who releases Q releases dO
        lse,
        delta,
        _make_exchange(d_s_blocks),
    )
    head_start = make_barriers(1, 1)
    fence_async_shared()
    inputs = (q_tensor, k_tensor, v_tensor, d_out_tensor, lse_tensor, delta_tensor)
    outputs = (d_k_tensor, d_v_tensor)
    gl.warp_specialize(
        [
            (_consume, (outputs, sums, rings, visits, scale, scale_log2, head_start, 0)),
            (_consume, (outputs, sums, rings, visits, scale, scale_log2, head_start, 1)),
            (_produce, (inputs, rings, visits)),
        ],
        [4, 1],
        [CONSUMER_REGISTERS, PRODUCER_REGISTERS],
    )

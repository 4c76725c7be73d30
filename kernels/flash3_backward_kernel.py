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
    """A key block of a key head, and the query blocks that see it, over all query heads that share it."""

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
    def masked_if_partial(self, scores, key, block, SCORES: gl.constexpr):
        """scores [ROWS keys from `key`, BLOCK_Q] with -inf where the query does not see the key."""
        position = block * self.BLOCK_Q + self.seq_kv - self.seq_q  # the last query stands at the last key
        partial = key + ROWS > self.seq_kv
        if self.CAUSAL:
            partial = partial | (position < key + ROWS - 1)
        if self.WINDOWED:
            partial = partial | (position + self.BLOCK_Q - 1 - key >= self.window)
        if partial:
            keys = key + gl.arange(0, ROWS, layout=gl.SliceLayout(1, SCORES))[:, None]
            seen = keys < self.seq_kv
            if self.CAUSAL:
                positions = position + gl.arange(0, self.BLOCK_Q, layout=gl.SliceLayout(0, SCORES))[None, :]
                seen = seen & (keys <= positions)
                if self.WINDOWED:
                    seen = seen & (positions - keys < self.window)
            scores = gl.where(seen, scores, float("-inf"))
        return scores


@gluon.jit
def _visits_of(
    program, batch_heads, kv_heads, heads_together, heads_per_kv_head, seq_q, seq_kv, window,
    BLOCK_Q: gl.constexpr, BLOCK_KV: gl.constexpr, CAUSAL: gl.constexpr, WINDOWED: gl.constexpr,
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
        heads_per_kv_head, seq_q, seq_kv, window, BLOCK_Q, CAUSAL, WINDOWED,
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
def _rows(ring, visit):
    """This visit's block of Q or dO as a matrix."""
    return ring.block(visit).reshape([ring.blocks.shape[3], ring.blocks.shape[4]])


@gluon.jit
def _start_d_values(visit, block, K, V, d_V, rings, visits, scale_log2, CONSUMER: gl.constexpr):
    """Issue dV + P dO of a visit, and leave dS in `exchange`; returns P and dS as left operands with it."""
    _, _, queries, d_outs, lse, delta, exchange = rings
    SCORES: gl.constexpr = accumulator_layout(visits.BLOCK_Q)
    QUERIES: gl.constexpr = gl.SliceLayout(0, SCORES)
    OPERANDS: gl.constexpr = accumulator_layout(K.shape[1])
    nothing = gl.zeros([ROWS, visits.BLOCK_Q], gl.float32, SCORES)
    queries.wait_full(visit)
    S = warpgroup_mma(K, _rows(queries, visit).permute((1, 0)), nothing, use_acc=False, is_async=True)
    d_outs.wait_full(visit)
    # dP - delta of one product: there are too few registers to hold delta beside dP
    row_delta = delta.index(d_outs.buffer(visit)).reshape([visits.BLOCK_Q]).load(QUERIES)
    d_P = nothing - row_delta[None, :]
    d_P = warpgroup_mma(V, _rows(d_outs, visit).permute((1, 0)), d_P, is_async=True)
    S = warpgroup_mma_wait(1, deps=[S])
    S = visits.masked_if_partial(S, visits.key + CONSUMER * ROWS, block, SCORES)
    row_lse = lse.index(queries.buffer(visit)).reshape([visits.BLOCK_Q]).load(QUERIES)
    weights = gl.exp2(S * scale_log2 - row_lse[None, :])
    P = _as_operand(weights, K.dtype, OPERANDS)
    LATE: gl.constexpr = visits.BLOCK_Q > SIDE  # dV + P dO: P and dP of so many queries would be spilled
    if LATE:
        d_P = warpgroup_mma_wait(0, deps=[d_P])
    else:
        d_V = warpgroup_mma(P, _rows(d_outs, visit), d_V, is_async=True)
        d_P = warpgroup_mma_wait(1, deps=[d_P])
    d_S = (weights * d_P).to(K.dtype)
    exchange.block(visit, CONSUMER).store(d_S)
    fence_async_shared()
    barrier_of_warps()
    mbarrier.arrive(exchange.arrival(visit), count=1)
    if LATE:
        d_V = warpgroup_mma(P, _rows(d_outs, visit), d_V, is_async=True)
    return d_V, P, _as_operand(d_S, K.dtype, OPERANDS)


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

    keys.wait_full(0)
    values.wait_full(0)
    place = visits.first_place()
    if CONSUMER == 1:  # one multiplies while the other takes exponentials
        mbarrier.wait(head_start.index(0), 0)
    d_V, P, d_S = _start_d_values(0, place[1], K, V, d_V, rings, visits, scale_log2, CONSUMER)
    if CONSUMER == 0:
        mbarrier.arrive(head_start.index(0), count=1)
    d_K = warpgroup_mma(d_S, _rows(queries, 0), d_K, is_async=True)
    d_V, d_K, P, d_S = warpgroup_mma_wait(0, deps=[d_V, d_K, P, d_S])
    queries.release(0)
    for visit in range(1, visits.count()):
        last_place = place
        place = visits.next_place(place)
        d_V, P, d_S = _start_d_values(visit, place[1], K, V, d_V, rings, visits, scale_log2, CONSUMER)
        d_Q = _start_d_queries(visit - 1, keys, exchange, CONSUMER)
        d_K = warpgroup_mma(d_S, _rows(queries, visit), d_K, is_async=True)
        d_Q = warpgroup_mma_wait(1, deps=[d_Q])
        _add_d_queries(d_Q, sums, last_place, visits, CONSUMER)
        d_V, d_K, P, d_S = warpgroup_mma_wait(0, deps=[d_V, d_K, P, d_S])
        queries.release(visit)
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
    CAUSAL: gl.constexpr, WINDOWED: gl.constexpr, BUFFERS: gl.constexpr,
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
        BLOCK_Q, BLOCK_KV, CAUSAL, WINDOWED,
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

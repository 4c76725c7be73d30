"""What both backward kernels copy and store; dS, which consumers leave in shared memory for each other.

dQ comes to its sums in global memory by atomics of all threads, or in bulk, by a warp of its own.
"""

from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from kernels.hopper.buffer_queue import BufferQueue, make_barriers
from kernels.hopper.warp_group import (
    FIRST_TURN_BARRIER,
    ROWS,
    WARP_GROUP,
    accumulator_layout,
    barrier_of_warps,
    named_barrier,
)

CONSUMERS = gl.constexpr(2)
EMPTY, FULL = gl.constexpr(4), gl.constexpr(6)  # named barriers of the room for dQ, one a consumer
THREADS = gl.constexpr(WARP_GROUP.value + 32)  # that meet there: a consumer's, and the warp that adds
ROOM = gl.constexpr((1, 16, 256))  # of half of dQ: TMA takes 256 numbers in a row


@builtin
def reduce_add(descriptor, coordinates, shared, _semantic=None):
    """Start to add a block in shared memory to one in global memory: Gluon has no name for it."""
    coordinates = _semantic._convert_to_ir_values(coordinates, require_i64=False)
    add = ir.DESCRIPTOR_REDUCE_KIND.ADD
    _semantic.builder.create_async_tma_reduce(add, descriptor.handle, coordinates, shared.handle)


@gluon.constexpr_function
def held_layout(size):
    """Who holds which of the numbers that are added: a thread 4 neighbours at a time."""
    return gl.DistributedLinearLayout(
        reg_bases=[[1], [2], *([512 << i] for i in range((size // 512).bit_length() - 1))],
        lane_bases=[[4], [8], [16], [32], [64]],
        warp_bases=[[128], [256]],
        block_bases=[],
        shape=[size],
    )


@gluon.jit
def held(product):
    """Rows of a product, 64 as half of dQ / scale has, in the order in which threads hold its numbers.

    That is [column // 8, row // 16, row % 8, column % 8 // 2, row // 8 % 2, column % 2]: a thread moves 16
    bytes at a time, a warp 512.
    """
    SIZE: gl.constexpr = product.shape[0] * product.shape[1]
    parts = product.reshape([4, 2, 8, product.shape[1] // 8, 4, 2]).permute((3, 0, 2, 4, 1, 5))
    return gl.convert_layout(parts.reshape([SIZE]), held_layout(SIZE), assert_trivial=True)


@gluon.jit
def _part(place, visits, CONSUMER: gl.constexpr):
    """Which of all halves of dQ this consumer's of a visit is."""
    head, block = place
    block, query_blocks = visits.numbered(block)
    return ((visits.batch * visits.heads + head) * query_blocks + block) * CONSUMERS + CONSUMER


@gluon.jit
def add_d_queries(d_Q, sums, place, visits, CONSUMER: gl.constexpr):
    """Add half of dQ / scale, or its first columns, to sums, zero at first, in the order of threads."""
    SIZE: gl.constexpr = d_Q.shape[0] * d_Q.shape[1]
    first = sums + gl.cast(_part(place, visits, CONSUMER), gl.int64) * visits.HOW.HALF
    gl.atomic_add(first + gl.arange(0, SIZE, layout=held_layout(SIZE)), held(d_Q), sem="relaxed")


@gluon.jit
def leave_d_queries(d_Q, room, CONSUMER: gl.constexpr):
    """Leave half of dQ / scale to `add_in_bulk`, once that has done with the one before."""
    named_barrier("sync", EMPTY + CONSUMER, THREADS)
    room.index(CONSUMER).store(held(d_Q).reshape([ROOM[0], ROOM[1], ROOM[2]]))
    fence_async_shared()
    named_barrier("arrive", FULL + CONSUMER, THREADS)


@gluon.jit
def add_in_bulk(sums, room, visits):
    """Add what both consumers leave of every visit to sums, a descriptor [halves of dQ, 16, 256]."""
    place = visits.first_place()
    for _ in range(visits.count()):
        for consumer in gl.static_range(CONSUMERS):
            tma.store_wait(CONSUMERS - 1 - consumer)  # its half is read
            named_barrier("arrive", EMPTY + consumer, THREADS, 32)
        for consumer in gl.static_range(CONSUMERS):
            named_barrier("sync", FULL + consumer, THREADS, 32)
            reduce_add(sums, [_part(place, visits, consumer), 0, 0], room.index(consumer))
        place = visits.next_place(place)
    tma.store_wait(0)


EXCHANGES = gl.constexpr(4)  # buffers


@gluon.jit
def _load_rows(queue, terms, visit, tensor, term_tensor, place, visits):
    """Copy a block of Q or dO, and the numbers that go with its rows, once the last reader is done."""
    head, block = place
    rows = visits.of_queries(tensor, head, block * visits.BLOCK_Q)
    number, _ = visits.numbered(block)
    arrival = queue.arrival(visit)
    queue.wait_empty(visit)
    mbarrier.expect(arrival, tensor.block_type.nbytes + term_tensor.block_type.nbytes)
    tma.async_copy_global_to_shared(tensor, rows, arrival, queue.block(visit))
    numbers = terms.index(queue.buffer(visit))
    tma.async_copy_global_to_shared(
        term_tensor, [visits.batch, head, number * visits.BLOCK_Q], arrival, numbers
    )


@gluon.jit
def _load_keys(queue, tensor, visits):
    """Copy a block of K or V, ROWS rows at a time."""
    PARTS: gl.constexpr = queue.blocks.shape[0]
    queue.wait_empty(0)
    mbarrier.expect(queue.arrival(0), PARTS * tensor.block_type.nbytes)
    for part in gl.static_range(PARTS):
        rows = visits.of_keys(tensor, part * ROWS)
        tma.async_copy_global_to_shared(tensor, rows, queue.arrival(0), queue.block(0, part))


@gluon.jit
def produce(inputs, queues, visits):
    """Copy K and V once, and Q and dO of every visit."""
    q_tensor, k_tensor, v_tensor, d_out_tensor, lse_tensor, delta_tensor = inputs
    keys, values, queries, d_outs, lse, delta, _ = queues
    place = visits.first_place()
    _load_keys(keys, k_tensor, visits)
    _load_rows(queries, lse, 0, q_tensor, lse_tensor, place, visits)
    _load_keys(values, v_tensor, visits)
    _load_rows(d_outs, delta, 0, d_out_tensor, delta_tensor, place, visits)
    for visit in range(1, visits.count()):
        place = visits.next_place(place)
        _load_rows(queries, lse, visit, q_tensor, lse_tensor, place, visits)
        _load_rows(d_outs, delta, visit, d_out_tensor, delta_tensor, place, visits)


@gluon.jit
def without(block, FROM: gl.constexpr, dim: gl.constexpr):
    """What of a block comes from FROM on."""
    if FROM > 0:
        block = block.slice(FROM, block.shape[dim] - FROM, dim=dim)
    return block


@gluon.jit
def rows_of(queue, visit, FROM: gl.constexpr = 0):
    """This visit's block of Q or dO as a matrix, from a row on."""
    return without(queue.block(visit).reshape([queue.blocks.shape[-2], queue.blocks.shape[-1]]), FROM, 0)


@gluon.jit
def store(
    gradient, outputs, WHICH: gl.constexpr, shared, visits, CONSUMER: gl.constexpr, PARTS: gl.constexpr
):
    """Start the store of dK or dV of this consumer's keys, outputs[WHICH], by way of shared memory.

    A share instead leaves it in float32 before the sums of dQ, outputs[2]: the last block of threads at the
    end, 2 * PARTS of these each.
    """
    if not visits.HOW.SHARED or visits.whole():
        shared.reshape([ROWS, shared.shape[-1]]).store(gradient.to(shared.dtype))
        fence_async_shared()
        rows = visits.of_keys(outputs[WHICH], CONSUMER * ROWS)
        tma.async_copy_shared_to_global(outputs[WHICH], rows, shared)
    else:
        SIZE: gl.constexpr = ROWS * shared.shape[-1]
        share = gl.program_id(0) - gl.num_programs(0)
        part = (share * 2 + WHICH) * PARTS + CONSUMER
        first = outputs[2] + gl.cast(part, gl.int64) * SIZE
        gl.store(first + gl.arange(0, SIZE, layout=held_layout(SIZE)), held(gradient))


@gluon.jit
def store_nothing(tensor, blocks, visits):
    """0 for dK or dV of keys of a packed sequence without a query, by way of shared memory."""
    PARTS: gl.constexpr = blocks.shape[0]
    COLUMNS: gl.constexpr = blocks.shape[-1]
    SPREAD: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    for part in gl.static_range(PARTS):
        block = blocks.index(part)
        block.reshape([ROWS, COLUMNS]).store(gl.zeros([ROWS, COLUMNS], block.dtype, SPREAD))
        fence_async_shared()
        barrier_of_warps()
        tma.async_copy_shared_to_global(tensor, visits.of_keys(tensor, part * ROWS), block)
    tma.store_wait(0)


@gluon.jit
def make_exchange(DTYPE: gl.constexpr, BLOCK_Q: gl.constexpr, BULK: gl.constexpr):
    """Buffers for dS that both consumers fill and both read, handed over by named barriers where BULK.

    None waits for an empty one: who has seen the other's dS of visit i knows it done with dQ of visit i - 2,
    so that 4 buffers are enough for i + 2.
    """
    LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, BLOCK_Q], DTYPE)
    blocks = gl.allocate_shared_memory(DTYPE, [EXCHANGES * CONSUMERS, ROWS, BLOCK_Q], LAYOUT)
    full = make_barriers(EXCHANGES, CONSUMERS)
    return BufferQueue(blocks, full, full, FIRST_TURN_BARRIER if BULK else 0, 0, None)


@gluon.jit
def hand_over(exchange, visit, CONSUMER: gl.constexpr):
    """Let both consumers read the dS of a visit that this one has left."""
    fence_async_shared()
    if exchange.NAME:
        name = exchange.NAME + CONSUMER * EXCHANGES + exchange.buffer(visit)
        named_barrier("arrive", name, CONSUMERS * WARP_GROUP)
    else:
        barrier_of_warps()
        mbarrier.arrive(exchange.arrival(visit), count=1)


@gluon.jit
def wait_for_both(exchange, visit, CONSUMER: gl.constexpr):
    """Until both consumers have handed over the dS of a visit."""
    if exchange.NAME:
        name = exchange.NAME + (1 - CONSUMER) * EXCHANGES + exchange.buffer(visit)
        named_barrier("sync", name, CONSUMERS * WARP_GROUP)
    else:
        exchange.wait_full(visit)


@gluon.jit
def leave_nothing(exchange, visit, CONSUMER: gl.constexpr, QUERIES: gl.constexpr):
    """0 for dS of the first queries of a visit, which see no key of this consumer."""
    nothing = gl.zeros([ROWS, QUERIES], exchange.blocks.dtype, accumulator_layout(QUERIES))
    block = exchange.block(visit, CONSUMER)
    if block.shape[1] > QUERIES:
        block = block.slice(0, QUERIES, dim=1)
    block.store(nothing)

"""The dS that each consumer of the backward pass leaves in shared memory for both, visit by visit."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

from kernels.hopper.buffer_queue import BufferQueue, make_barriers
from kernels.hopper.dq_sums import CONSUMERS
from kernels.hopper.warp_group import (
    FIRST_TURN_BARRIER,
    ROWS,
    WARP_GROUP,
    accumulator_layout,
    barrier_of_warps,
    named_barrier,
)

EXCHANGES = gl.constexpr(4)  # buffers


@gluon.jit
def make_exchange(DTYPE: gl.constexpr, BLOCK_Q: gl.constexpr, BULK: gl.constexpr):
    """Buffers for dS that both consumers fill and both read, handed over by named barriers where BULK.

    None waits for an empty one: who has seen the other's dS of visit i knows it done with dQ of visit i - 2,
    so that 4 buffers are enough for i + 2.
    """
    LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, BLOCK_Q], DTYPE)
    blocks = gl.allocate_shared_memory(DTYPE, [EXCHANGES * CONSUMERS, ROWS, BLOCK_Q], LAYOUT)
    full = make_barriers(EXCHANGES, CONSUMERS)
    return BufferQueue(blocks, full, full, FIRST_TURN_BARRIER if BULK else 0, 0)


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

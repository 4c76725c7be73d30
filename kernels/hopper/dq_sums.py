"""How dQ comes to its sums in global memory: by atomics of all threads, or in bulk, by a warp of its own."""

from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma

from kernels.hopper.warp_group import WARP_GROUP, named_barrier

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
    """Add half of dQ / scale, or its first columns, to sums, zero at first, in the order of threads.

    Blocks of threads come in any order, so the last bits may differ.
    """
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

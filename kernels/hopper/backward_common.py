"""What both backward kernels do alike: copy rows, add what a key block gives to dQ, store dK and dV."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from kernels.hopper.producer import load
from kernels.hopper.warp_group import ROWS

CONSUMERS = gl.constexpr(2)


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
def produce(inputs, rings, visits):
    """Copy K and V once, and Q and dO of every visit."""
    q_tensor, k_tensor, v_tensor, d_out_tensor, lse_tensor, delta_tensor = inputs
    keys, values, queries, d_outs, lse, delta, _ = rings
    place = visits.first_place()
    load(keys, 0, k_tensor, visits.batch, visits.kv_head, visits.key)
    _load_rows(queries, lse, 0, q_tensor, lse_tensor, visits.batch, place, visits)
    load(values, 0, v_tensor, visits.batch, visits.kv_head, visits.key)
    _load_rows(d_outs, delta, 0, d_out_tensor, delta_tensor, visits.batch, place, visits)
    for visit in range(1, visits.count()):
        place = visits.next_place(place)
        _load_rows(queries, lse, visit, q_tensor, lse_tensor, visits.batch, place, visits)
        _load_rows(d_outs, delta, visit, d_out_tensor, delta_tensor, visits.batch, place, visits)


@gluon.jit
def without(block, FROM: gl.constexpr, dim: gl.constexpr):
    """What of a block comes from FROM on."""
    if FROM > 0:
        block = block.slice(FROM, block.shape[dim] - FROM, dim=dim)
    return block


@gluon.jit
def rows_of(ring, visit, FROM: gl.constexpr = 0):
    """This visit's block of Q or dO as a matrix, from a row on."""
    return without(ring.block(visit).reshape([ring.blocks.shape[3], ring.blocks.shape[4]]), FROM, 0)


@gluon.constexpr_function
def held_layout(size):
    """Who holds which of the numbers that `add_d_queries` adds: a thread 4 neighbours at a time."""
    return gl.DistributedLinearLayout(
        reg_bases=[[1], [2], *([512 << i] for i in range((size // 512).bit_length() - 1))],
        lane_bases=[[4], [8], [16], [32], [64]],
        warp_bases=[[128], [256]],
        block_bases=[],
        shape=[size],
    )


@gluon.jit
def add_d_queries(d_Q, sums, place, visits, CONSUMER: gl.constexpr):
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
def store(gradient, output, shared, visits, CONSUMER: gl.constexpr):
    """Start the store of dK or dV of this consumer's keys by way of shared memory."""
    shared.reshape([ROWS, shared.shape[3]]).store(gradient.to(shared.dtype))
    fence_async_shared()
    row = visits.key + CONSUMER * ROWS
    tma.async_copy_shared_to_global(output, [visits.batch, visits.kv_head, row, 0], shared)

"""Shared memory that one side fills and the other drains: who waits for whom."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from kernels.hopper.warp_group import aggregate, named_barrier


@aggregate
class BufferQueue:
    """Buffers that one side fills and the other drains; visit i uses buffer i modulo their number.

    Each buffer has two barriers: `full` (it holds visit i) and `empty` (whoever read visit i is done).
    A buffer is one of `blocks`, or several that are filled together, and with `tails` one of those beside,
    of the columns behind a block's. With a NAME, readers hand it back by the
    named barrier NAME + buffer, which a warp passes alone: before an mbarrier Triton gathers the warp group.
    """

    blocks: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    NAME: gl.constexpr
    THREADS: gl.constexpr  # readers and the warp that fills
    tails: object

    @gluon.jit
    def buffer(self, visit):
        return visit & (self.full.shape[0] - 1)

    @gluon.jit
    def block(self, visit, part=0):
        """Block `part` of this visit's buffer."""
        return self.blocks.index(self.buffer(visit) * (self.blocks.shape[0] // self.full.shape[0]) + part)

    @gluon.jit
    def tail(self, visit):
        """The last columns of this visit's rows [rows, columns]."""
        return self.tails.index(self.buffer(visit)).reshape([self.tails.shape[3], self.tails.shape[4]])

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
def make_queue(blocks, BUFFERS: gl.constexpr, READERS: gl.constexpr, NAME: gl.constexpr = 0, tails=None):
    """A queue of BUFFERS, a power of two, over `blocks`; each is read by READERS warp groups."""
    full = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    for buffer in gl.static_range(BUFFERS):
        mbarrier.init(full.index(buffer), count=1)
        mbarrier.init(empty.index(buffer), count=READERS)
    return BufferQueue(blocks, full, empty, NAME, READERS * 128 + 32, tails)


@gluon.jit
def blocks_for(tensor, BLOCKS: gl.constexpr):
    """So many blocks of a tensor, as its descriptor has them."""
    SHAPE: gl.constexpr = [BLOCKS] + tensor.block_type.shape  # noqa: RUF005 (Gluon unpacks none)
    return gl.allocate_shared_memory(tensor.dtype, SHAPE, tensor.layout)


@gluon.jit
def make_barriers(NUMBER: gl.constexpr, COUNT: gl.constexpr):
    """Barriers at which COUNT have to arrive."""
    barriers = gl.allocate_shared_memory(gl.int64, [NUMBER, 1], mbarrier.MBarrierLayout())
    for barrier in gl.static_range(NUMBER):
        mbarrier.init(barriers.index(barrier), count=COUNT)
    return barriers

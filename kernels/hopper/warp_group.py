"""What warp groups have in common: how they start, hold 64 rows in registers, wait and take turns."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.language import core

WARP_GROUP = gl.constexpr(128)  # threads
ROWS = gl.constexpr(64)  # of a warp group: what one wgmma takes
FIRST_TURN_BARRIER = gl.constexpr(8)  # named barriers 8, 9, ...: Triton itself takes the lowest
LN_2 = gl.constexpr(0.6931471805599453)

# the name of the barrier of a block of threads (inside a partition: of its warps) changed in Triton 3.7
barrier_of_warps = getattr(gl, "barrier", None) or gl.thread_barrier


def aggregate(cls):
    """A class whose objects kernels hand on, made of its fields' values in their order.

    A field is a gl.constexpr, or what Triton passes on as it comes; an `object` may also be None.
    """
    kinds = cls.__annotations__

    def fill(self, *values):
        for name, value in zip(kinds, values, strict=True):
            known = kinds[name] is gl.constexpr or value is None
            setattr(self, name, gl.constexpr(value) if known else value)

    cls.__init__ = gluon.constexpr_function(fill)
    return core._aggregate(cls)


@builtin
def start(consume, shared, others, how, _semantic=None, _generator=None):
    """Start how.CONSUMERS, each with its number after the arguments that they share, and the others.

    others are (function, arguments), of one warp each. Consumers and others have how.CONSUMER_REGISTERS and
    how.PRODUCER_REGISTERS a thread.
    """
    how = how.value
    consumers = how.CONSUMERS
    partitions = [(consume, gl.tuple([*shared, gl.constexpr(number)])) for number in range(consumers)]
    warps = [4] * (consumers - 1) + [1] * len(others)
    registers = [how.CONSUMER_REGISTERS] * (consumers - 1) + [how.PRODUCER_REGISTERS] * len(others)
    gl.warp_specialize([*partitions, *others], warps, registers, _semantic=_semantic, _generator=_generator)


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
class Turns:
    """Consumers that issue products one after another: the softmax of one runs under those of the others.

    TAKEN says whether they do; each then takes as many turns, those of key blocks included that it skips.
    """

    CONSUMER: gl.constexpr
    CONSUMERS: gl.constexpr
    TAKEN: gl.constexpr

    @gluon.jit
    def begin(self):
        """The last consumer lets the first one begin."""
        if self.CONSUMER == self.CONSUMERS - 1:
            self.pass_on()

    @gluon.jit
    def take(self):
        if self.TAKEN:
            named_barrier("sync", FIRST_TURN_BARRIER + self.CONSUMER, 2 * WARP_GROUP)

    @gluon.jit
    def pass_on(self):
        if self.TAKEN:
            after = FIRST_TURN_BARRIER + (self.CONSUMER + 1) % self.CONSUMERS
            named_barrier("arrive", after, 2 * WARP_GROUP)


@gluon.constexpr_function
def accumulator_layout(columns, operand_bits=16):
    """Who holds what of a product [ROWS, columns]."""
    shape = [16, columns, 256 // operand_bits]
    return gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=shape)


@gluon.jit
def as_operand(P, DTYPE: gl.constexpr, OUT: gl.constexpr):
    """P rounded, in the registers where wgmma takes its left operand: nothing moves between threads."""
    OPERAND: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=OUT, k_width=2)
    return gl.convert_layout(P.to(DTYPE), OPERAND, assert_trivial=True)


@gluon.jit
def beside(column, LAYOUT: gl.constexpr):
    """One number a row as a column [ROWS, 1] that goes with the rows of a tensor of this layout."""
    return gl.convert_layout(column, gl.SliceLayout(1, LAYOUT), assert_trivial=True)[:, None]

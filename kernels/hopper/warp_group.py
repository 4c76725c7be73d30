"""What warp groups have in common: how they start, wait, take turns, hold 64 rows and issue products."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma
from triton.language import core

WARP_GROUP = gl.constexpr(128)  # threads
ROWS = gl.constexpr(64)  # of a warp group: what one wgmma takes
FIRST_TURN_BARRIER = gl.constexpr(8)  # named barriers 8, 9, ...: Triton itself takes the lowest
LN_2 = gl.constexpr(0.6931471805599453)

# the name of the barrier of a block of threads (inside a partition: of its warps) changed in Triton 3.7
barrier_of_warps = getattr(gl, "barrier", None) or gl.thread_barrier


def aggregate(cls):
    """A class that kernels hand on, of its fields' values in their order; an `object` may be None."""
    kinds = cls.__annotations__

    def fill(self, *values):
        for name, value in zip(kinds, values, strict=True):
            known = kinds[name] is gl.constexpr or value is None
            setattr(self, name, gl.constexpr(value) if known else value)

    cls.__init__ = gluon.constexpr_function(fill)
    return core._aggregate(cls)


@builtin
def start(consume, shared, others, how, _semantic=None, _generator=None):
    """Start how.CONSUMERS with what they share and their numbers, and the others, of a warp each."""
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
    """Consumers that issue products in turns, if TAKEN: the softmax of one runs under the others'."""

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


@gluon.jit
def now(TRACED: gl.constexpr):
    """Nanoseconds of the GPU's clock; 0 where nothing is traced."""
    if TRACED:
        nanoseconds = gl.inline_asm_elementwise(
            "mov.u64 $0, %globaltimer;", "=l", [], dtype=gl.int64, is_pure=False, pack=1
        )
    else:
        nanoseconds = 0
    return nanoseconds


@gluon.jit
def store_times(blocks, tile, start, TRACED: gl.constexpr):
    """Write down a tile's SM, start and end, see `kernels.launch.block_times`."""
    if TRACED:
        end = now(TRACED)
        sm = gl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=gl.int32, is_pure=False, pack=1)
        gl.store(blocks + tile * 3, sm.to(gl.int64))
        gl.store(blocks + tile * 3 + 1, start)
        gl.store(blocks + tile * 3 + 2, end)


@gluon.jit
def pause(NANOSECONDS: gl.constexpr):
    """Let a partition of one warp rest: for about as long, or up to twice (PTX, nanosleep)."""
    time = gl.full([32], NANOSECONDS, gl.int32, gl.BlockedLayout([1], [32], [1], [0]))
    gl.inline_asm_elementwise(
        "nanosleep.u32 $1; mov.b32 $0, $1;", "=r,r", [time], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.constexpr_function
def parts_of(columns, held):
    """(first, columns), powers of two, of the products that make one of so many; first the held ones."""
    first, parts = held, [(0, held)] if held else []
    while first < columns:
        most = 1 << (columns - first).bit_length() - 1
        parts.append((first, min(most, first & -first) if first else most))
        first += parts[-1][1]
    return parts


@gluon.constexpr_function
def part_of(columns, held, part, place):
    return parts_of(columns, held)[part][place]


@gluon.constexpr_function
def part_count(columns, held):
    return len(parts_of(columns, held))


@gluon.jit
def columns_of(queries, visit, CONSUMER: gl.constexpr, PIECES: gl.constexpr):
    """A consumer's rows of this visit's Q, in so many blocks of columns."""
    pieces = ()
    for piece in gl.static_range(PIECES):
        block = queries.block(visit, CONSUMER * PIECES + piece)
        pieces = pieces + (block.reshape([ROWS, block.shape[3]]),)  # noqa: RUF005
    return pieces


@gluon.jit
def held_columns(Q, HELD: gl.constexpr, BLOCK_KV: gl.constexpr):
    """The first HELD columns of Q in the registers from which wgmma takes its left operand; 0 for none."""
    if HELD:
        OPERAND: gl.constexpr = gl.DotOperandLayout(
            operand_index=0, parent=accumulator_layout(BLOCK_KV), k_width=2
        )
        held = Q.slice(0, HELD, dim=1).load(OPERAND)
    else:
        held = 0
    return held


@gluon.jit
def start_scores(Q, held, keys, visit, HELD: gl.constexpr, KEYS: gl.constexpr, COLUMNS: gl.constexpr):
    """Issue Q K^T of the first KEYS of this visit's keys, K in one block or several of its columns."""
    WIDTH: gl.constexpr = keys.blocks.shape[-1]
    PIECES: gl.constexpr = keys.blocks.shape[0] // keys.full.shape[0]  # as Q has
    S = gl.zeros([ROWS, KEYS], gl.float32, accumulator_layout(KEYS))
    if PIECES > 1:
        for piece in gl.static_range(PIECES):
            K = keys.block(visit, piece).reshape([keys.blocks.shape[-2], WIDTH]).slice(0, KEYS, dim=0)
            if piece == 0 and HELD > 0:  # noqa: SIM108 (an expression would have one type)
                some = held
            else:
                some = Q[piece]
            S = warpgroup_mma(some, K.permute((1, 0)), S, use_acc=piece > 0, is_async=True)
    else:
        K = keys.block(visit).reshape([keys.blocks.shape[-2], WIDTH]).slice(0, KEYS, dim=0)
        if keys.tails is None:
            S = start_product(Q[0], K, S, False, COLUMNS, HELD, held)
        else:
            S = start_product(Q[0], K, S, False, WIDTH, HELD, held)
            behind = Q[0].slice(WIDTH, keys.tails.shape[4], dim=1)
            S = start_product(behind, keys.tail(visit).slice(0, KEYS, dim=0), S, True, COLUMNS - WIDTH)
    return S


@gluon.jit
def start_product(
    left, right, product, ADDED: gl.constexpr, COLUMNS: gl.constexpr, HELD: gl.constexpr = 0, held=0
):
    """Issue left right^T of their first COLUMNS, ADDED to `product` or not; held: left's first HELD."""
    for part in gl.static_range(part_count(COLUMNS, HELD)):
        others = right.slice(part_of(COLUMNS, HELD, part, 0), part_of(COLUMNS, HELD, part, 1), dim=1)
        if part == 0 and HELD > 0:
            some = held
        else:
            some = left.slice(part_of(COLUMNS, HELD, part, 0), part_of(COLUMNS, HELD, part, 1), dim=1)
        product = warpgroup_mma(
            some, others.permute((1, 0)), product, use_acc=ADDED or part > 0, is_async=True
        )
    return product


@gluon.constexpr_function
def output_layout(columns, part):
    """Who holds what of a part of O."""
    return accumulator_layout(part_of(columns, 0, part, 1))


@gluon.jit
def no_output(COLUMNS: gl.constexpr):
    """O before the first key block: its columns in parts, as `parts_of` says."""
    out = ()
    for part in gl.static_range(part_count(COLUMNS, 0)):
        some = gl.zeros([ROWS, part_of(COLUMNS, 0, part, 1)], gl.float32, output_layout(COLUMNS, part))
        out = out + (some,)  # noqa: RUF005 (Gluon unpacks none)
    return out


@gluon.jit
def start_output(P, values, visit, out, COLUMNS: gl.constexpr):
    """Issue out + P V of this visit's key block, a product for each part."""
    V = values.block(visit).reshape([values.blocks.shape[3], values.blocks.shape[4]])
    issued = ()
    for part in gl.static_range(part_count(COLUMNS, 0)):
        weights = as_operand(P, P.dtype, output_layout(COLUMNS, part))
        if part == 1 and values.tails is not None:
            some = values.tail(visit)
        else:
            some = V.slice(part_of(COLUMNS, 0, part, 0), part_of(COLUMNS, 0, part, 1), dim=1)
        issued = issued + (warpgroup_mma(weights, some, out[part], is_async=True),)  # noqa: RUF005
    return issued


@gluon.jit
def scaled(out, factors, COLUMNS: gl.constexpr):
    """Each row of O times its factor."""
    rescaled = ()
    for part in gl.static_range(part_count(COLUMNS, 0)):
        rescaled = rescaled + (out[part] * beside(factors, output_layout(COLUMNS, part)),)  # noqa: RUF005
    return rescaled

"""Softmax on numbers of 8 bits about a reference, which a row's logits are subtracted from.

As long as no logit of a warp's rows exceeds its row's reference by more than 0.8 in units of log2, nothing is
told between lanes, and the references stay; else they become the largest so far. P is 2^8.8 at most, which
e4m3 holds. What a lane has of a row stands in [rows, 4], which is what is the same for a row, too.
FlashAttention-4 puts off rescaling O by the same rule, with more room.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernels.hopper.fp8_softmax import HEADROOM, ROUND_ASM, in_fours
from kernels.hopper.warp_group import ROWS

LOWEST = gl.constexpr(-1e38)  # a reference before any logit: unlike -inf it leaves finite differences
LANES = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[[8, 0]],
        lane_bases=[[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]],
        warp_bases=[[16, 0], [32, 0]],
        block_bases=[],
        shape=[64, 4],
    )
)


@gluon.constexpr_function
def reference_asm():
    """PTX of `new_reference` of two rows: $0, $1 and factors $2, $3, from largest $4, $5 and $6, $7."""
    room = "0f3F4CCCCD"  # 0.8: with HEADROOM under log2 of 448, e4m3's largest, which is 8.807
    rows = " ".join(
        f"shfl.sync.bfly.b32 a, ${4 + row}, 1, 0x1f, 0xffffffff; max.f32 a, a, ${4 + row};"
        f" shfl.sync.bfly.b32 b, a, 2, 0x1f, 0xffffffff; max.f32 a, a, b; max.f32 ${row}, a, ${6 + row};"
        f" sub.f32 b, ${6 + row}, ${row}; ex2.approx.ftz.f32 ${2 + row}, b;"
        for row in range(2)
    )
    return (
        f"{{ .reg .pred p; .reg .f32 a, b; add.f32 a, $6, {room}; add.f32 b, $7, {room};"
        " setp.gt.f32 p, $4, a; setp.gt.or.f32 p, $5, b, p; vote.sync.any.pred p, p, 0xffffffff;"
        " mov.f32 $0, $6; mov.f32 $1, $7; mov.f32 $2, 0f3F800000; mov.f32 $3, 0f3F800000;"
        f" @!p bra DONE; {rows} DONE: }}"
    )


@gluon.jit
def lane_maximum(S):
    """The largest that a lane has of each row [ROWS, 4]."""
    of_pairs = gl.max(S.reshape([ROWS, S.shape[1] // 8, 4, 2]), axis=3)
    return gl.convert_layout(gl.max(of_pairs, axis=1), LANES, assert_trivial=True)


@gluon.jit
def new_reference(largest, reference):
    """The reference after logits of which a lane's largest are given, and 2^(the one before - it)."""
    ASM: gl.constexpr = reference_asm()
    return gl.inline_asm_elementwise(
        ASM, "=&f,=&f,=&f,=&f,f,f,f,f", [largest, reference],
        dtype=(gl.float32, gl.float32), is_pure=False, pack=2,
    )  # fmt: skip


@gluon.jit
def _beside(column, tensor):
    """One number a lane as [ROWS, 1, 4] that goes with a tensor [ROWS, n, 4]."""
    LAYOUT: gl.constexpr = tensor.type.layout
    return gl.convert_layout(column, gl.SliceLayout(1, LAYOUT), assert_trivial=True)[:, None]


@gluon.jit
def _by_lane(tensor):
    return tensor.reshape([ROWS, tensor.shape[1] // 4, 4])


@gluon.jit
def weights_of(S, reference, to_log2, v_scale):
    """P of a part, as `fp8_softmax.softmax_step` has it, and its sums a lane, without the values' scale."""
    first, second, third, fourth = in_fours(S)
    first, second, third, fourth = _by_lane(first), _by_lane(second), _by_lane(third), _by_lane(fourth)
    offset = _beside(reference - (HEADROOM + v_scale), first)
    first = gl.exp2(first * to_log2 - offset)
    second = gl.exp2(second * to_log2 - offset)
    third = gl.exp2(third * to_log2 - offset)
    fourth = gl.exp2(fourth * to_log2 - offset)
    P = gl.inline_asm_elementwise(
        ROUND_ASM, "=r,f,f,f,f", [first, second, third, fourth], dtype=gl.int32, is_pure=True, pack=1
    )
    sums = gl.sum((first + second) + (third + fourth), axis=1)
    sums = gl.convert_layout(sums, LANES, assert_trivial=True)
    return P.reshape([ROWS, P.shape[1] * 4]), sums * gl.exp2(-v_scale)


@gluon.jit
def times_rows(out, factor, OUT: gl.constexpr):
    """out times a factor of each row [ROWS, 4]."""
    even, odd = gl.split(out.reshape([ROWS, out.shape[1] // 8, 4, 2]))
    factor = _beside(factor, even)
    product = gl.join(even * factor, odd * factor).reshape(out.shape)
    return gl.convert_layout(product, OUT, assert_trivial=True)

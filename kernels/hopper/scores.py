"""What becomes of products before the softmax, and of a row at its end: softcap, slopes and sinks."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernels.hopper.warp_group import LN_2

LOG2_E = gl.constexpr(1.4426950408889634)


@gluon.jit
def capped(products, cap):
    """tanh(products cap), as `kernels.tile.scores.capped` where that is not FINE."""
    power = gl.exp2(products * (cap * (2.0 * LOG2_E)))
    inverse = gl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=r,r", [1.0 + power], dtype=gl.float32, is_pure=True, pack=1
    )
    return 1.0 - 2.0 * inverse


@gluon.jit
def sloped(products, slope, distances):
    """products less the slope, in their units, times the distance of query and key."""
    return products - slope * gl.abs(distances.to(gl.float32))


@gluon.jit
def ends_with_sink(running_max, running_sum, sink, scale_log2):
    """What a row's O is multiplied by, and its log-sum-exp, with its head's sink: a logit without a key.

    The sink is in units of log2.
    """
    highest = running_max * scale_log2
    top = gl.maximum(highest, sink)
    offset = gl.where(top == float("-inf"), 0.0, top)
    scaled = gl.exp2(highest - offset)
    total = running_sum * scaled + gl.exp2(sink - offset)
    return gl.where(total == 0.0, 0.0, scaled / total), (top + gl.log2(total)) * LN_2

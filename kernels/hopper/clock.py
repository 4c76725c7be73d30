"""Where and when a tile was computed, by the GPU's own clock, where it is traced; and a rest for a warp."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


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

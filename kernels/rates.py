"""Micro-benchmarks: each kernel keeps one unit of a GPU busy and does nothing else.

Every block notes its SM, and when it began and ended by two clocks: nanoseconds, and cycles of its SM. Their
quotient is the clock that the SM ran at. Triton's interpreter, which has neither, notes nothing.
"""

import kernels.interpreter  # noqa: F401, I001 (before Triton is imported)
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernels.hopper.warp_group import now
from kernels.hopper.warp_group import barrier_of_warps
from kernels.launch.launch import interpreted

TILE = tl.constexpr(4096)  # 32-bit numbers that a block reads or copies at once, 16 KiB
WAITED = tl.constexpr(2048)  # that it waits for, 8 KiB: 64 rows of 64 numbers of 16 bits
LANES = tl.constexpr(2048)  # numbers that a block works on
NOTES = tl.constexpr(5)  # of a block: its SM, nanoseconds at its start and end, cycles at its start and end
CYCLES = tl.constexpr("mov.u64 $0, %clock64;")
WARPS = 8


@triton.jit
def _note(notes, END: tl.constexpr, NOTED: tl.constexpr):
    """Note both clocks at a block's start or end, when all of its warps are here."""
    if NOTED:
        tl.debug_barrier()
        row = notes + tl.program_id(0) * NOTES + END
        tl.store(row + 1, tl.extra.cuda.globaltimer())
        cycles = tl.inline_asm_elementwise(CYCLES, "=l", [], dtype=tl.int64, is_pure=False, pack=1)
        tl.store(row + 3, cycles)
        tl.store(row - END, tl.extra.cuda.smid().to(tl.int64))


@triton.jit
def products_kernel(
    sums, notes, count, a, b, tiles,
    ROWS: tl.constexpr, KEYS: tl.constexpr, DEPTH: tl.constexpr,
    STAGES: tl.constexpr, EXPONENTIALS: tl.constexpr, NOTED: tl.constexpr,
):  # fmt: skip
    """Products of a tile with one or, from L2, many; between two EXPONENTIALS times 2,048 numbers."""
    rows, keys, depth = tl.arange(0, ROWS), tl.arange(0, KEYS), tl.arange(0, DEPTH)
    left = tl.load(a + rows[:, None] * DEPTH + depth[None, :])
    place = b + keys[None, :] * DEPTH + depth[:, None]
    right = tl.load(place)
    total = tl.full([ROWS, KEYS], 0.0, tl.float32)
    between = tl.load(sums + tl.arange(0, LANES))
    _note(notes, 0, NOTED)
    for step in tl.range(0, count, num_stages=STAGES):
        if STAGES > 0:
            right = tl.load(place + (tl.program_id(0) + step) % tiles * KEYS * DEPTH)
        total = tl.dot(left, right, total, input_precision="ieee")
        for _ in tl.static_range(EXPONENTIALS):
            between = tl.math.exp2(-between)
    _note(notes, 1, NOTED)
    tl.store(sums + LANES + tl.program_id(0), tl.sum(total) + tl.sum(between))


@triton.jit
def exponentials_kernel(sums, notes, count, NOTED: tl.constexpr):
    """2 to the minus x again and again, which settles at 0.64; a number waits for its last alone."""
    x = tl.load(sums + tl.arange(0, LANES))
    _note(notes, 0, NOTED)
    for _ in range(count):
        x = tl.math.exp2(-x)
    _note(notes, 1, NOTED)
    tl.store(sums + LANES + tl.program_id(0), tl.sum(x))


@triton.jit
def arithmetic_kernel(sums, notes, count, factor, more, NOTED: tl.constexpr):
    """x * factor + more again and again: one fused multiply-add of each number."""
    x = tl.load(sums + tl.arange(0, LANES))
    _note(notes, 0, NOTED)
    for _ in range(count):
        x = x * factor + more
    _note(notes, 1, NOTED)
    tl.store(sums + LANES + tl.program_id(0), tl.sum(x))


@triton.jit
def walk_kernel(sums, notes, count, buffer, tiles, together, stride, NOTED: tl.constexpr):
    """So many neighbours read a tile together, past L1, then one a stride on; at the end they begin anew."""
    lanes = tl.arange(0, TILE)
    total = tl.full([TILE], 0.0, tl.float32)
    tile = tl.program_id(0) // together % tiles
    _note(notes, 0, NOTED)
    for _ in tl.range(0, count, num_stages=3):
        total += tl.load(buffer + tile.to(tl.int64) * TILE + lanes, cache_modifier=".cg")
        tile = (tile + stride) % tiles
    _note(notes, 1, NOTED)
    tl.store(sums + LANES + tl.program_id(0), tl.sum(total))


@triton.jit
def copy_kernel(sums, notes, count, source, target, NOTED: tl.constexpr):
    """Each block copies a tile."""
    place = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    _note(notes, 0, NOTED)
    tl.store(target + place, tl.load(source + place))
    _note(notes, 1, NOTED)


@triton.jit
def wait_kernel(sums, notes, count, buffer, tiles, stride, NOTED: tl.constexpr):
    """Each block reads one tile after another, and learns where the next is from all of the last, zeros."""
    lanes = tl.arange(0, WAITED)
    tile = tl.program_id(0) * stride % tiles
    _note(notes, 0, NOTED)
    for _ in range(count):
        tile = (tile + 1 + tl.sum(tl.load(buffer + tile.to(tl.int64) * WAITED + lanes))) % tiles
    _note(notes, 1, NOTED)
    tl.store(sums + LANES + tl.program_id(0), tile.to(tl.float32))


@gluon.jit
def _gluon_note(notes, END: gl.constexpr):
    barrier_of_warps()
    row = notes + gl.program_id(0) * NOTES + END
    gl.store(row + 1, now(True))
    cycles = gl.inline_asm_elementwise(CYCLES, "=l", [], dtype=gl.int64, is_pure=False, pack=1)
    gl.store(row + 3, cycles)
    sm = gl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=gl.int32, is_pure=False, pack=1)
    gl.store(row - END, sm.to(gl.int64))


@gluon.jit
def shared_kernel(sums, notes, count, NOTED: gl.constexpr):
    """Each block loads two tiles of 64 x 128 in turns from shared memory, 16 bytes a thread."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [gl.num_warps(), 1], [1, 0])
    tiles = gl.allocate_shared_memory(gl.float32, [2, 64, 128], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    total = gl.full([64, 128], 1.0, gl.float32, layout)
    tiles.index(0).store(total)
    tiles.index(1).store(total)
    _gluon_note(notes, 0)
    for step in range(count):
        total += tiles.index(step % 2).load(layout)
    _gluon_note(notes, 1)
    gl.store(sums + 2048 + gl.program_id(0), gl.sum(gl.sum(total, 1), 0))


@triton.jit
def scenario_marker(place):
    """It computes nothing: every program stores the same 1; the grid tells in a profile what follows."""
    tl.store(place, 1)


class Benchmarks:
    """The kernels' launches, with the tensors that they take.

    Each gives its blocks' notes, [blocks, 5] int64: SM, nanoseconds at start and end, cycles at both. `count`
    says how often a block repeats what it does.

    >>> Benchmarks("cuda", 2**30).exponentials(count=1000, blocks=132)
    """

    def __init__(self, device: str, size: int):
        """size: bytes of memory that is read and, half of it, copied."""
        self.device, self.noted = device, not interpreted()
        self.buffer = torch.zeros(size // 4, device=device)
        self.sums = torch.rand(1 << 17, device=device)
        self.numbers = {torch.float32: torch.randn(1 << 20, device=device)}

    def products(
        self, count: int, blocks: int, dtype: torch.dtype, rows: int, keys: int, depth: int, stages: int = 0,
        exponentials: int = 0,
    ) -> torch.Tensor:  # fmt: skip
        """2 * rows * keys * depth FLOPs each; with stages, each second tile comes from L2."""
        if dtype not in self.numbers:
            self.numbers[dtype] = self.numbers[torch.float32].to(dtype)
        numbers, warps = self.numbers[dtype], 8 if rows >= 128 else 4
        sizes = {"ROWS": rows, "KEYS": keys, "DEPTH": depth, "STAGES": stages, "EXPONENTIALS": exponentials}
        tiles = len(numbers) // (keys * depth)
        return self._launch(products_kernel, count, blocks, numbers, numbers, tiles, warps=warps, **sizes)

    def exponentials(self, count: int, blocks: int) -> torch.Tensor:
        """2,048 exponentials each."""
        return self._launch(exponentials_kernel, count, blocks)

    def arithmetic(self, count: int, blocks: int) -> torch.Tensor:
        """2,048 fused multiply-adds each."""
        return self._launch(arithmetic_kernel, count, blocks, 0.999, 0.001)

    def shared(self, count: int, blocks: int) -> torch.Tensor:
        """32 KiB of shared memory each; not in the interpreter."""
        return self._launch(shared_kernel, count, blocks)

    def walk(self, count: int, blocks: int, size: int, together: int = 1) -> torch.Tensor:
        """16 KiB each of so many bytes; so many neighbours read the same at once."""
        places = size // (4 * TILE.value), together, blocks // together
        return self._launch(walk_kernel, count, blocks, self.buffer, *places, warps=4)

    def copy(self, blocks: int) -> torch.Tensor:
        """16 KiB read and written by each block."""
        return self._launch(copy_kernel, 1, blocks, self.buffer, self.buffer[len(self.buffer) // 2 :])

    def wait(self, count: int, blocks: int, size: int) -> torch.Tensor:
        """8 KiB each of so many bytes, one after another, of which blocks begin far apart."""
        tiles = size // (4 * WAITED.value)
        places = self.buffer.view(torch.int32), tiles, max(1, tiles // blocks)
        return self._launch(wait_kernel, count, blocks, *places, warps=4)

    def _launch(self, kernel, count: int, blocks: int, *given, warps: int = WARPS, **sizes) -> torch.Tensor:
        room = torch.empty if self.noted else torch.zeros  # nothing else is launched
        notes = room(blocks, NOTES.value, dtype=torch.int64, device=self.device)
        kernel[(blocks,)](self.sums, notes, count, *given, NOTED=self.noted, num_warps=warps, **sizes)
        return notes

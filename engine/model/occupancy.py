"""How many blocks of threads of the real kernels an SM holds at once: from their shared memory and registers.

A kernel keeps in shared memory what its blocks load before their visits, and up to `Algorithm.stages` copies
of what they load at each; in registers its float32 accumulators beside WORKING_REGISTERS per thread. Tiles
have a power of two columns. Held to the waves that ncu reads off every launch on an H200.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.algorithms import Algorithm, Pipeline
from engine.model.rates import WARP_GROUP_ROWS
from engine.model.rows import (
    NARROW_COLUMNS,
    has_rows,
    is_softmax,
    softmax_warps,
    waits_for_rows,
    working_registers,
)
from engine.problem.hardware import KIB, Gpu
from engine.schedule.nest import Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import STATISTIC_BYTES, Operation, Step, Tensor

RESERVED = KIB  # bytes of shared memory that the GPU takes for itself, per block
WORKING_REGISTERS = 48  # per thread, of four bytes, for addresses and what is on its way
# more where sums come from memory and go back, and are held twice; the compiler takes fewer under a mask
RETURNING_REGISTERS, MASKED_RETURNING = 40, 24
WINDOW_REGISTERS = 24  # more, to tell which keys a window hides
# and, where O has over NARROW_COLUMNS, which a causal mask does, and which columns are padding; compiled code
CAUSAL_REGISTERS, PADDED_REGISTERS = 16, 24
# bytes of a thread of flash2 that find no register around its visits, by head dim, query and key block: of
# even calls without a mask, ragged ones, causal ones and windows; compiled code. Few of them stay in L1
PUT_ASIDE = {(256, 64, 64): (0, 84, 92, 92), (256, 128, 128): (80, 112, 124, 0)}
PUT_ASIDE |= dict.fromkeys([(80, 128, 128), (96, 128, 128)], (0, 44, 44, 0))  # with columns of padding
# and what it loads again at every visit of whole tiles, likewise, as Triton 3.6.0 compiles it; 3.7.1 spills a
# fifth more. L1 answered a tenth of it in the two calls counted
LOADED_AGAIN = {(256, 128, 128): (8, 324, 328, 100), (256, 64, 128): (384, 1248, 1248, 1344)}
# words of a thread of flash1 that find no register in a visit, by the same: without a mask and under one
SPILLED = {
    (64, 64, 256): (50, 107), (64, 128, 256): (57, 111), (64, 256, 128): (37, 71), (64, 256, 256): (171, 373),
    (128, 32, 256): (13, 9), (128, 64, 128): (8, 22), (128, 64, 256): (145, 178), (128, 128, 128): (26, 26),
    (128, 128, 256): (133, 160), (128, 256, 16): (38, 19), (128, 256, 32): (38, 33), (128, 256, 64): (69, 61),
    (128, 256, 128): (158, 181), (128, 256, 256): (322, 500), (256, 64, 64): (218, 92),
    (256, 128, 64): (162, 63),
}  # fmt: skip
REGISTER_BYTES = 4
MOST_REGISTERS = 255  # of a thread
WARP = 32  # threads
WIDE, NARROW = 256, 128  # threads of a block, from so many rows on
WIDE_ROWS = 128
SMALLEST_COLUMNS = 16  # of a tile that a product takes


def blocks_per_sm(algorithm: Algorithm, schedule: Schedule, phase: Phase, gpu: Gpu) -> int:
    """Blocks of threads of one kernel that share an SM; 1 where even one does not fit, or where it stays."""
    if algorithm.pipeline.specialised:
        return 1
    threads = threads_of(schedule, phase)
    sums = _accumulated(schedule, phase) / (REGISTER_BYTES * threads)
    each = min(MOST_REGISTERS, _working_registers(schedule, phase, threads) + sums)
    by_registers = int(gpu.register_bytes_sm // (REGISTER_BYTES * each * threads))
    by_shared_memory = gpu.shared_bytes_sm // (set_aside(algorithm, schedule, phase, gpu) + RESERVED)
    return max(1, min(by_shared_memory, by_registers, gpu.blocks_sm))


def _working_registers(schedule: Schedule, phase: Phase, threads: int) -> float:
    """Registers of a thread beside its sums."""
    if has_rows(phase):
        return working_registers(schedule, phase, threads, columns(schedule.problem.head_dim))
    mask, head_dim = schedule.problem.mask, schedule.problem.head_dim
    if phase.rewritten:
        return WORKING_REGISTERS + (MASKED_RETURNING if mask.hides else RETURNING_REGISTERS)
    online = any(step.operation == Operation.RESCALE for step in phase.each)  # beside O a tile of scores
    wide = online and columns(head_dim) > NARROW_COLUMNS
    more = CAUSAL_REGISTERS * (mask.causal and wide) if mask.window is None else WINDOW_REGISTERS
    return WORKING_REGISTERS + more + PADDED_REGISTERS * (wide and columns(head_dim) > head_dim)


def set_aside(algorithm: Algorithm, schedule: Schedule, phase: Phase, gpu: Gpu) -> int:
    """Bytes of shared memory that a block of one kernel is launched with, in as many stages as fit.

    P, of which only V's tiles are asked whether they fit, has as many; one where no copy of it runs ahead.
    """
    if is_softmax(phase):
        return 0
    held, streamed = (_loaded(schedule, phase, steps) for steps in (phase.before, phase.each))
    tiles = tiles_in_flight(algorithm, schedule, phase, gpu)
    if in_few_rows(algorithm.pipeline, schedule, phase, gpu):  # what is multiplied lies in registers
        tiles, streamed = (tiles - 1, streamed) if tiles > 1 else (1, streamed // 2)  # K, then V
        held += (
            schedule.tiling.block_q * schedule.tiling.block_kv * schedule.problem.itemsize
        )  # warps exchange P
    rows = 1 if waits_for_rows(schedule, phase) else tiles
    fetched = schedule.amounts[Tensor.P].of(schedule.tiling.block_q, schedule.tiling.block_kv)
    return held + tiles * streamed + rows * fetched * (Tensor.P in phase.loaded)


def is_online(phase: Phase) -> bool:
    """Whether visits of a kernel are online softmax between products."""
    return phase.outer == "query" and any(step.operation == Operation.RESCALE for step in phase.each)


def in_few_rows(pipeline: Pipeline, schedule: Schedule, phase: Phase, gpu: Gpu) -> bool:
    """Whether they are of fewer rows than Hopper's asynchronous products take: each warp issues its own."""
    plain = not pipeline.waiting and schedule.problem.dtype != "float32" and gpu.architecture == "Hopper"
    return plain and is_online(phase) and schedule.tiling.block_q < WARP_GROUP_ROWS


def tiles_in_flight(algorithm: Algorithm, schedule: Schedule, phase: Phase, gpu: Gpu) -> int:
    """Copies of what a visit loads that a block keeps; with 1 nothing is copied ahead."""
    held, streamed = (_loaded(schedule, phase, steps) for steps in (phase.before, phase.each))
    if not streamed or any(step.operation == Operation.STORE for step in phase.each):
        return 1
    most = schedule.tiling.stages if schedule.tiling.own else algorithm.stages
    return min(most, max(algorithm.fewest_stages, (gpu.shared_bytes_block - held) // streamed))


def threads_of(schedule: Schedule, phase: Phase) -> int:
    """Threads of a block of one kernel: two warp groups from so many rows on; of the softmax by its row."""
    if is_softmax(phase):
        return WARP * softmax_warps(schedule)
    return WIDE if _rows(schedule, phase) >= WIDE_ROWS else NARROW


def _rows(schedule: Schedule, phase: Phase) -> int:
    """Of the sums that a block keeps."""
    by_query = phase.outer == "query" or phase.rewritten
    return schedule.tiling.block_q if by_query else schedule.tiling.block_kv


def spilled_words(schedule: Schedule) -> int:
    """Words of a thread of flash1 that its visits store and load again; 0 of blocks that nobody compiled."""
    problem, tiling = schedule.problem, schedule.tiling
    taken = columns(problem.head_dim), tiling.block_q, tiling.block_kv
    return SPILLED.get(taken, (0, 0))[problem.mask.hides]


def spilled_bytes(schedule: Schedule, phase: Phase) -> int:
    """The same of a block, in bytes."""
    return REGISTER_BYTES * spilled_words(schedule) * threads_of(schedule, phase)


def put_aside(pipeline: Pipeline, schedule: Schedule, phase: Phase) -> int:
    """Bytes that a block of online softmax, short of registers, stores before its visits and loads again."""
    return _spilled(PUT_ASIDE, pipeline, schedule, phase) * threads_of(schedule, phase)


def loaded_again(pipeline: Pipeline, schedule: Schedule, phase: Phase) -> int:
    """Bytes that a visit of online softmax loads again, because they found no register in the one before."""
    return _spilled(LOADED_AGAIN, pipeline, schedule, phase) * threads_of(schedule, phase)


def _spilled(
    table: dict[tuple[int, int, int], tuple[int, ...]], pipeline: Pipeline, schedule: Schedule, phase: Phase
) -> int:
    """Bytes of a thread from a table of compiled code; none of kernels of which nobody counted them."""
    problem, tiling, mask = schedule.problem, schedule.tiling, schedule.problem.mask
    other = pipeline.specialised or pipeline.waiting or tiling.own or problem.dtype == "float32"
    blocks = problem.head_dim, tiling.block_q, tiling.block_kv
    if other or not is_online(phase) or blocks not in table:
        return 0
    even, ragged, causal, window = table[blocks]
    if mask.window is not None or mask.causal:
        return causal if mask.window is None else window
    whole = problem.seq_q % tiling.block_q == problem.seq_kv % tiling.block_kv == 0
    return even if whole else ragged


def _loaded(schedule: Schedule, phase: Phase, steps: Iterable[Step]) -> int:
    """Bytes of the matrices' blocks that these steps load; sums that go back stay in registers."""
    tiling = schedule.tiling
    loads = {step.tensor for step in steps if step.operation == Operation.LOAD} - phase.rewritten
    amounts = (schedule.amounts[tensor] for tensor in loads)
    each = sum(
        amount.of(tiling.block_q, tiling.block_kv) for amount in amounts if amount.factor > STATISTIC_BYTES
    )
    return each * columns(schedule.problem.head_dim) // schedule.problem.head_dim


def _accumulated(schedule: Schedule, phase: Phase) -> int:
    """Bytes of float32 sums: a tile of scores where one is computed, and what is stored after the visits."""
    problem, tiling = schedule.problem, schedule.tiling
    scores = any(step.operation == Operation.SCORES for step in phase.each)
    rows = _rows(schedule, phase)
    outputs = sum(
        step.operation == Operation.STORE and schedule.amounts[step.tensor].factor > 2 * STATISTIC_BYTES
        for step in phase.each + phase.after
    )
    outputs *= 1 + bool(phase.rewritten)
    wide = columns(problem.head_dim)
    return REGISTER_BYTES * (scores * tiling.block_q * tiling.block_kv + outputs * rows * wide)


def columns(head_dim: int) -> int:
    """Columns of a kernel's tiles: a power of two."""
    return max(SMALLEST_COLUMNS, 1 << (head_dim - 1).bit_length())

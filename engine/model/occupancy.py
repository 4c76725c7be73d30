"""How many blocks of threads of the real kernels an SM holds at once: by their shared memory and registers.

A kernel keeps in shared memory what its blocks load before their visits, and up to `Algorithm.stages` copies
of what they load at each. In registers it keeps its float32 sums, and beside them what it computes with.
Tiles have a power of two columns. Held to the waves that ncu reads off every launch on an H200.
"""

from collections.abc import Iterable

from engine.algorithms import Algorithm
from engine.model.rates import WARP_GROUP_ROWS
from engine.model.unfused_rows import (
    ADDRESS,
    REGISTER_BYTES,
    has_rows,
    is_softmax,
    number_by_number,
    rows_registers,
    softmax_registers,
    softmax_warps,
    waits_for_rows,
)
from engine.problem.hardware import KIB, Gpu
from engine.problem.problem import Problem
from engine.schedule.nest import Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import BY_V_DIM, STATISTIC_BYTES, Operation, Step, Tensor
from kernels.tilings.flash2 import tile_size, warps
from kernels.tilings.flash3 import V_TILING

RESERVED = KIB  # bytes of shared memory that the GPU takes for itself, per block: CUDA C++ Programming Guide
WARP = 32  # threads
MOST_REGISTERS = 255  # of a thread: CUDA C++ Programming Guide
COPIED_AT_ONCE = 16  # bytes, the most that a thread copies by one instruction
# Registers of a thread beside its sums, for addresses and what is on its way, in compiled code: of few sums
# of a narrow head, and else; more to tell which scores a causal mask or padding hides, and which a window;
# and more where sums come from memory and go back, without a mask and under one.
NARROW_COLUMNS, FEW_SUMS, NARROW_WORKING = 64, 40, 32
WORKING, EDGE, WINDOW = 48, 4, 24
RETURNING, MASKED_RETURNING = 32, 24
# Where sums and addresses of a visit's copies leave a thread of online softmax no registers, as at head dim
# 256 in tiles of 64 x 64, and a mask or a ragged end asks for more, so many words of it go to memory before
# the visits and come back after, by compiled code.
PUT_ASIDE = 22
# Where O and S together fill so many, as they do with 128 keys to a block, so many words find none in any
# visit and are loaded anew, at a ragged end and under a mask: 82 and 93 by the same, of which L1 answers 18%.
FULL_SUMS, LOADED_AGAIN = 192, (67, 76)
NARROW = 128  # threads of a block of one warp group
MOST_COLUMNS = 256
SMALLEST_COLUMNS = 16  # of a tile that a product takes


def blocks_per_sm(algorithm: Algorithm, schedule: Schedule, phase: Phase, gpu: Gpu) -> int:
    """Blocks of threads of one kernel that share an SM; 1 where even one does not fit, or where it stays."""
    if algorithm.pipeline.specialised:
        return 1
    threads = threads_of(schedule, phase)
    each = min(MOST_REGISTERS, _registers(schedule, phase, threads))
    by_registers = int(gpu.register_bytes_sm // (REGISTER_BYTES * each * threads))
    by_shared_memory = gpu.shared_bytes_sm // (set_aside(algorithm, schedule, phase, gpu) + RESERVED)
    return max(1, min(by_shared_memory, by_registers, gpu.blocks_sm))


def _registers(schedule: Schedule, phase: Phase, threads: int) -> float:
    """Registers that a thread would have if there were as many."""
    return _working(schedule, phase, threads) + _sums(schedule, phase, threads)


def _working(schedule: Schedule, phase: Phase, threads: int) -> float:
    """Registers of a thread beside its sums."""
    mask, head_dim = schedule.problem.mask, schedule.problem.head_dim
    if is_softmax(phase):
        return softmax_registers(schedule, phase, threads)
    narrow = columns(head_dim) <= NARROW_COLUMNS and _sums(schedule, phase, threads) <= FEW_SUMS
    working = NARROW_WORKING if narrow and not number_by_number(schedule, phase) else WORKING
    if has_rows(phase):
        return working + rows_registers(schedule, phase, threads, columns(head_dim))
    if phase.rewritten:
        return WORKING + (MASKED_RETURNING if mask.hides else RETURNING)
    if mask.window is not None:
        return WORKING + WINDOW
    return working + EDGE * (mask.causal or padding(schedule.problem) > 1)


def set_aside(algorithm: Algorithm, schedule: Schedule, phase: Phase, gpu: Gpu) -> int:
    """Bytes of shared memory that a block of one kernel is launched with, in as many stages as fit.

    P, of which only V's tiles are asked whether they fit, has as many; one where no copy of it runs ahead.
    """
    if is_softmax(phase):
        return 0
    held, streamed = (_loaded(schedule, phase, steps) for steps in (phase.before, phase.each))
    tiles = tiles_in_flight(algorithm, schedule, phase, gpu)
    if in_few_rows(schedule, phase, gpu):  # what is multiplied lies in registers
        tiles, streamed = (
            (tiles - 1, streamed)
            if tiles > 1
            else (1, streamed if schedule.problem.latent else streamed // 2)
        )
        if is_online(phase):  # warps exchange P
            held += schedule.tiling.block_q * schedule.tiling.block_kv * schedule.problem.itemsize
    rows = 1 if waits_for_rows(schedule, phase) else tiles
    fetched = schedule.amounts[Tensor.P].of(schedule.tiling.block_q, schedule.tiling.block_kv)
    return held + tiles * streamed + rows * fetched * (Tensor.P in phase.loaded)


def is_online(phase: Phase) -> bool:
    """Whether visits of a kernel are online softmax between products."""
    return phase.outer == "query" and any(step.operation == Operation.RESCALE for step in phase.each)


def is_gradient(phase: Phase) -> bool:
    """Whether visits of a kernel are scores and their gradients between products: of a backward pass."""
    return any(step.operation == Operation.SCORE_GRADIENT for step in phase.each)


def in_few_rows(schedule: Schedule, phase: Phase, gpu: Gpu) -> bool:
    """Whether they are of fewer rows than Hopper's asynchronous products take: each warp issues its own."""
    plain = schedule.problem.dtype != "float32" and gpu.architecture == "Hopper"
    of_rows = is_online(phase) or Tensor.P in phase.loaded
    return plain and of_rows and schedule.tiling.block_q < WARP_GROUP_ROWS


def tiles_in_flight(algorithm: Algorithm, schedule: Schedule, phase: Phase, gpu: Gpu) -> int:
    """Copies of what a visit loads that a block keeps; with 1 nothing is copied ahead."""
    held, streamed = (_loaded(schedule, phase, steps) for steps in (phase.before, phase.each))
    if not streamed or any(step.operation == Operation.STORE for step in phase.each):
        return 1
    most = phase.stages or (schedule.tiling.stages if schedule.tiling.own else algorithm.stages)
    held = gpu.device.resident(held)
    return min(most, max(algorithm.fewest_stages, (gpu.shared_bytes_block - held) // streamed))


def threads_of(schedule: Schedule, phase: Phase) -> int:
    """Threads of a block of one kernel on its GPU, by the rows of its sums; of the softmax by its row."""
    problem, device = schedule.problem, schedule.tiling.device
    by_rows = warps(rows_of(schedule, phase), 0 if problem.latent else problem.v_dim)
    own = softmax_warps(schedule) if is_softmax(phase) else phase.warps or by_rows
    return device.threads * device.warps(own, tile_size(problem.widest))


def rows_of(schedule: Schedule, phase: Phase) -> int:
    """Of the sums that a block keeps."""
    by_query = phase.outer == "query" or phase.rewritten
    return schedule.tiling.block_q if by_query else schedule.tiling.block_kv


def spilled_words(algorithm: Algorithm, schedule: Schedule, phase: Phase) -> int:
    """Words of a thread that find no register in any visit: they go to memory and come back."""
    threads = threads_of(schedule, phase)
    if _asks_for_more(algorithm, schedule, phase) and _sums(schedule, phase, threads) >= FULL_SUMS:
        return LOADED_AGAIN[schedule.problem.mask.hides]
    return max(0, round(_registers(schedule, phase, threads) - MOST_REGISTERS))


def spilled_bytes(algorithm: Algorithm, schedule: Schedule, phase: Phase) -> int:
    """The same of a block, in bytes."""
    return REGISTER_BYTES * spilled_words(algorithm, schedule, phase) * threads_of(schedule, phase)


def put_aside(algorithm: Algorithm, schedule: Schedule, phase: Phase) -> int:
    """Bytes that a block, short of registers, may store before its visits and load again after them."""
    threads = threads_of(schedule, phase)
    addresses = ADDRESS * _loaded(schedule, phase, phase.each) / COPIED_AT_ONCE
    full = _sums(schedule, phase, threads) + addresses / threads >= MOST_REGISTERS - WORKING
    return REGISTER_BYTES * PUT_ASIDE * threads * (full and _asks_for_more(algorithm, schedule, phase))


def _asks_for_more(algorithm: Algorithm, schedule: Schedule, phase: Phase) -> bool:
    """Whether a mask or a ragged end takes registers of online softmax, and addresses are not left to TMA."""
    problem, tiling = schedule.problem, schedule.tiling
    by_tma = tiling.own and not algorithm.pipeline.specialised
    whole = problem.seq_q % tiling.block_q == problem.seq_kv % tiling.block_kv == 0
    plain = problem.dtype == "float32" or (whole and not problem.mask.hides)
    return is_online(phase) and not by_tma and not plain


def _loaded(schedule: Schedule, phase: Phase, steps: Iterable[Step]) -> int:
    """Bytes of the matrices' blocks that these steps load; sums that go back stay in registers."""
    tiling = schedule.tiling
    loads = {step.tensor for step in steps if step.operation == Operation.LOAD} - phase.rewritten
    amounts = (schedule.amounts[tensor] for tensor in loads)
    each = sum(
        amount.of(tiling.block_q, tiling.block_kv) for amount in amounts if amount.factor > STATISTIC_BYTES
    )
    dims = schedule.problem.head_dim, schedule.problem.v_dim
    return each * sum(map(columns, dims)) // sum(dims)


def _sums(schedule: Schedule, phase: Phase, threads: int) -> float:
    """Registers of a thread for float32 sums: a tile of scores where one is computed, and what is stored."""
    tiling, problem = schedule.tiling, schedule.problem
    scores = sum(step.operation in (Operation.SCORES, Operation.WEIGHT_GRADIENT) for step in phase.each)
    outputs = sum(
        columns(problem.v_dim if step.tensor in BY_V_DIM else problem.head_dim)
        for step in phase.each + phase.after
        if step.operation == Operation.STORE and schedule.amounts[step.tensor].factor > 2 * STATISTIC_BYTES
    )
    outputs *= 1 + bool(phase.rewritten)  # what comes from memory is held beside what goes back
    return (scores * tiling.block_q * tiling.block_kv + outputs * rows_of(schedule, phase)) / threads


def columns(head_dim: int) -> int:
    """Columns of a kernel's tiles: a power of two, up to those of MOST_COLUMNS."""
    if head_dim > MOST_COLUMNS:  # of a latent: pieces of 64
        return -(-head_dim // 64) * 64
    return max(SMALLEST_COLUMNS, 1 << (head_dim - 1).bit_length())


def padding(problem: Problem) -> float:
    """How many times as many columns as there are numbers the tiles of K and V have together."""
    dims = problem.head_dim, problem.v_dim
    if dims in V_TILING or problem.latent:  # taken in pieces of 64 columns
        return 1.0
    return sum(map(columns, dims)) / sum(dims)

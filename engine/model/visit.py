"""What one visit of a tile costs the SM that makes it: modelled from rates and from how kernels compute.

A product of fewer than 64 rows does not run on Hopper's asynchronous path, and its warps split the keys: they
read Q again from shared memory and exchange maxima and sums. One of few keys waits for the rows of Q. Every
visit issues addresses, waits and reductions on top. Where the kernel pads the head dimension to a power of
two, its products do too.
"""

from __future__ import annotations

from engine.model.launch import Launch
from engine.model.occupancy import WARP, columns, in_few_rows, is_online, threads_of
from engine.model.rates import (
    BARE_OF_TWO,
    BOUND_BY_SOFTMAX,
    CACHE_BYTES_PER_CLOCK,
    COPY_INSTRUCTIONS,
    COPYING_CYCLES,
    FEW_ROWS_ALONE,
    FEW_ROWS_CYCLES,
    FEW_ROWS_INSTRUCTIONS,
    FEWEST_KEYS,
    FULL_REGISTERS,
    HIDDEN_WITHIN,
    HIDDEN_WITHIN_BY_TMA,
    LOOP_CYCLES,
    MASK_INSTRUCTIONS,
    MOST_HIDDEN_COLUMNS,
    MOST_SUMS,
    OUTPUT_INSTRUCTIONS,
    PADDED_COPY_INSTRUCTIONS,
    RUNNING_CLOCK,
    SCHEDULED,
    SCORE_INSTRUCTIONS,
    SCORE_OPERATIONS,
    SMALL_OPERAND_CYCLES,
    SMALL_ROWS_SHARE,
    SMALL_VISIT_CYCLES,
    STRADDLING_CYCLES,
    TWO_WARP_GROUPS,
    UNDER_PRODUCTS,
    VISIT_CYCLES,
    VISIT_INSTRUCTIONS,
    WAITS_ALONE,
    WAITS_COPYING,
    WAITS_POWER,
    WARP_GROUP_ROWS,
    WINDOW_INSTRUCTIONS,
    Rates,
)
from engine.model.rows import has_rows
from engine.model.sharing import Visit
from engine.model.unfused import (
    COPIED_AT_ONCE,
    TILE_BESIDE,
    TILE_SLOTS,
    fetching_seconds,
    issued_seconds,
    running_clock,
)
from engine.schedule.nest import TILE, Phase
from engine.schedule.step import EXPONENTIALS, MATRIX_PRODUCTS, Operation, Step, Tensor, matrix_flops

GROUP_THREADS = 128  # of a warp group


def visit_of(launch: Launch, phase: Phase, rates: Rates) -> Visit:
    """The cost of a kernel's visits."""
    tensor, softmax, copies = visit_seconds(launch, phase, rates)
    if phase.launched == TILE:  # one visit of a block, beside those of others
        beside = peak_seconds(launch, phase)
        beside += moved(launch, phase.each) / (launch.gpu.shared_bytes_per_clock * running_clock(launch.gpu))
        in_turn = TILE_SLOTS * issued_seconds(launch, phase) + TILE_BESIDE * beside
        return Visit(0.0, max(copies, in_turn), 0.0, 0.0, 0.0)
    if has_rows(phase):
        return Visit(peak_seconds(launch, phase), 0.0, copies, fetching_seconds(launch, phase), 0.0)
    masking = mask_instructions(launch) / SCHEDULED / running_clock(launch.gpu)
    if launch.pipeline.specialised:  # its `Pipeline.overlapped` says what is hidden
        masked, computed = launch.algorithm.edges(launch.problem, launch.tiling)
        spared = (1 - computed) * (tensor / 2 + softmax)  # half of the products are of scores
        masking = masked * masking - spared
        loop = _loop_cycles(launch) / running_clock(launch.gpu)
        return Visit(tensor, softmax, copies, loop, 0.0, masking=masking)
    if by_instructions(launch, phase):
        groups = _groups(launch, phase)
        wide = columns(launch.problem.head_dim) > MOST_HIDDEN_COLUMNS
        full = FULL_REGISTERS * groups * (wide and _sums(launch, phase) > MOST_SUMS)
        waits = (_copying(launch, softmax) if groups == 1 else WAITS_ALONE), WAITS_POWER
        return Visit(tensor, softmax, copies, 0.0, 0.0, 0.0, groups, masking, full, waits)
    if in_few_rows(launch.pipeline, launch.schedule, phase, launch.gpu):
        issued = few_rows_seconds(launch, copying=True)
        waits = FEW_ROWS_ALONE, 1.0
        return Visit(0.0, issued, copies, 0.0, 0.0, 0.0, 1, FEW_ROWS_CYCLES * masking, waits=waits)
    share = HIDDEN_WITHIN_BY_TMA if launch.tiling.own else HIDDEN_WITHIN
    share *= columns(launch.problem.head_dim) <= MOST_HIDDEN_COLUMNS
    return Visit(tensor, softmax, copies, _issued(launch, phase), share * min(tensor, softmax))


def _loop_cycles(launch: Launch) -> int:
    """Cycles more of a visit of flash3 than its products and softmax take, as its loop is compiled."""
    mask, dim = launch.problem.mask, launch.problem.head_dim
    kind = 0 if mask.looks_ahead else 2 if mask.window is not None else 1
    served = min((size for size, _ in LOOP_CYCLES if size >= dim), default=0)
    return LOOP_CYCLES.get((served, launch.tiling.block_q), (0, 0, 0))[kind]


def _copying(launch: Launch, softmax: float) -> float:
    """What a warp group that copies for itself waits alone on its SM, as a part of its instructions."""
    if launch.tiling.own:
        return WAITS_ALONE
    return WAITS_COPYING + COPYING_CYCLES / running_clock(launch.gpu) / softmax


def visit_seconds(launch: Launch, phase: Phase, rates: Rates) -> tuple[float, float, float]:
    """Seconds of one SM that a visit takes: its matrix products, its softmax, its loads and stores."""
    problem, tiling, sms = launch.problem, launch.tiling, launch.gpu.sms
    if by_instructions(launch, phase):
        return _by_instructions(launch, phase, rates)
    rows, keys = tiling.block_q, tiling.block_kv
    operations = [step.operation for step in phase.each]
    scores = rows * keys * sum(operation in EXPONENTIALS for operation in operations)
    times = 1 + 2 * launch.pipeline.dividing if Operation.RESCALE in operations else 0
    rescaled = times * rows * problem.head_dim
    return (
        sms * _products(launch, phase) / rates.matrix,
        sms * (scores / rates.exponentials + (SCORE_OPERATIONS * scores + rescaled) / rates.vector),
        sms * moved(launch, phase.each) / rates.cache,
    )


def moved(launch: Launch, steps: tuple[Step, ...]) -> int:
    """Bytes that these steps move for whole blocks."""
    tiling, amounts = launch.tiling, launch.schedule.amounts
    moving = (step for step in steps if step.tensor != Tensor.NONE)
    return sum(amounts[step.tensor].of(tiling.block_q, tiling.block_kv) for step in moving)


def own_way(launch: Launch, amount: float) -> float:
    """Seconds in which so many bytes pass an SM's own way from L2."""
    return amount / (CACHE_BYTES_PER_CLOCK * launch.gpu.clock_hz)


def loads(phase: Phase) -> tuple[Step, ...]:
    """What each visit loads."""
    return tuple(step for step in phase.each if step.operation == Operation.LOAD)


def peak_seconds(launch: Launch, phase: Phase) -> float:
    """Seconds of an SM for a visit's matrix products at the peak of its tensor cores."""
    gpu = launch.gpu
    return (
        gpu.sms * _products(launch, phase) / (RUNNING_CLOCK * gpu.products_per_second(launch.problem.dtype))
    )


def _products(launch: Launch, phase: Phase) -> float:
    """FLOPs of a visit's matrix products, those that take longer counted as so many more."""
    problem, tiling = launch.problem, launch.tiling
    operations = [step.operation for step in phase.each]
    products = sum(operation in MATRIX_PRODUCTS for operation in operations)
    one = matrix_flops(problem).of(tiling.block_q, tiling.block_kv)
    one *= columns(problem.head_dim) / problem.head_dim
    if launch.gpu.architecture != "Hopper":
        return products * one
    if _rows(launch, phase) < WARP_GROUP_ROWS:
        return products * one / SMALL_ROWS_SHARE
    if phase.outer == "query" and Operation.SCORES in operations and not by_instructions(launch, phase):
        products += _narrow(tiling.block_kv) - 1
    return products * one


def _narrow(keys: int) -> float:
    """How many times as long Q K^T takes as its FLOPs do: 64 rows of Q come from shared memory.

    By 16 columns, 64 rows of Q are 2 KiB and a key 32 bytes, at 128 bytes per clock; their product takes
    keys / 2 clocks (4,096 FLOPs per clock and SM: NVIDIA H100 architecture white paper).
    """
    return max(1.0, (16 + keys / 4) / (keys / 2))


def by_instructions(launch: Launch, phase: Phase) -> bool:
    """Whether visits are online softmax between asynchronous products, whose instructions are known."""
    problem, pipeline = launch.problem, launch.pipeline
    plain = not (pipeline.returning or pipeline.waiting) and problem.dtype != "float32"
    on_path = launch.gpu.architecture == "Hopper" and launch.tiling.block_q >= WARP_GROUP_ROWS
    return plain and is_online(phase) and on_path


def few_rows_seconds(launch: Launch, copying: bool, masking: float = 0.0) -> float:
    """Seconds of an SM for a visit of few rows, of which each of four warps has a part of the keys.

    copying: whether they copy keys ahead; masking: the share of a score's instructions that a mask takes.
    """
    rows, keys = launch.tiling.block_q, max(FEWEST_KEYS, launch.tiling.block_kv)
    wide, threads = columns(launch.problem.head_dim), GROUP_THREADS
    copies = copying * 2 * keys * wide * launch.problem.itemsize / COPIED_AT_ONCE / threads
    products = 2 * rows * keys * wide / (16 * 8 * 16) / (threads // WARP)
    counts = 1, rows * wide / threads, (1 + masking) * rows * keys / threads, copies, products
    instructions = sum(each * count for each, count in zip(FEW_ROWS_INSTRUCTIONS, counts, strict=True))
    return FEW_ROWS_CYCLES * instructions / running_clock(launch.gpu)


def _by_instructions(launch: Launch, phase: Phase, rates: Rates) -> tuple[float, float, float]:
    """As `visit_seconds`, from cycles: of tensor cores at their peak, of schedulers or exponentials."""
    gpu, problem, tiling = launch.gpu, launch.problem, launch.tiling
    exponentials = _scores(launch) / gpu.exponentials_per_clock
    if launch.pipeline.overlapped:
        issued = UNDER_PRODUCTS * exponentials
        if tiling.block_q <= TWO_WARP_GROUPS and problem.head_dim <= BOUND_BY_SOFTMAX:
            issued *= BARE_OF_TWO
    else:
        issued = visit_instructions(launch, phase) / SCHEDULED
    softmax = (max(issued, exponentials) + _straddling(launch, phase)) / running_clock(gpu)
    return peak_seconds(launch, phase), softmax, gpu.sms * moved(launch, phase.each) / rates.cache


def _straddling(launch: Launch, phase: Phase) -> float:
    """Cycles for rows of a padded head dimension, which take more passes through shared memory."""
    wide, head_dim = columns(launch.problem.head_dim), launch.problem.head_dim
    copied = wide / head_dim * moved(launch, phase.each) / COPIED_AT_ONCE
    return STRADDLING_CYCLES * copied * (wide > head_dim and not launch.pipeline.specialised)


def visit_instructions(launch: Launch, phase: Phase) -> float:
    """Instructions of a block's threads for a visit of online softmax between asynchronous products."""
    head_dim, tiling = launch.problem.head_dim, launch.tiling
    wide, threads = columns(head_dim), _groups(launch, phase) * GROUP_THREADS
    copying = COPY_INSTRUCTIONS + PADDED_COPY_INSTRUCTIONS * (wide > head_dim)
    copied = not (tiling.own or launch.pipeline.specialised)  # by TMA no thread has copies to issue
    return (
        SCORE_INSTRUCTIONS * _scores(launch)
        + (OUTPUT_INSTRUCTIONS + 2 * launch.pipeline.dividing) * tiling.block_q * wide
        + copying * copied * wide / head_dim * moved(launch, phase.each) / COPIED_AT_ONCE
        + VISIT_INSTRUCTIONS * threads
    )


def _groups(launch: Launch, phase: Phase) -> int:
    """Warp groups of a block; a specialised one has one for every 64 rows."""
    if launch.pipeline.specialised:
        return launch.tiling.block_q // WARP_GROUP_ROWS
    return threads_of(launch.schedule, phase) // GROUP_THREADS


def _sums(launch: Launch, phase: Phase) -> float:
    """Numbers of O and of a visit's scores that a thread holds."""
    wide = columns(launch.problem.head_dim)
    return launch.tiling.block_q * (launch.tiling.block_kv + wide) / threads_of(launch.schedule, phase)


def _scores(launch: Launch) -> int:
    """Scores of a visit."""
    return launch.tiling.block_q * launch.tiling.block_kv


def mask_instructions(launch: Launch) -> float:
    """Instructions more for a tile that the mask cuts."""
    each = MASK_INSTRUCTIONS if launch.problem.mask.window is None else WINDOW_INSTRUCTIONS
    return each * _scores(launch)


def _issued(launch: Launch, phase: Phase) -> float:
    """Seconds of an SM for what a visit of online softmax does beside its products and its softmax."""
    if Operation.RESCALE not in {step.operation for step in phase.each}:
        return 0.0
    rows, cycles = _rows(launch, phase), VISIT_CYCLES
    if rows < WARP_GROUP_ROWS:
        cycles = SMALL_VISIT_CYCLES + SMALL_OPERAND_CYCLES * rows * columns(launch.problem.head_dim)
    return cycles / launch.gpu.clock_hz


def _rows(launch: Launch, phase: Phase) -> int:
    """Rows of the products that a block keeps."""
    by_query = phase.outer == "query" or phase.rewritten
    return launch.tiling.block_q if by_query else launch.tiling.block_kv

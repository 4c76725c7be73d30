"""What one visit of a tile takes the SM that makes it, and visits of several blocks that share it: modelled.

A visit keeps three units busy: tensor cores, warps that issue exponentials and everything else, and the way
from L2. Warps wait for one another's units and for their own last results, so that the fewer they are, the
barer stands the SM. A product of fewer than 64 rows does not run on Hopper's asynchronous path: each warp
issues it for a part of the keys. Where the kernel pads the head dimension to a power of two, its products do
too.
"""

from dataclasses import dataclass, replace
from math import ceil, log1p

from engine.algorithms import Pipeline
from engine.model.l1 import from_l2
from engine.model.launch import Kernel, Launch
from engine.model.occupancy import (
    COPIED_AT_ONCE,
    WARP,
    columns,
    in_few_rows,
    is_gradient,
    is_online,
    padding,
    rows_of,
    spilled_words,
    threads_of,
)
from engine.model.rates import (
    CACHE_BYTES_PER_CLOCK,
    COPY_INSTRUCTIONS,
    FEW_ROWS_CYCLES,
    POWER,
    SCORE_OPERATIONS,
    VISIT_INSTRUCTIONS,
    WAITS_ALONE,
    WARP_GROUP_ROWS,
    Rates,
    exponential_seconds,
    exponentials_of,
    in_norm,
    term_instructions,
)
from engine.model.traffic import Traffic
from engine.problem.hardware import Gpu
from engine.schedule.nest import Phase
from engine.schedule.step import EXPONENTIALS, MATRIX_PRODUCTS, Operation, Step, Tensor

GROUP_THREADS = 4 * WARP  # of a warp group
LINE = 128  # bytes of a cache line
DEEP = (
    16  # columns of Q and K that an asynchronous product of 16-bit numbers takes at a time (PTX ISA, wgmma)
)
LOAD_BYTES_PER_CLOCK = CACHE_BYTES_PER_CLOCK / 3  # from L2 by loads that wait for one another
L1_LATENCY = 20e-9  # of a word that L1 answers: 33 cycles, and a store before
UNDER_PRODUCTS = 1.32  # times as long as by themselves that exponentials take under products
TWO_WARP_GROUPS = 2 * WARP_GROUP_ROWS  # fewer rows on an SM leave its units waiting for one another

# Instructions of a thread, counted in compiled code. Of a visit of online softmax: by score, by number of O,
# and by score of a tile that the mask cuts.
SCORE_INSTRUCTIONS, OUTPUT_INSTRUCTIONS, MASK_INSTRUCTIONS = 5.2, 1.57, 4.4
PADDED_INSTRUCTIONS = 2.6  # more by 16 bytes that it copies of rows with padding
# of a visit of a backward pass: by score, and by score that a gradient's product takes as 16 bits; of these
# exponentials hide under the product beside them; and by product of 64 x n x 16, in all warps of its group
GRADIENT_SCORE, NARROWED, HIDDEN, PRODUCT_INSTRUCTIONS = 4, 0.5, 2, 4
# of a warp in a visit of fewer than 64 rows, which issues its own products: beside these, by row, by number
# of O and score of a thread, by product of 16 x 8 x 16, by 16 bytes of keys copied ahead; the same where rows
# come from memory and go back, and by number of O that does. Fewer than FEWEST_KEYS keys are computed twice
FEW_ROWS, FEWEST_KEYS = (50, 1.9, 2.1, 5.2, 0.7, 9.9), 32
RETURNING_ROWS, RETURNED_NUMBER = (84, 2.9, 0, 6.8, 1.4, 0), 10.9

# What warps wait for one another. Another warp group of its own block, with which it meets at barriers,
# counts IN_STEP. Where O and scores of a thread are more than MOST_SUMS numbers, of 255 registers none are
# left to look ahead with: FULL_REGISTERS more.
IN_STEP, FULL_REGISTERS, MOST_SUMS, MOST_COLUMNS = 0.3, 0.25, 150, 128
AT_WORK = 0.58  # of a visit whose rows come back from memory, but for its waits, in which other blocks wait


# What the units do at the same time.


def arithmetic_seconds(pipeline: Pipeline, products: float, softmax: float) -> float:
    """Seconds of a block's matrix products and softmax together."""
    return in_norm(products, softmax) if pipeline.overlapped else products + softmax


def with_copies(pipeline: Pipeline, arithmetic: float, copies: float) -> float:
    """Seconds of the arithmetic and of its copies together, once they run."""
    return max(arithmetic, copies) if pipeline.asynchronous else arithmetic + copies


@dataclass(frozen=True)
class Visit:
    """Seconds that a visit takes units of its SM.

    `visit.taken(launch.pipeline, 2, 64)` is 0.70e-6 where each of two blocks of FlashAttention-2 on an SM of
    an H200 visits a tile of 64 x 64 at d 64.
    """

    tensor: float  # the matrix products
    softmax: float  # exponentials and float32; all that warps issue where `groups` says how many groups
    copies: float  # loads and stores through L2
    waited: float = 0.0  # for what it loads, where each visit waits for the one before
    masking: float = 0.0  # more of `softmax` for a tile that the mask cuts
    groups: int = 0  # warp groups of a block whose instructions are counted; 0 where they are not
    full: float = 0.0  # a share more where sums and addresses leave its threads no registers
    unit: float = 0.0  # of the exponentials' unit alone, where it has more to do than instructions take
    apart: float = POWER  # the power of the groups on an SM by which they wait less for one another
    products: int = 2  # that its warps wait for, one after another

    def alone(self, pipeline: Pipeline) -> float:
        """Seconds of a visit on an SM that makes no other meanwhile."""
        return with_copies(
            pipeline, arithmetic_seconds(pipeline, self.tensor, self.softmax), self.copies + self.waited
        )

    def taken(self, pipeline: Pipeline, blocks: int, rows: int, least: float = 0.0) -> float:
        """Seconds in which so many blocks of so many rows on one SM each make a visit, `least` on its own.

        Two warp groups take their time one unit after another; each further one adds that of the busiest.
        """
        if self.groups:
            arithmetic = blocks * (self.tensor + max(self.gaps(blocks) * self.softmax, self.unit))
            return with_copies(pipeline, arithmetic, blocks * self.copies)
        alone, longest = max(least, self.alone(pipeline)), max(self.tensor, self.softmax, self.copies)
        pairs = max(1.0, blocks * min(1.0, rows / TWO_WARP_GROUPS))
        return blocks * (alone + (pairs - 1) * longest) / pairs

    def waiting(self, pipeline: Pipeline, blocks: int) -> float:
        """The same of blocks that wait for what they load: they are in one another's way only at work."""
        alone = self.alone(pipeline)
        return alone + (blocks - 1) * (AT_WORK * (alone - self.waited)) ** 2 / alone

    def gaps(self, blocks: int) -> float:
        """How many times as long as their instructions the warp groups of so many blocks on an SM take."""
        groups = blocks * (1 + IN_STEP * (self.groups - 1))
        return 1 + self.products / 2 * WAITS_ALONE / groups**self.apart + self.full

    def cut(self, pipeline: Pipeline, blocks: int, rows: int) -> float:
        """How many times as long a visit of a tile takes that the mask cuts, so many blocks on the SM."""
        masking = blocks * self.masking * (self.gaps(blocks) if self.groups else 1.0)
        return 1 + masking / self.taken(pipeline, blocks, rows)


def visit_of(launch: Launch, phase: Phase, rates: Rates) -> Visit:
    """The cost of a kernel's visits, whichever way it makes them."""
    tensor, softmax, copies = visit_seconds(launch, phase, rates)
    masking = mask_instructions(launch) / launch.gpu.issued_per_second
    if launch.pipeline.specialised:
        return Visit(tensor, softmax, copies, masking=masking)
    if by_instructions(launch, phase):
        groups, wide = _groups(launch, phase), columns(launch.problem.v_dim)
        sums = launch.tiling.block_q * (launch.tiling.block_kv + wide) / threads_of(launch.schedule, phase)
        full = FULL_REGISTERS * groups * (wide > MOST_COLUMNS and sums > MOST_SUMS)
        asked = bool(launch.problem.softcap) * exponentials_of(launch.problem) * _scores(launch)
        unit = asked / launch.gpu.exponentials_per_clock / launch.gpu.running_clock
        products = sum(step.operation in MATRIX_PRODUCTS for step in phase.each)
        return Visit(tensor, softmax, copies, 0.0, masking, groups, full, unit, products=products)
    if in_few_rows(launch.schedule, phase, launch.gpu):
        issued = few_rows_seconds(launch, phase)  # each warp waits by itself
        return Visit(0.0, issued, copies, 0.0, FEW_ROWS_CYCLES * masking, 1, apart=1.0)
    if is_online(phase) or launch.pipeline.returning:
        issued = VISIT_INSTRUCTIONS * threads_of(launch.schedule, phase) / launch.gpu.scheduled
        softmax += issued / launch.gpu.clock_hz
    # a word that finds no register waits for L1 by itself
    softmax += L1_LATENCY * spilled_words(launch.algorithm, launch.schedule, phase)
    return Visit(tensor, softmax, copies, masking=masking)


def visit_seconds(launch: Launch, phase: Phase, rates: Rates) -> tuple[float, float, float]:
    """Seconds of one SM that a visit takes: its matrix products, its softmax, its loads and stores."""
    copies = launch.gpu.sms * moved(launch, phase.each) / rates.cache
    if by_instructions(launch, phase):
        return peak_seconds(launch, phase), _issued_seconds(launch, phase), copies
    sms, operations = launch.gpu.sms, [step.operation for step in phase.each]
    scores = _scores(launch) * sum(operation in EXPONENTIALS for operation in operations)
    pipeline = launch.pipeline
    times = 1 + 2 * pipeline.dividing if Operation.RESCALE in operations and not pipeline.threshold else 0
    rescaled = times * launch.tiling.block_q * launch.problem.v_dim
    each, asked = SCORE_OPERATIONS + term_instructions(launch.problem), exponentials_of(launch.problem)
    weights = exponential_seconds(scores, asked, pipeline.polynomials, rates)
    softmax = weights + (each * scores + rescaled) / rates.vector
    tensor = sms * _products(launch, phase) / rates.matrix + _operand_seconds(launch, phase)
    return tensor, sms * softmax, copies


def _operand_seconds(launch: Launch, phase: Phase) -> float:
    """Seconds that an AMD GPU's waves wait for what they multiply: each reads all of what streams by itself.

    A block has a wave for each of a compute unit's four units, so that none multiplies meanwhile.
    """
    gpu = launch.gpu
    waves = threads_of(launch.schedule, phase) / gpu.device.threads * gpu.device.amd
    return waves * moved(launch, phase.each) / gpu.shared_bytes_per_clock / gpu.running_clock


# Matrix products.


def peak_seconds(launch: Launch, phase: Phase) -> float:
    """Seconds of an SM for a visit's matrix products at the peak of its tensor cores."""
    gpu = launch.gpu
    rate = gpu.reached.clock * gpu.products_per_second(launch.problem.dtype)
    return gpu.sms * _products(launch, phase) / rate


def _products(launch: Launch, phase: Phase) -> float:
    """FLOPs of a visit's matrix products, padded columns and what they wait for shared memory included."""
    tiling, operations = launch.tiling, [step.operation for step in phase.each]
    products = sum(operation in MATRIX_PRODUCTS for operation in operations)
    if is_gradient(phase):
        twice = _times_computed(launch, phase)
        products += 2 * (twice * _narrow(launch.gpu, _inner_rows(launch, phase) / twice) - 1)
    elif phase.outer == "query" and Operation.SCORES in operations and not by_instructions(launch, phase):
        products += _narrow(launch.gpu, tiling.block_kv) - 1
    return products * _product_columns(launch) * tiling.block_q * tiling.block_kv


def _product_columns(launch: Launch) -> float:
    """Of both products together, which are FLOPs of a score over two; those that the kernel pads included.

    FlashAttention-3's Q K^T has a head dim's own, in steps of 16. Its P V takes as long as of padded columns,
    computed or not: P comes from registers, for which 16 columns wait as long as 64 do.
    """
    problem = launch.problem
    if launch.pipeline.specialised and not problem.latent:
        return DEEP * ceil(problem.head_dim / DEEP) + columns(problem.v_dim)
    return padding(problem) * (problem.head_dim + problem.v_dim)


def _narrow(gpu: Gpu, keys: int) -> float:
    """How many times as long Q K^T takes on Hopper as its FLOPs do: 64 rows of Q come from shared memory.

    By 16 columns, 64 rows of Q are 2 KiB and a key 32 bytes, at 128 bytes per clock; their product takes
    keys / 2 clocks (4,096 FLOPs per clock and SM: NVIDIA H100 architecture white paper).
    """
    return max(1.0, (16 + keys / 4) / (keys / 2)) if gpu.architecture == "Hopper" else 1.0


# Instructions of online softmax.


def by_instructions(launch: Launch, phase: Phase) -> bool:
    """Whether visits are of scores between asynchronous products, whose instructions are known."""
    plain = not launch.pipeline.returning and launch.problem.dtype != "float32"
    on_path = launch.gpu.architecture == "Hopper" and rows_of(launch.schedule, phase) >= WARP_GROUP_ROWS
    return plain and (is_online(phase) or is_gradient(phase)) and on_path


def _issued_seconds(launch: Launch, phase: Phase) -> float:
    """Seconds of an SM for a visit's instructions, of which exponentials take a unit of their own."""
    exponentials = _scores(launch) / launch.gpu.exponentials_per_clock
    if launch.pipeline.overlapped:
        terms = term_instructions(launch.problem, by_unit=True)
        more = terms * _scores(launch) / launch.gpu.issued_per_second
        asked = exponentials_of(launch.problem, by_unit=True) * exponentials
        return UNDER_PRODUCTS * asked / launch.gpu.running_clock + more
    issued = visit_instructions(launch, phase) / launch.gpu.scheduled
    hidden = is_gradient(phase)
    return max(issued, 0.0 if hidden else exponentials) / launch.gpu.running_clock


def visit_instructions(launch: Launch, phase: Phase) -> float:
    """Instructions of a block's threads for a visit of scores between asynchronous products."""
    if is_gradient(phase):
        return _gradient_instructions(launch, phase)
    tiling, threads = launch.tiling, _groups(launch, phase) * GROUP_THREADS
    padded = padding(launch.problem) > 1
    by_threads = not (tiling.own or launch.pipeline.specialised)  # by TMA no thread has copies to issue
    return (
        (SCORE_INSTRUCTIONS + term_instructions(launch.problem)) * _scores(launch)
        + (OUTPUT_INSTRUCTIONS + 2 * launch.pipeline.dividing)
        * tiling.block_q
        * columns(launch.problem.v_dim)
        + (COPY_INSTRUCTIONS + PADDED_INSTRUCTIONS * padded) * by_threads * copied_at_once(launch, phase.each)
        + VISIT_INSTRUCTIONS * threads
    )


def _gradient_instructions(launch: Launch, phase: Phase) -> float:
    """The same of a backward pass, but for exponentials that hide under the product beside them."""
    threads, dims = threads_of(launch.schedule, phase), (launch.problem.head_dim, launch.problem.v_dim)
    depths = sum(map(columns, dims)) / 16
    inner = _inner_rows(launch, phase) / 16
    gradients = sum(step.operation in MATRIX_PRODUCTS for step in phase.each) - 2
    rows = max(1.0, rows_of(launch.schedule, phase) / WARP_GROUP_ROWS / _groups(launch, phase))
    twice = _times_computed(launch, phase)
    products = rows * (twice * depths + gradients * inner)
    each = GRADIENT_SCORE + NARROWED * gradients - HIDDEN + term_instructions(launch.problem)
    return (
        each * twice * _scores(launch)
        + COPY_INSTRUCTIONS * copied_at_once(launch, phase.each)
        + (VISIT_INSTRUCTIONS + PRODUCT_INSTRUCTIONS * products) * threads
    )


def mask_instructions(launch: Launch) -> float:
    """Instructions more for a tile that the mask cuts."""
    return MASK_INSTRUCTIONS * _scores(launch)


def few_rows_seconds(launch: Launch, phase: Phase) -> float:
    """Seconds of an SM for a visit of few rows, of which each of four warps has a part of the keys."""
    rows, keys, threads = launch.tiling.block_q, launch.tiling.block_kv, GROUP_THREADS
    deep, wide = columns(launch.problem.head_dim), columns(launch.problem.v_dim)
    computed = max(FEWEST_KEYS, keys)
    products = rows * (deep * computed + wide * keys) / (16 * 8 * 16) / (threads // WARP)
    copies = copied_at_once(launch, loads(phase)) / threads
    counts = 1, rows, rows * wide / threads, rows * computed / threads, products, copies
    each = RETURNING_ROWS if phase.rewritten else FEW_ROWS
    instructions = sum(one * count for one, count in zip(each, counts, strict=True))
    instructions += term_instructions(launch.problem) * rows * computed / threads
    instructions += PADDED_INSTRUCTIONS * copies * phase.shared  # rows of several heads
    return FEW_ROWS_CYCLES * instructions / launch.gpu.running_clock


def _groups(launch: Launch, phase: Phase) -> int:
    """Warp groups of a block; a specialised one has one for every 64 rows."""
    if launch.pipeline.specialised:
        return launch.tiling.block_q // WARP_GROUP_ROWS
    return threads_of(launch.schedule, phase) // GROUP_THREADS


def _inner_rows(launch: Launch, phase: Phase) -> int:
    """Rows of a block that a visit is of."""
    return launch.tiling.block_kv if phase.outer == "query" else launch.tiling.block_q


def _times_computed(launch: Launch, phase: Phase) -> int:
    """How often a visit's scores are computed: by each warp group where several share 64 rows."""
    rows = rows_of(launch.schedule, phase)
    return max(1, _groups(launch, phase) * WARP_GROUP_ROWS // rows) if rows >= WARP_GROUP_ROWS else 1


def _scores(launch: Launch) -> int:
    """Scores of a visit."""
    return launch.tiling.block_q * launch.tiling.block_kv


# Bytes that visits move.


def loads(phase: Phase) -> tuple[Step, ...]:
    """What each visit loads."""
    return tuple(step for step in phase.each if step.operation == Operation.LOAD)


def moved(launch: Launch, steps: tuple[Step, ...]) -> int:
    """Bytes that these steps move for whole blocks."""
    tiling, amounts = launch.tiling, launch.schedule.amounts
    moving = (step for step in steps if step.tensor != Tensor.NONE)
    return sum(amounts[step.tensor].of(tiling.block_q, tiling.block_kv) for step in moving)


def copied_at_once(launch: Launch, steps: tuple[Step, ...]) -> float:
    """Instructions of threads that move these, padding included."""
    return padding(launch.problem) * moved(launch, steps) / COPIED_AT_ONCE


def own_way(launch: Launch, amount: float) -> float:
    """Seconds in which so many bytes pass an SM's own way from L2."""
    return amount / (CACHE_BYTES_PER_CLOCK * launch.gpu.clock_hz)


# Rows that come from memory and go back at every visit (flash1).


def returning_visit(launch: Launch, kernel: Kernel, rates: Rates, traffic: Traffic) -> Visit:
    """A visit that waits for its rows, moves them and works on them; its share of a key block's included.

    Nothing runs ahead of it. It waits for L2 unless all its rows are in L1, and longer for what comes from
    DRAM. Of few rows each warp waits for its own instructions, as flash2's do, but for those that move rows.
    """
    phase, rate, reached = kernel.phase, LOAD_BYTES_PER_CLOCK * launch.gpu.clock_hz, launch.reached
    visits = phase.programs.all_visits / max(1, phase.programs.filled)  # of a key block
    keys = {step.tensor for step in phase.before}
    rows, once = moved(launch, loads(phase)), moved(launch, phase.before)
    waited = (1 - _all_in_l1(launch, traffic)) * reached.l2_latency
    waited += reached.latency * _missing(traffic, phase.loaded - keys, rows)
    at_keys = reached.l2_latency + reached.latency * _missing(traffic, keys, once) + once / rate
    visit = visit_of(launch, phase, rates)
    masking = launch.problem.mask.hides * visit.masking  # asked at every visit
    copies = moved(launch, phase.each) / rate
    visit = replace(visit, softmax=visit.softmax + masking, copies=copies, waited=waited + at_keys / visits)
    counted = launch.gpu.architecture == "Hopper" and launch.problem.dtype != "float32"
    if launch.tiling.block_q >= WARP_GROUP_ROWS or not counted:
        return visit
    returned = RETURNED_NUMBER * launch.tiling.block_q * columns(launch.problem.v_dim) / GROUP_THREADS
    issued = (1 + WAITS_ALONE) * few_rows_seconds(launch, phase) + returned / launch.gpu.running_clock
    return replace(visit, tensor=0.0, softmax=issued + FEW_ROWS_CYCLES * masking)


def _all_in_l1(launch: Launch, traffic: Traffic) -> float:
    """Share of visits all of whose rows are in L1; none of those that see their rows for the first time."""
    asked = traffic.requested.total_read
    back = 1 - traffic.compulsory.total_read / asked
    found = max(0.0, 1 - from_l2(launch) / asked)  # registers that spill come on top
    return back * min(1.0, found / back) ** POWER if back else 0.0


def _missing(traffic: Traffic, tensors: frozenset[Tensor], loaded: int) -> float:
    """What a visit waits for DRAM on average, as a share of what it does where all comes from there.

    loaded: bytes of these tensors that it loads. The first time that is all of them, then what L2 has lost.
    Lines come one by one, and the visit waits for the last.
    """
    first, asked, read = (
        sum(each.read[tensor] for tensor in tensors)
        for each in (traffic.compulsory, traffic.requested, traffic.dram)
    )
    if not asked:
        return 0.0
    lost, lines = (read - first) / max(1, asked - first), loaded / LINE
    return (first + (asked - first) * log1p(lines * lost) / log1p(lines)) / asked

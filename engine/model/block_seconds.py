"""What the blocks of threads of a kernel have to do, and how long each takes on its SM: modelled from rates.

A block waits for its first loads, makes its visits (`visit`, `unfused`) and stores what it has. Further
blocks on its SM fill the gaps, and while some wait for memory the others have more of the SM. Each way in
which kernels work has a function of its own, which says what the blocks of one cost.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from engine.algorithms import Pipeline
from engine.model.launch import Kernel, Launch
from engine.model.occupancy import columns, in_few_rows, padding, rows_of, threads_of, tiles_in_flight
from engine.model.placement import Lengths, Visits, Work
from engine.model.rates import (
    BLOCK_INSTRUCTIONS,
    FEW_ROWS_CYCLES,
    SCORE_OPERATIONS,
    WAITS_ALONE,
    Rates,
    exponentials_of,
    in_norm,
    term_instructions,
)
from engine.model.traffic import Traffic, compulsory_bytes, counts, requested_bytes
from engine.model.unfused import fetching_seconds, issued_seconds, row_seconds
from engine.model.unfused_rows import is_softmax, number_by_number
from engine.model.visit import (
    by_instructions,
    copied_at_once,
    loads,
    moved,
    own_way,
    peak_seconds,
    returning_visit,
    visit_of,
    visit_seconds,
)
from engine.schedule.nest import HEAD, TILE, Phase
from engine.schedule.programs import MOST_LISTED
from engine.schedule.schedule import Schedule
from engine.schedule.step import BY_V_DIM, EXPONENTIALS, Operation, Tensor

TENSOR, EXP, L2, HBM = UNITS = ("tensor core", "exp", "L2", "HBM")
COLD_BLOCK = 2.4e-6  # until the warps of a specialised block have their barriers and descriptors
ROUND_TRIPS = 3  # that a block waits for one after another: first loads, first products, last store
# instructions around a block's visits: by number of O, and by 16 bytes that it copies ahead of them
BLOCK_OUTPUT, BLOCK_COPY = 8.7, 9


@dataclass(frozen=True)
class Cost:
    """What blocks cost their SM, in seconds; arrays are by how many blocks share one, from 1."""

    visits: Visits  # how often each visits a tile
    taken: np.ndarray  # [places] in which the blocks on an SM each make a visit
    waits: float = 0.0  # of a block for memory, in which others on its SM work
    first: float = 0.0  # more of its first visit
    # [places] in which the blocks on an SM each issue what they do around their visits
    once: np.ndarray | float = 0.0
    # [places] of HBM for what they ask before their first visit, which hides under the rest in part
    asked: np.ndarray | float = 0.0
    cold: float = 0.0  # more of the first blocks of all SMs
    tensor: float = 0.0  # of a visit's matrix products, where they are known to be what takes power
    idle: float = 0.0  # of HBM, before the first bytes and after the last
    copies: int = 0  # from HBM that an SM has under way


@dataclass(frozen=True)
class _Blocks:
    """A kernel's blocks, and what its costs are made of."""

    launch: Launch
    kernel: Kernel
    traffic: Traffic
    rates: Rates
    places: int
    units: dict[str, float]

    @property
    def every(self) -> np.ndarray:
        """[places] how many blocks share an SM."""
        return np.arange(1, self.places + 1)


def work_of(launch: Launch, kernel: Kernel, traffic: Traffic) -> Work:
    """The blocks of one kernel and how long each takes."""
    gpu, rates = launch.gpu, Rates.of(launch.gpu, launch.problem.dtype)
    places = min(kernel.resident, -(-kernel.blocks // gpu.sms))
    units = _units(launch, kernel, traffic, rates)
    blocks = _Blocks(launch, kernel, traffic, rates, places, units)
    cost = _way(launch, kernel.phase)(blocks)
    around, taken = cost.waits + cost.first * cost.visits.some, cost.taken
    once = cost.once + 0 * taken
    if not cost.tensor or kernel.blocks > places * gpu.sms:  # blocks of one round wait together
        working = _working(once + cost.visits.mean * taken, around)
        once = np.interp(working, blocks.every, once)
        taken = np.interp(working, blocks.every, taken)
    seconds = in_norm(around + once + cost.visits.mean * taken, cost.asked)
    waits, visit = cost.waits + float(once[-1]), float(taken[-1])
    begins = float(seconds[-1]) - waits - cost.visits.mean * visit
    lengths = Lengths(cost.visits, waits, begins / (cost.visits.some or 1.0), visit)
    speeds = np.concatenate(([1.0], seconds[-1] / seconds))
    work = Work(kernel, gpu.sms, lengths, speeds, units, units[HBM] + cost.idle, cost.cold, cost.copies)
    busy = places * cost.tensor * cost.visits.mean / lengths.mean
    return work if busy < gpu.reached.power_from else work.slowed(busy, launch.order, gpu.reached)


def _working(busy: np.ndarray, around: float) -> np.ndarray:
    """[places] blocks that are at work where so many are on an SM, of which some wait for memory.

    busy: seconds that a block works, were all of them at work; it waits for `around`.
    """
    every = np.arange(1, len(busy) + 1)
    working = every.astype(float)
    for _ in range(8):
        at_work = np.interp(working, every, busy)
        working = 1 + (every - 1) * at_work / (around + at_work) if around else working
    return working


# The ways in which kernels work.


def _way(launch: Launch, phase: Phase) -> Callable[[_Blocks], Cost]:
    """The function that says what blocks of a kernel cost."""
    if not phase.each:
        return _without_visits
    if phase.launched == TILE:
        return _tiles_of_scores
    if Tensor.P in phase.loaded:
        return _rows_of_weights
    if launch.pipeline.specialised:
        return _staying
    if launch.pipeline.returning:
        return _returning
    return _instructed if by_instructions(launch, phase) else _loops


def _without_visits(blocks: _Blocks) -> Cost:
    """Whole rows at once: the softmax of unfused attention, and what adds up splits of keys."""
    phase, units, running = blocks.kernel.phase, blocks.units, blocks.places * blocks.launch.gpu.sms
    waits = blocks.launch.reached.latency * phase.round_trips
    if is_softmax(phase):
        rows = min(running, blocks.kernel.blocks) * phase.rows  # which HBM brings to all that run at once
        row = blocks.launch.problem.seq_kv * blocks.launch.problem.itemsize
        waits += blocks.launch.reached.latency + rows * row / blocks.rates.memory
    else:  # its warps wait for one instruction after another
        waits += (1 + WAITS_ALONE) * FEW_ROWS_CYCLES * BLOCK_INSTRUCTIONS / blocks.launch.gpu.running_clock
    alone = max(units[TENSOR] + units[EXP], units[L2]) * blocks.launch.gpu.sms / blocks.kernel.blocks
    return Cost(Visits.equal(1.0), alone * blocks.every, waits)


def _tiles_of_scores(blocks: _Blocks) -> Cost:
    """A tile of S for each block: nothing to copy ahead under."""
    launch, phase, gpu = blocks.launch, blocks.kernel.phase, blocks.launch.gpu
    through = moved(launch, phase.each) / (gpu.shared_bytes_per_clock * gpu.running_clock)  # shared memory
    seconds = issued_seconds(launch, phase) + peak_seconds(launch, phase) + through
    taken = max(visit_seconds(launch, phase, blocks.rates)[2], seconds) * blocks.every
    return Cost(Visits.equal(1.0), taken, (ROUND_TRIPS - 1) * launch.reached.latency)


def _rows_of_weights(blocks: _Blocks) -> Cost:
    """P V of unfused attention: each visit waits for P, or at barriers, while other blocks work."""
    launch, phase = blocks.launch, blocks.kernel.phase
    busy = blocks.every * (peak_seconds(launch, phase) + fetching_seconds(launch, phase))
    slow, reached = number_by_number(launch.schedule, phase), launch.reached  # no copy of P runs ahead
    wait = reached.latency if slow else reached.l2_latency
    copies = visit_seconds(launch, phase, blocks.rates)[2]
    taken = wait + np.interp(_working(busy, wait), blocks.every, busy)
    waits, places = (ROUND_TRIPS - 1) * reached.latency, blocks.places
    ahead = _copies_ahead(launch, phase) and not slow
    first = ahead * max(places * _own_way(launch, phase), places * _asked(blocks) - waits)
    taken = np.maximum(taken, blocks.every * copies)
    return Cost(_visits(launch, blocks.kernel), taken, waits, first, copies=_under_way(blocks, ahead))


def _staying(blocks: _Blocks) -> Cost:
    """Specialised blocks, which stay on their SM and take one tile after another (flash3).

    Copies of the next tile start before this one ends; its first products and softmax run by themselves.
    Where an SM has one buffer for Q, the next tile's is asked for when O has left by way of it.
    """
    launch, kernel, rates = blocks.launch, blocks.kernel, blocks.rates
    visit = visit_of(launch, kernel.phase, rates)
    taken, waits = visit.alone(launch.pipeline), launch.reached.latency + launch.reached.l2_latency
    apart = replace(launch, pipeline=replace(launch.pipeline, overlapped=False))
    first, asked = sum(visit_seconds(apart, kernel.phase, rates)[:2]) - taken, 0.0
    if waits_for_buffer(launch, kernel):
        later = 1 - launch.gpu.sms / kernel.blocks  # an SM's first asks before it begins
        waits += later * launch.reached.latency
        first += later * own_way(launch, moved(launch, kernel.phase.before))
        asked = later * blocks.units[HBM] * launch.gpu.sms / kernel.blocks
    visits = _visits(launch, kernel, visit.cut(launch.pipeline, 1, launch.tiling.block_q))
    cold = COLD_BLOCK + _asked_at_once(blocks, 1)
    tensor = visit.tensor * by_instructions(launch, kernel.phase)
    copies = 0 if asked else 2 * len(launch.parts[kernel.phase.name])  # two buffers of Q, K and V each
    return Cost(visits, np.array([taken]), waits, first, 0.0, asked, cold, tensor, copies=copies)


def waits_for_buffer(launch: Launch, kernel: Kernel) -> bool:
    """Whether an SM has one buffer for Q of its tiles, by way of which O leaves, and several tiles."""
    block = launch.schedule.amounts[Tensor.Q].of(launch.tiling.block_q, 0)
    held = sum(part.bytes for part in launch.parts[kernel.phase.name] if part.tensor == Tensor.Q)
    return kernel.blocks > launch.gpu.sms and held <= block


def _instructed(blocks: _Blocks) -> Cost:
    """Online softmax between asynchronous products, whose instructions are counted (flash2 on Hopper)."""
    launch, phase, every = blocks.launch, blocks.kernel.phase, blocks.every
    visit, rows = visit_of(launch, phase, blocks.rates), rows_of(launch.schedule, phase)
    around = block_instructions(launch, phase) / launch.gpu.issued_per_second
    pipeline = _pipeline(launch, phase)
    return Cost(
        _visits(launch, blocks.kernel, visit.cut(pipeline, blocks.places, rows)),
        np.array([visit.taken(pipeline, n, rows) for n in every]),
        launch.algorithm.loops(launch.problem, launch.tiling) * launch.reached.latency
        + _own_way(launch, phase),
        once=np.array([n * (visit.gaps(n) - visit.full) * around for n in every]),
        asked=_asked(blocks) * every,
        cold=max(0.0, _asked_at_once(blocks, blocks.places)),
        tensor=visit.tensor,
    )


def block_instructions(launch: Launch, phase: Phase) -> float:
    """Instructions of a block's threads around its visits: addresses, Q, its first keys, and O at the end."""
    ahead = tiles_in_flight(launch.algorithm, launch.schedule, phase, launch.gpu) - 1
    loops = launch.algorithm.loops(launch.problem, launch.tiling)
    copies = 0 if launch.tiling.own else BLOCK_COPY * loops * ahead * copied_at_once(launch, phase.each)
    stored = {step.tensor for step in phase.after} - {Tensor.NONE, Tensor.LSE, Tensor.PARTIAL_LSE}
    problem = launch.problem
    wide = sum(columns(problem.v_dim if tensor in BY_V_DIM else problem.head_dim) for tensor in stored)
    output = BLOCK_OUTPUT * rows_of(launch.schedule, phase) * wide
    return output + copies + BLOCK_INSTRUCTIONS * threads_of(launch.schedule, phase)


def _loops(blocks: _Blocks) -> Cost:
    """Any other loop over tiles, of few rows or of another GPU: a block waits for its rows, then for keys."""
    launch, phase, rows = blocks.launch, blocks.kernel.phase, blocks.launch.tiling.block_q
    visit, pipeline = visit_of(launch, phase, blocks.rates), _pipeline(launch, phase)
    taken = np.array([visit.taken(pipeline, n, rows) for n in blocks.every])
    cycles = FEW_ROWS_CYCLES if in_few_rows(launch.schedule, phase, launch.gpu) else 1.0
    around = cycles * block_instructions(launch, phase) / launch.gpu.issued_per_second
    return Cost(
        _visits(launch, blocks.kernel, visit.cut(pipeline, blocks.places, rows)),
        taken,
        launch.reached.l2_latency
        if phase.programs.splits > 1
        else launch.reached.latency,  # splits of a row share its Q
        launch.reached.latency + blocks.places * own_way(launch, moved(launch, loads(phase))),
        once=blocks.every * around,
        idle=2 * launch.reached.latency + around + float(taken[0]),
        copies=_under_way(blocks, len(loads(phase))),
    )


def _returning(blocks: _Blocks) -> Cost:
    """Rows that come from memory and go back at every visit (flash1): HBM works meanwhile."""
    launch, kernel, sms = blocks.launch, blocks.kernel, blocks.launch.gpu.sms
    visit, visits = returning_visit(launch, kernel, blocks.rates, blocks.traffic), _visits(launch, kernel)
    blocks.units[L2] = (visit.copies + visit.waited) * visits.mean * kernel.blocks / (sms * blocks.places)
    asked = blocks.units[HBM] / kernel.blocks / visits.mean * np.minimum(blocks.every * sms, kernel.blocks)
    taken = [visit.waiting(_pipeline(launch, kernel.phase), n) for n in blocks.every]
    return Cost(visits, in_norm(np.array(taken), asked))


# What blocks ask for before their first visit.


def _pipeline(launch: Launch, phase: Phase) -> Pipeline:
    """The algorithm's, without copies that run ahead where the next visit's have no place beside it."""
    return launch.pipeline if _copies_ahead(launch, phase) else replace(launch.pipeline, asynchronous=False)


def _copies_ahead(launch: Launch, phase: Phase) -> bool:
    tiles = tiles_in_flight(launch.algorithm, launch.schedule, phase, launch.gpu)
    return launch.pipeline.asynchronous and tiles > 1


def _under_way(blocks: _Blocks, loads: int) -> int:
    """Copies from HBM that an SM has under way, of so many loads of a visit."""
    launch, phase = blocks.launch, blocks.kernel.phase
    return blocks.places * loads * tiles_in_flight(launch.algorithm, launch.schedule, phase, launch.gpu)


def _own_way(launch: Launch, phase: Phase) -> float:
    """Seconds in which a block's rows, its first keys and what it stores pass the SM's own way from L2."""
    return own_way(launch, moved(launch, phase.before + phase.after) + moved(launch, loads(phase)))


def _asked(blocks: _Blocks) -> float:
    """Seconds of HBM for what one block on every SM copies before its first visit, and stores.

    Blocks stay in step, so that all that run ask it at once.
    """
    launch, kernel, phase = blocks.launch, blocks.kernel, blocks.kernel.phase
    most = phase.programs.all_visits / max(1, phase.programs.filled)
    ahead = min(most, tiles_in_flight(launch.algorithm, launch.schedule, phase, launch.gpu))
    fresh = moved(launch, phase.before + phase.after) + ahead * moved(launch, loads(phase))
    once = compulsory_bytes(replace(launch.schedule, phases=(phase,))).total / kernel.blocks
    return min(kernel.blocks, launch.gpu.sms) * min(fresh, once) / blocks.rates.memory


def _asked_at_once(blocks: _Blocks, places: int) -> float:
    """Seconds of HBM for Q and the first key blocks of all that run first: no block before hides that."""
    fresh = moved(blocks.launch, blocks.kernel.phase.before + blocks.kernel.phase.each)
    running = min(blocks.kernel.blocks, places * blocks.launch.gpu.sms)
    return min(running * fresh, blocks.traffic.compulsory.total_read) / blocks.rates.memory


# How often blocks visit tiles, and what all of that takes the units of the GPU.


def _visits(launch: Launch, kernel: Kernel, masked: float = 1.0) -> Visits:
    """Visits of each block of a head, where one of a tile that the mask cuts counts `masked`."""
    phase, bounds, programs = kernel.phase, launch.schedule.bounds, kernel.phase.programs
    group = launch.schedule.problem.group if phase.shared else 1
    if phase.launched == HEAD:  # one block takes all of them
        return Visits.equal(float(programs.all_visits * group))
    cut_apart = masked != 1.0 and programs.splits == 1
    if programs.count > MOST_LISTED:
        cut = cut_apart * (1 - bounds.full / max(1, bounds.visible))
        return Visits.of_programs(programs, group * (1 + (masked - 1) * cut))
    visits = phase.visits.astype(np.float64)
    if cut_apart:
        full = bounds.full_first, bounds.full_stop
        if phase.outer == "key":  # of each key block, query blocks that see it whole
            blocks = len(visits)
            begins, ends = (np.bincount(edge, minlength=blocks + 1)[:blocks] for edge in full)
            full = np.cumsum(ends), np.cumsum(begins)
        visits += (masked - 1) * (visits - (full[1] - full[0]))
    return Visits.listed(visits * group)


def _units(launch: Launch, kernel: Kernel, traffic: Traffic, rates: Rates) -> dict[str, float]:
    """Seconds that each unit of the whole GPU needs for all of a kernel's work."""
    schedule, phase = launch.schedule, kernel.phase
    one_head, requested = traffic.per_head, traffic.requested
    if len(schedule.phases) > 1:
        alone = replace(schedule, phases=(phase,))
        one_head, requested = counts(alone), requested_bytes(alone)
    on_chip = any(step.operation in EXPONENTIALS for step in phase.each)
    softmax = exponentials_of(launch.problem) * one_head.exponentials / rates.exponentials
    operations = SCORE_OPERATIONS + term_instructions(launch.problem)
    softmax += operations * one_head.exponentials / rates.vector if on_chip else 0.0
    exponentials = traffic.heads * softmax
    if is_softmax(phase):
        exponentials = max(exponentials, row_seconds(launch, phase, rates) * kernel.blocks / launch.gpu.sms)
    return {
        TENSOR: traffic.heads * padding(schedule.problem) * one_head.flops / rates.matrix,
        EXP: exponentials,
        L2: requested.total / rates.cache,
        HBM: _hbm_seconds(schedule, phase, traffic, rates),
    }


def _hbm_seconds(schedule: Schedule, phase: Phase, traffic: Traffic, rates: Rates) -> float:
    """Of a kernel's share of the modelled DRAM bytes: what several read is divided evenly among them."""

    def moves(phase: Phase) -> set[tuple]:
        return {(step.operation, step.tensor) for step in phase.before + phase.each + phase.after}

    movers = Counter(move for each in schedule.phases for move in moves(each))

    def share(operation: Operation, amounts: Mapping[Tensor, int]) -> float:
        moved = (tensor for move, tensor in moves(phase) if move == operation)
        return sum(amounts[tensor] / movers[operation, tensor] for tensor in moved)

    dram = traffic.dram
    return rates.hbm_seconds(share(Operation.LOAD, dram.read), share(Operation.STORE, dram.written))

"""What the blocks of threads of a kernel have to do, and how long each takes on its SM: modelled from rates.

A visit keeps three units of the SM busy, see `visit`; `pipeline` says what of that an algorithm does at the
same time, `around` what a block does beside its visits. Further blocks on the same SM fill the gaps: each
adds the time of the busiest unit only, from two warp groups on, and while some wait for memory the others
have more of the SM. A visit of split keys, whose rows are few, waits for a round trip and for its keys to
pass the SM's own way from L2; what L2 delivers in all is shared by the SMs that have keys to read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from engine.algorithms import Pipeline
from engine.model.around import block_seconds, trips
from engine.model.consumers import tile_visits
from engine.model.l2 import tile_share
from engine.model.launch import Kernel, Launch
from engine.model.occupancy import columns, tiles_in_flight
from engine.model.pipeline import in_norm
from engine.model.rates import (
    BOUND_BY_SOFTMAX,
    HBM_POWER,
    LATENCY,
    LAUNCH,
    LAUNCH_BETWEEN_EVENTS,
    POWER_FROM,
    SCORE_OPERATIONS,
    TILES_POWER,
    TWO_WARP_GROUPS,
    Rates,
)
from engine.model.returning import beside, returning_visit
from engine.model.rows import is_softmax, waits_for_rows
from engine.model.sharing import Visit, shared_seconds
from engine.model.tiles import cold_tile, first_visit, waits_for_buffer
from engine.model.traffic import Traffic, counts, requested_bytes
from engine.model.unfused import fetch_wait, row_seconds, row_wait
from engine.model.visit import by_instructions, loads, moved, own_way, visit_of
from engine.model.work import Lengths, Visits, Work
from engine.schedule.nest import HEAD, TILE, Phase
from engine.schedule.programs import MOST_LISTED
from engine.schedule.schedule import Schedule
from engine.schedule.step import EXPONENTIALS, Operation, Tensor

TENSOR, EXP, L2, HBM = UNITS = ("tensor core", "exp", "L2", "HBM")


def started(pipeline: Pipeline) -> float:
    """Seconds that the start of a kernel takes."""
    return LAUNCH_BETWEEN_EVENTS if pipeline.waiting else LAUNCH


def work_of(launch: Launch, kernel: Kernel, traffic: Traffic) -> Work:
    """The blocks of one kernel and how long each takes."""
    gpu, phase, pipeline = launch.gpu, kernel.phase, _pipeline(launch, kernel.phase)
    rates = Rates.of(gpu, launch.problem.dtype)
    instructed = bool(phase.each) and by_instructions(launch, phase)
    counted = instructed and not pipeline.specialised
    places = min(kernel.resident, -(-kernel.blocks // gpu.sms))
    running = min(places * gpu.sms, kernel.blocks)
    units = _units(launch.schedule, phase, traffic, rates)
    if is_softmax(phase):
        units[EXP] = max(units[EXP], row_seconds(launch, phase, rates) * kernel.blocks / gpu.sms)
    if not phase.each:
        visits, rows = Visits.equal(1.0), TWO_WARP_GROUPS
        waits, first = LATENCY * phase.round_trips, 0.0
        if is_softmax(phase):
            waits += row_wait(launch, phase, running, rates)
        alone = max(units[TENSOR] + units[EXP], units[L2]) * gpu.sms / kernel.blocks
        taken = [shared_seconds(alone, alone, blocks, rows) for blocks in range(1, places + 1)]
    else:
        visit, rows = visit_of(launch, phase, rates), launch.tiling.block_q
        waited = 0.0
        if pipeline.returning:
            visit = returning_visit(launch, kernel, visit, traffic)
        if pipeline.waiting:  # other blocks on the SM run while one waits
            copies, waited = _few_rows(launch, kernel, visit.copies)
            visit, rows = replace(visit, copies=copies), max(rows, TWO_WARP_GROUPS)
        if pipeline.specialised and phase.programs.count <= MOST_LISTED:
            visits = Visits.listed(tile_visits(launch, visit, rates))
        else:
            visits = _visits(launch, kernel, visit.cut(pipeline, places, rows))
        if not pipeline.returning:
            taken = [visit.taken(pipeline, blocks, rows, waited) for blocks in range(1, places + 1)]
        else:  # its blocks wait for L2, and all that run for HBM, at the same time
            units[L2] = (visit.copies + visit.waited) * visits.mean * kernel.blocks / (gpu.sms * places)
            asked = units[HBM] / kernel.blocks / visits.mean  # of HBM by a visit
            taken = [
                np.hypot(beside(visit, pipeline, n), min(n * gpu.sms, kernel.blocks) * asked)
                for n in range(1, places + 1)
            ]
        waits = trips(launch, phase) * LATENCY + (_own_way(launch, phase) if counted else 0.0)
        if Tensor.P in phase.loaded:
            taken = _fetching(visit, fetch_wait(launch, phase), np.arange(1, places + 1))
        if pipeline.specialised:
            first = first_visit(launch, kernel, rates) - taken[0]
        elif pipeline.asynchronous and not instructed:
            first = _around(launch, kernel, traffic, rates, places) - waits
        else:  # counted with each visit, or with what it asks HBM for
            first = 0.0
    around, every = waits + first * visits.some, np.arange(1, places + 1)
    once = np.array([block_seconds(launch, phase, visit, n) if counted else 0.0 for n in every])
    taken = np.array(taken)
    if not instructed or kernel.blocks > places * gpu.sms:  # blocks of one round wait together
        working = _working(once + visits.mean * taken, around)
        once, taken = np.interp(working, every, once), np.interp(working, every, taken)
    lengths = around + once + visits.mean * taken
    if counted:  # while some wait for HBM, others work
        asked = _asked(launch, kernel, traffic, rates) * every
        lengths = in_norm(lengths, asked, HBM_POWER)
    elif pipeline.specialised and waits_for_buffer(launch, kernel):  # an SM's first asks before it begins
        asked = units[HBM] * gpu.sms / kernel.blocks * (1 - gpu.sms / kernel.blocks)
        lengths = in_norm(lengths, asked, TILES_POWER)
    around = float(lengths[-1] - visits.mean * taken[-1])
    begins = (around - waits) / visits.some if visits.some else 0.0
    speeds = np.concatenate(([1.0], lengths[-1] / lengths))
    last = float(tile_share(launch, np.array([kernel.count - 1]))[0]) if pipeline.specialised else 1.0
    lengths = Lengths(visits, waits, begins, float(taken[-1]), kernel.count, last)
    ahead = launch.algorithm.draws_ahead(launch.problem)
    work = Work(kernel, gpu.sms, lengths, speeds, around, units, ahead)
    if not instructed:
        return work
    in_step = launch.problem.head_dim > BOUND_BY_SOFTMAX and visit.groups == 1
    work = replace(work, cold=_cold(launch, kernel, traffic, rates), in_step=in_step)
    busy = places * visit.tensor * visits.mean / lengths.mean
    return work if busy < POWER_FROM else work.slowed(busy, launch.order)


def _pipeline(launch: Launch, phase: Phase) -> Pipeline:
    """The algorithm's, without copies that run ahead where there is no other visit to copy under."""
    alone = phase.launched == TILE or _one_at_a_time(launch, phase) or waits_for_rows(launch.schedule, phase)
    return replace(launch.pipeline, asynchronous=False) if alone else launch.pipeline


def _fetching(visit: Visit, idle: float, every: np.ndarray) -> np.ndarray:
    """[blocks] seconds of a visit that fetches P and waits for it, beside so many blocks on the SM."""
    taken = every * (visit.tensor + visit.issued)
    taken = idle + np.interp(_working(taken, idle), every, taken)
    return np.maximum(taken, every * visit.copies)


def _around(launch: Launch, kernel: Kernel, traffic: Traffic, rates: Rates, places: int) -> float:
    """Seconds of a block around its visits, which nothing hides: round trips and the SM's own way from L2.

    Or HBM, where that takes longer.
    """
    phase = kernel.phase
    through = places * _own_way(launch, phase)
    return max(trips(launch, phase) * LATENCY + through, places * _asked(launch, kernel, traffic, rates))


def _own_way(launch: Launch, phase: Phase) -> float:
    """Seconds in which a block's rows, its first keys and what it stores pass the SM's own way from L2."""
    once = moved(launch, phase.before + phase.after) + moved(launch, loads(phase))
    return own_way(launch, once)


def _asked(launch: Launch, kernel: Kernel, traffic: Traffic, rates: Rates) -> float:
    """Seconds of HBM for what one block on every SM copies before its first visit, and stores.

    Blocks stay in step, so that all that run ask it at once.
    """
    gpu, phase = launch.gpu, kernel.phase
    around = moved(launch, phase.before + phase.after)
    most = phase.programs.all_visits / max(1, phase.programs.filled)
    ahead = min(most, tiles_in_flight(launch.algorithm, launch.schedule, phase, gpu))
    fresh = min(around + ahead * moved(launch, loads(phase)), traffic.compulsory.total / kernel.blocks)
    return min(kernel.blocks, gpu.sms) * fresh / rates.memory


def _cold(launch: Launch, kernel: Kernel, traffic: Traffic, rates: Rates) -> float:
    """Seconds more of the first blocks: all that run ask HBM at once for Q and the first key blocks.

    No block before these hides that. One that is specialised has barriers and descriptors to make as well.
    """
    if launch.pipeline.specialised:
        return cold_tile(launch, kernel, traffic, rates)
    fresh = moved(launch, kernel.phase.before) + moved(launch, kernel.phase.each)
    fresh = min(fresh, traffic.compulsory.total_read / kernel.blocks)
    asking = min(kernel.blocks, kernel.resident * launch.gpu.sms) * fresh / rates.memory
    return max(0.0, asking - own_way(launch, fresh))  # that is in every block


def _one_at_a_time(launch: Launch, phase: Phase) -> bool:
    """Whether the tiles of a visit are so large that those of the next have no place beside them."""
    algorithm = launch.algorithm
    if algorithm.pipeline.specialised or algorithm.pipeline.waiting or not phase.each:
        return False
    return tiles_in_flight(algorithm, launch.schedule, phase, launch.gpu) == 1


def _few_rows(launch: Launch, kernel: Kernel, copies: float) -> tuple[float, float]:
    """Seconds of an SM for a visit's copies, and those that a visit on its own waits for them.

    copies: the first, were all SMs to copy at once.
    """
    gpu, phase = launch.gpu, kernel.phase
    through = own_way(launch, moved(launch, phase.each))
    copying = min(gpu.sms, kernel.heads * phase.programs.filled)
    return max(through, copies * copying / gpu.sms), LATENCY + through


def _units(schedule: Schedule, phase: Phase, traffic: Traffic, rates: Rates) -> dict[str, float]:
    """Seconds that each unit of the whole GPU needs for all of a kernel's work."""
    one_head, requested = traffic.per_head, traffic.requested
    if len(schedule.phases) > 1:
        alone = replace(schedule, phases=(phase,))
        one_head, requested = counts(alone), requested_bytes(alone)
    on_chip = any(step.operation in EXPONENTIALS for step in phase.each)
    padded = columns(schedule.problem.head_dim) / schedule.problem.head_dim
    softmax = one_head.exponentials / rates.exponentials
    softmax += SCORE_OPERATIONS * one_head.exponentials / rates.vector if on_chip else 0.0
    return {
        TENSOR: traffic.heads * padded * one_head.flops / rates.matrix,
        EXP: traffic.heads * softmax,
        L2: requested.total / rates.cache,
        HBM: _dram_bytes(schedule, phase, traffic) / rates.memory,
    }


def _dram_bytes(schedule: Schedule, phase: Phase, traffic: Traffic) -> float:
    """A kernel's share of the modelled DRAM bytes: what several kernels read is divided evenly among them."""

    def moves(phase: Phase) -> set[tuple]:
        return {(step.operation, step.tensor) for step in phase.before + phase.each + phase.after}

    movers = Counter(move for each in schedule.phases for move in moves(each))
    amounts = {Operation.LOAD: traffic.dram.read, Operation.STORE: traffic.dram.written}
    return sum(
        amounts[operation][tensor] / movers[operation, tensor]
        for operation, tensor in moves(phase)
        if operation in amounts
    )


def _visits(launch: Launch, kernel: Kernel, masked: float) -> Visits:
    """Visits of each block of a head, where one of a tile that the mask cuts counts `masked`.

    Such tiles are few, and flash3 takes them one after another, without overlap.
    """
    phase, bounds, programs = kernel.phase, launch.schedule.bounds, kernel.phase.programs
    if phase.launched == TILE:  # each is one visit
        return Visits.equal(1.0)
    group = launch.schedule.problem.group if phase.shared else 1
    if phase.launched == HEAD:  # one block takes all of them
        return Visits.equal(float(programs.all_visits * group))
    cut_apart = masked != 1.0 and phase.outer == "query" and programs.splits == 1
    if programs.count > MOST_LISTED:
        cut = cut_apart * (1 - bounds.full / max(1, bounds.visible))
        return Visits.of_programs(programs, group * (1 + (masked - 1) * cut))
    visits = phase.visits.astype(np.float64)
    if cut_apart:
        visits += (masked - 1) * (visits - (bounds.full_stop - bounds.full_first))
    return Visits.listed(visits * group)


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

"""What a tile waits for in a block that stays on its SM and takes one after another (flash3): modelled.

Copies of the next tile start before this one ends. Yet its first products and softmax run by themselves, and
it may wait for a buffer or, where tiles are unequal, for being drawn.
"""

from __future__ import annotations

from dataclasses import replace

from engine.model.launch import Kernel, Launch
from engine.model.rates import (
    BOUND_BY_SOFTMAX,
    COLD_BLOCK,
    COLD_RUN,
    COLD_VISIT,
    COLD_VISITS,
    TRIPS_OF_A_DRAW,
    TRIPS_OF_TURNS,
    TRIPS_SPARED,
    TWO_WARP_GROUPS,
    Rates,
)
from engine.model.traffic import Traffic
from engine.model.visit import moved, own_way, visit_seconds
from engine.schedule.step import Tensor


def trips_of_a_tile(launch: Launch) -> float:
    """Round trips more of a tile whose warp groups take turns, and fewer where two end and begin at will.

    More where the next tile's Q, for want of a buffer of its own, is asked for when O has left.
    """
    (kernel,) = launch.kernels
    if launch.tiling.block_q > TWO_WARP_GROUPS:
        return TRIPS_OF_TURNS
    if waits_for_buffer(launch, kernel):
        return 1 - launch.gpu.sms / kernel.blocks
    late = not launch.algorithm.draws_ahead(launch.problem) and launch.problem.head_dim > BOUND_BY_SOFTMAX
    return TRIPS_OF_A_DRAW * late * max(0.0, 1 - launch.gpu.sms / kernel.blocks) - TRIPS_SPARED


def first_visit(launch: Launch, kernel: Kernel, rates: Rates) -> float:
    """Seconds of a tile's first visit: products and softmax, of which none run under those of another.

    And of an SM's own way from L2 for Q, where it waits for O of the tile before to leave.
    """
    seconds = apart_seconds(launch, rates)
    if not waits_for_buffer(launch, kernel):
        return seconds
    nexts = 1 - launch.gpu.sms / kernel.blocks
    return seconds + nexts * own_way(launch, moved(launch, kernel.phase.before))


def cold_tile(launch: Launch, kernel: Kernel, traffic: Traffic, rates: Rates) -> float:
    """Seconds more of the first tile of every SM: barriers and descriptors, and HBM for what all ask at once.

    Without a mask tiles of a head begin at the same key block, and walk over keys that nobody read before.
    """
    phase, running = kernel.phase, min(kernel.blocks, launch.gpu.sms)
    queries, each = moved(launch, phase.before), moved(launch, phase.each)
    seconds = COLD_BLOCK + own_way(launch, queries + each / 2)
    group = launch.problem.group
    if launch.problem.mask.looks_ahead:
        fresh = running * queries + -(-running // (kernel.count * group)) * each / 2
        visits = min(COLD_RUN, phase.programs.all_visits / phase.programs.count - 1)
        seconds += COLD_VISIT * visits
    else:
        window = launch.problem.mask.window
        keys = launch.problem.seq_kv if window is None else launch.tiling.block_q
        fresh = running * (queries + min(COLD_VISITS, keys / launch.tiling.block_kv) * each / group)
    return seconds + min(fresh, traffic.compulsory.total_read) / rates.memory


def apart_seconds(launch: Launch, rates: Rates) -> float:
    """Seconds of a visit's products and softmax one after another."""
    apart = replace(launch, pipeline=replace(launch.pipeline, overlapped=False))
    (phase,) = launch.schedule.phases
    return sum(visit_seconds(apart, phase, rates)[:2])


def waits_for_buffer(launch: Launch, kernel: Kernel) -> bool:
    """Whether an SM has one buffer for Q of its tiles, by way of which O leaves, and several tiles."""
    block = launch.schedule.amounts[Tensor.Q].of(launch.tiling.block_q, 0)
    return (
        kernel.blocks > launch.gpu.sms
        and sum(part.bytes for part in launch.parts[kernel.phase.name] if part.tensor == Tensor.Q) <= block
    )

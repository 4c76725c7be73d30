"""What a block of threads does around its visits: round trips that it waits for, and instructions.

Counted in what the compiler makes of flash2: a block computes addresses, fetches Q, asks for its first keys
anew in every loop, and divides and stores O. A short window leaves it no more visits than that takes.
"""

from __future__ import annotations

import numpy as np

from engine.model.launch import Launch
from engine.model.occupancy import columns, threads_of, tiles_in_flight
from engine.model.rates import (
    BLOCK_BY_TMA,
    BLOCK_COPY,
    BLOCK_INSTRUCTIONS,
    BLOCK_LOOP,
    BLOCK_OUTPUT,
    ROUND_TRIPS,
    SCHEDULED,
    TRIPS_OF_A_LOOP,
)
from engine.model.rows import has_rows
from engine.model.sharing import Visit
from engine.model.tiles import trips_of_a_tile
from engine.model.unfused import COPIED_AT_ONCE, running_clock
from engine.model.visit import by_instructions, moved
from engine.schedule.nest import Phase


def trips(launch: Launch, phase: Phase) -> float:
    """Round trips that a block waits for, on average; each further loop begins with empty buffers.

    For its products a kernel of unfused attention waits within its visits.
    """
    pipeline = launch.pipeline
    if by_instructions(launch, phase) and not pipeline.specialised:
        return TRIPS_OF_A_LOOP * _entered(launch)
    if pipeline.returning:
        return 0.0  # counted with every visit
    waited = ROUND_TRIPS - (pipeline.specialised or pipeline.waiting or has_rows(phase))
    if pipeline.specialised:
        waited += trips_of_a_tile(launch)
    return waited + TRIPS_OF_A_LOOP * max(0.0, _entered(launch) - 1)


def _entered(launch: Launch) -> float:
    """Loops in which a block makes visits, on average: the window's far edge, whole tiles, the others."""
    bounds, keys = launch.schedule.bounds, launch.tiling.block_kv
    if launch.algorithm.loops(launch.problem, launch.tiling) == 1:
        return 1.0
    whole = np.clip(launch.problem.seq_kv // keys, bounds.full_first, bounds.full_stop)
    edges = bounds.first, bounds.full_first, whole, bounds.stop
    return float(np.average(np.sum(np.diff(edges, axis=0) > 0, axis=0), weights=bounds.alike))


def block_instructions(launch: Launch, phase: Phase) -> float:
    """Instructions of a block's threads around its visits; what it copies ahead it asks for in each loop."""
    problem, tiling = launch.problem, launch.tiling
    wide, loops = columns(problem.head_dim), launch.algorithm.loops(problem, tiling)
    ahead = tiles_in_flight(launch.algorithm, launch.schedule, phase, launch.gpu) - 1
    copied = wide / problem.head_dim * moved(launch, phase.each) / COPIED_AT_ONCE
    each = BLOCK_INSTRUCTIONS + BLOCK_LOOP * (loops - 1) + BLOCK_BY_TMA * tiling.own
    copies = 0 if tiling.own else BLOCK_COPY * loops * ahead * copied
    return BLOCK_OUTPUT * tiling.block_q * wide + copies + each * threads_of(launch.schedule, phase)


def block_seconds(launch: Launch, phase: Phase, visit: Visit, blocks: int) -> float:
    """Seconds in which so many blocks on an SM each issue these."""
    issued = block_instructions(launch, phase) / SCHEDULED / running_clock(launch.gpu)
    return blocks * (visit.gaps(blocks) - visit.full) * issued

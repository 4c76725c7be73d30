"""What a tile waits for in a block that stays on its SM and takes one after another (flash3): modelled.

Copies of the next tile start before this one ends. Yet its first products and softmax run by themselves, and
it may wait for a buffer or, where tiles are unequal, for being drawn.
"""

from __future__ import annotations

from dataclasses import replace

from engine.model.launch import Kernel, Launch
from engine.model.rates import (
    BOUND_BY_SOFTMAX,
    TRIPS_OF_A_DRAW,
    TRIPS_SPARED,
    TWO_WARP_GROUPS,
    UNBUFFERED,
    Rates,
)
from engine.model.visit import visit_seconds
from engine.schedule.step import Tensor


def trips_of_a_tile(launch: Launch) -> float:
    """Round trips more where a tile is drawn late and products bind; fewer of few rows where softmax binds.

    The first tile of an SM is not drawn.
    """
    if launch.problem.head_dim <= BOUND_BY_SOFTMAX:
        return -TRIPS_SPARED * (launch.tiling.block_q <= TWO_WARP_GROUPS)
    (kernel,) = launch.kernels
    late = not launch.algorithm.draws_ahead(launch.problem)
    return TRIPS_OF_A_DRAW * late * max(0.0, 1 - launch.gpu.sms / kernel.blocks)


def first_visit(launch: Launch, kernel: Kernel, rates: Rates) -> float:
    """Seconds of a tile's first visit: products and softmax, of which none run under those of another.

    And of HBM for Q and O of all tiles that run, where Q of the next tile waits for O of this one to leave.
    """
    apart = replace(launch, pipeline=replace(launch.pipeline, overlapped=False))
    seconds = sum(visit_seconds(apart, kernel.phase, rates)[:2])
    if not waits_for_buffer(launch, kernel):
        return seconds
    sms, block = launch.gpu.sms, launch.schedule.amounts[Tensor.Q].of(launch.tiling.block_q, 0)
    stored = launch.problem.seq_q / (launch.tiling.block_q * kernel.count)
    # an SM's last tile has no next one
    return seconds + UNBUFFERED * (1 - sms / kernel.blocks) * sms * (1 + stored) * block / rates.memory


def waits_for_buffer(launch: Launch, kernel: Kernel) -> bool:
    """Whether an SM has one buffer for Q of its tiles, by way of which O leaves, and several tiles."""
    block = launch.schedule.amounts[Tensor.Q].of(launch.tiling.block_q, 0)
    return (
        kernel.blocks > launch.gpu.sms
        and sum(part.bytes for part in launch.parts[kernel.phase.name] if part.tensor == Tensor.Q) <= block
    )

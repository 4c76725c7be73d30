"""How long a visit takes whose rows come from memory and go back at every visit (flash1): modelled.

Nothing runs ahead of it: it waits for its rows, moves them and works on them. It waits for L2 unless all of
them are in L1, and longer where its SM is the only one at work among those that share a way to L2. Blocks on
an SM are in one another's way while they work, not while they wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engine.algorithms import Pipeline
from engine.model.l1 import from_l2
from engine.model.launch import Kernel, Launch
from engine.model.occupancy import spilled_words
from engine.model.rates import (
    AT_WORK,
    SMS_OF_ONE_ALONE,
    WAITED_ALONE,
    WAITED_BYTES_PER_CLOCK,
    WAITED_LINES,
    WAITED_MASK,
    WAITED_MEMORY,
    WAITED_TRIP,
    WAITED_WARPS,
    WAITED_WORD,
    WARP_GROUP_ROWS,
)
from engine.model.sharing import Visit
from engine.model.traffic import Traffic
from engine.model.visit import moved
from engine.schedule.step import Tensor


def returning_visit(launch: Launch, kernel: Kernel, visit: Visit, traffic: Traffic) -> Visit:
    """A visit with the seconds in which it moves its rows and waits, and its share of a key block's."""
    phase = kernel.phase
    rate = WAITED_BYTES_PER_CLOCK * launch.gpu.clock_hz
    visits = phase.programs.all_visits / max(1, phase.programs.filled)  # of a key block
    keys = {step.tensor for step in phase.before}
    alone = min(kernel.blocks, launch.gpu.sms) in SMS_OF_ONE_ALONE
    waited = (1 - _all_in_l1(launch, traffic)) * (WAITED_TRIP + WAITED_ALONE * alone)
    waited += WAITED_MEMORY * _missing(traffic, phase.loaded - keys)
    at_keys = WAITED_TRIP + WAITED_MEMORY * _missing(traffic, keys) + moved(launch, phase.before) / rate
    few = launch.tiling.block_q < WARP_GROUP_ROWS
    return replace(
        visit,
        softmax=visit.softmax * (1 + WAITED_MASK * launch.problem.mask.hides),
        copies=moved(launch, phase.each) / rate + WAITED_WORD * spilled_words(launch.schedule),
        issued=visit.issued + WAITED_WARPS * few,
        waited=waited + at_keys / visits,
    )


def beside(visit: Visit, pipeline: Pipeline, blocks: int) -> float:
    """Seconds in which so many blocks on one SM each make a visit."""
    alone = visit.alone(pipeline)
    return alone + (blocks - 1) * (AT_WORK * (alone - visit.waited)) ** 2 / alone


def _all_in_l1(launch: Launch, traffic: Traffic) -> float:
    """Share of visits all of whose rows are in L1; none of those that see their rows for the first time."""
    asked = traffic.requested.total_read
    back = 1 - traffic.compulsory.total_read / asked
    found = max(0.0, 1 - from_l2(launch) / asked)  # registers that spill come on top
    return back * min(1.0, found / back) ** WAITED_LINES if back else 0.0


def _missing(traffic: Traffic, tensors: Iterable[Tensor]) -> float:
    """Share of what is asked of some tensors that DRAM answers."""
    asked = sum(traffic.requested.read[tensor] for tensor in tensors)
    return sum(traffic.dram.read[tensor] for tensor in tensors) / asked if asked else 0.0

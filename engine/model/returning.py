"""How long a visit takes whose rows come from memory and go back at every visit (flash1): modelled.

Nothing runs ahead of it: it waits for its rows, moves them and works on them. It waits for L2 unless all of
them are in L1, and longer where its SM is the only one at work among those that share a way to L2. Of lines
that come from DRAM it waits for the last, so that a few take it half as long as all. Of few rows each warp
waits for its own instructions, as flash2's do. Blocks on an SM are in one another's way while they work, not
while they wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import log1p

from engine.algorithms import Pipeline
from engine.model.l1 import from_l2
from engine.model.launch import Kernel, Launch
from engine.model.occupancy import spilled_words
from engine.model.rates import (
    AT_WORK,
    FEW_ROWS_ALONE,
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
from engine.model.visit import few_rows_seconds, loads, moved
from engine.schedule.step import Tensor

LINE = 128  # bytes of a cache line


def returning_visit(launch: Launch, kernel: Kernel, visit: Visit, traffic: Traffic) -> Visit:
    """A visit with the seconds in which it moves its rows and waits, and its share of a key block's."""
    phase = kernel.phase
    rate = WAITED_BYTES_PER_CLOCK * launch.gpu.clock_hz
    visits = phase.programs.all_visits / max(1, phase.programs.filled)  # of a key block
    keys = {step.tensor for step in phase.before}
    alone = min(kernel.blocks, launch.gpu.sms) in SMS_OF_ONE_ALONE
    waited = (1 - _all_in_l1(launch, traffic)) * (WAITED_TRIP + WAITED_ALONE * alone)
    rows, once = moved(launch, loads(phase)), moved(launch, phase.before)
    waited += WAITED_MEMORY * _missing(traffic, phase.loaded - keys, rows)
    at_keys = WAITED_TRIP + WAITED_MEMORY * _missing(traffic, keys, once) + once / rate
    masking = WAITED_MASK * launch.problem.mask.hides
    visit = replace(
        visit,
        softmax=visit.softmax * (1 + masking),
        copies=moved(launch, phase.each) / rate + WAITED_WORD * spilled_words(launch.schedule),
        waited=waited + at_keys / visits,
    )
    if launch.tiling.block_q >= WARP_GROUP_ROWS:
        return visit
    if launch.gpu.architecture != "Hopper" or launch.problem.dtype == "float32":
        return replace(visit, issued=visit.issued + WAITED_WARPS)
    alone = (1 + FEW_ROWS_ALONE) * few_rows_seconds(launch, copying=False, masking=masking)
    return replace(visit, tensor=0.0, softmax=alone, issued=WAITED_WARPS)


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


def _missing(traffic: Traffic, tensors: Iterable[Tensor], loaded: int) -> float:
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

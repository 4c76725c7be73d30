"""Between what the DRAM bytes of a launch lie, where the modelled number hangs on what nobody knows well.

Far from L2's edge everything is kept or everything is gone, and both ends are the modelled number. Near it
three things are varied as far as an H200's counters leave them open:

- The share of L2 at which bytes are gone. From every reading of a call near the edge follows the share with
  which the model would be right. Of the readings in three sessions, none of a call drawn by lot, nine of ten
  are within HALF. What spreads them is the counter itself: of one call of grouped heads, its inputs elsewhere
  in memory, it read up to half as much again. The room for rows that a block rewrites goes with it.
- Whether SMs stay in step. A warp-specialised kernel's tiles took 1 to 2.9% longer on one SM than on another
  in traces of an H200; over many passes of more than L2 holds, the SMs no longer meet at the same keys.
- How often keys of short heads lie in L2: as often as SMs walk over them at once, or as those that all use.

The modelled number is always within the range.
"""

from __future__ import annotations

from math import inf

from engine.model.l2 import CHUNKS, Taken, dram_bytes
from engine.model.launch import Launch
from engine.schedule.bytes import Bytes
from engine.schedule.step import Tensor

HALF = (0.9, 1.09)  # share of L2 used since, at which half of the bytes are gone
APART = (0.01, 0.03)  # by which SMs of a warp-specialised kernel differ
FINE = 2 * CHUNKS  # chunks of a head that does not fit, among which SMs lose step
WIDE = 0.05  # share of the lower end from which on a range is worth a word: two readings differ by as much


def dram_range(launch: Launch, compulsory: Bytes, requested: Bytes, modelled: Bytes) -> tuple[Bytes, Bytes]:
    """The fewest and the most DRAM bytes over batch and heads that the model can say with equal right."""
    ways = [Taken(HALF[0], users=inf), Taken(HALF[1])]
    if launch.pipeline.specialised and _head_bytes(launch) > launch.gpu.l2_effective_bytes:
        ways += [Taken(half, FINE, apart) for half in HALF for apart in APART]
    found = [modelled, *(dram_bytes(launch, compulsory, requested, taken) for taken in ways)]
    return min(found, key=lambda each: each.total), max(found, key=lambda each: each.total)


def is_wide(low: Bytes, high: Bytes) -> bool:
    """Whether a range is worth a word."""
    return high.total > (1 + WIDE) * low.total


def _head_bytes(launch: Launch) -> float:
    """K and V of one head."""
    amounts, problem = launch.schedule.amounts, launch.problem
    return sum(amounts[tensor].of(0, problem.seq_kv) for tensor in (Tensor.K, Tensor.V))

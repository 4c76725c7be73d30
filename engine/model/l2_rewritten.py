"""What L2 loses of rows that one SM rewrites at every pass (flash1): modelled.

What was not used for longest leaves first: between two uses of a row come the other rows of a pass, the keys
and values of one visit, and what finds no register in it. A set of the cache in which these have no room has
none of them left when they come again; sets differ in the room that they have for equal addresses. Keys that
nobody wants again push out no rows: by an H100's counters rows of 0.46 of L2 with as many keys, 1.35 of L2
with their copies, all stay.

A line lies in the partition of its address, and in that of the SM which uses it: half of the lines twice.
DRAM answers where both are gone. Few blocks run in one GPC, so that its partition fills first: of rows of
0.38 of L2 an H200 lost one read in two hundred, on 8 SMs.
"""

from __future__ import annotations

import math

import numpy as np

from engine.model.launch import Kernel, Launch
from engine.model.occupancy import spilled_bytes
from engine.schedule.step import Operation, Tensor

ERF = np.frompyfunc(math.erf, 1, 1)
# share of L2 used since at which half of the rows are gone, and by which the room for equal addresses differs
# among sets; fitted to an H200
HALF, UNEVEN = 1.06, 0.123
# blocks that one GPC, and so one partition, has more than another: nine go to one of an H200's before the
# others get any, by the traces of which `rates` has who is alone. Of 8, 16 and 32 blocks one half of L2's
# slices is asked for 1, 0.76 and 0.63 by their counters
FIRST = 8


def rewritten(launch: Launch, kernel: Kernel, room: float) -> tuple[dict[Tensor, float], dict[Tensor, float]]:
    """Bytes that are read beyond the first time, and written likewise, where sets have room bytes in all."""
    schedule, phase, slots = launch.schedule, kernel.phase, launch.gpu.sms * kernel.resident
    stored = {step.tensor for step in phase.each if step.operation == Operation.STORE}
    row = {tensor: schedule.amounts[tensor].factor for tensor in phase.loaded | stored}
    full, rest = divmod(kernel.heads, slots)
    read = written = 0.0
    for together, times in ((slots, full), (rest, 1)):
        if together and times:
            there, home = _lost(launch, kernel, together, sum(row.values()), room)
            read, written = read + times * together * there, written + times * together * home
    return (
        {tensor: read * row[tensor] for tensor in phase.loaded},
        {tensor: written * row[tensor] for tensor in stored},
    )


def _lost(launch: Launch, kernel: Kernel, together: int, row: int, room: float) -> tuple[float, float]:
    """Rows of a head that come back and that L2 has nowhere, and that the partition at home has lost."""
    schedule, phase, parts = launch.schedule, kernel.phase, launch.gpu.l2_partitions
    keys = sum(schedule.amounts[step.tensor].of(0, launch.tiling.block_kv) for step in phase.before)
    at = np.concatenate(([0.0], np.cumsum(schedule.query_rows)))  # rows of a pass before each block
    seen = np.maximum.accumulate(phase.stop)[:-1]
    first = np.minimum(phase.first[1:], seen)
    again = at[np.minimum(phase.stop[1:], seen)] - at[first]  # [passes]
    # Q comes back as its block begins, and was used when it began; O, the other half, when it ended
    others = at[seen] - at[first] - at[1] / 2
    since = together * (row * others + keys / launch.problem.group + spilled_bytes(schedule, kernel.phase))
    sms = _shares(together, parts)  # [partitions]
    off = (np.outer(1 + (parts - 1) * sms, since / room) - HALF) / UNEVEN  # in standard deviations
    gone = (1 + ERF(off / math.sqrt(2)).astype(float)) / 2
    everywhere = gone * (1 + gone.sum(0) - gone) / parts  # [partitions of the SM, passes]
    return float(again @ (sms @ everywhere)), float(again @ gone.mean(0))


def _shares(together: int, partitions: int) -> np.ndarray:
    """[partitions] of the blocks that run at once: the first in one, the others in all alike."""
    first = min(together, FIRST) / together
    shares = np.full(partitions, (1 - first) / partitions)
    shares[0] += first
    return shares

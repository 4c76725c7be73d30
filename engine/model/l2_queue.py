"""What L2 loses of rows that one SM rewrites at every pass (flash1): modelled.

Such lines leave as if each set of the cache were a queue: what came first goes first, however often its SM
used it since. So keys and values that nobody wants again push out the rows that everybody does, once for
every time that they fill what these leave of the cache; and as each row that is fetched again pushes out the
next, all go together. By an H200's counters nothing is lost of rows that come to 0.28 of L2 with keys of as
much, one read in two hundred of rows of 0.38, and all of rows of 1.08. What all SMs use, K and V of other
kernels, is known to stay longer, and is `l2`'s.

A line lies in the partition of its address, and in that of the SM which uses it: half of the lines twice.
DRAM answers where both are gone.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from engine.model.launch import Kernel, Launch
from engine.schedule.step import Operation, Tensor

UNEVEN = 0.1  # of L2's room, by which the room for equal addresses differs among sets; fitted to an H200
KINDS = 32  # of sets that are told apart
MOST_PASSES = 256  # that are followed; of more, and of blocks of rows, one stands for those beside it


def rewritten(launch: Launch, kernel: Kernel, room: float) -> tuple[dict[Tensor, float], dict[Tensor, float]]:
    """Bytes that are read beyond the first time, and written likewise, where sets have room bytes in all."""
    schedule, phase, slots = launch.schedule, kernel.phase, launch.gpu.sms * kernel.resident
    stored = {step.tensor for step in phase.each if step.operation == Operation.STORE}
    row = {tensor: schedule.amounts[tensor].factor for tensor in phase.loaded | stored}
    passed = float(schedule.rows_passed(phase)[1:].sum())
    full, rest = divmod(kernel.heads, slots)
    read = written = 0.0
    for together, times in ((slots, full), (rest, 1)):
        if together and times:
            there, home = _lost(launch, kernel, together, sum(row.values()), room)
            read, written = read + times * together * there, written + times * together * home
    return (
        {tensor: read * passed * row[tensor] for tensor in phase.loaded},
        {tensor: written * passed * row[tensor] for tensor in stored},
    )


def _lost(launch: Launch, kernel: Kernel, together: int, row: int, room: float) -> tuple[float, float]:
    """Shares of the rows that come back which L2 has nowhere, and which the partition at home has lost."""
    schedule, phase, gpu = launch.schedule, kernel.phase, launch.gpu
    rooms = room * np.array([NormalDist(1, UNEVEN).inv_cdf((kind + 0.5) / KINDS) for kind in range(KINDS)])
    row *= together * gpu.l2_copies(1)
    keys = sum(schedule.amounts[step.tensor].of(0, launch.tiling.block_kv) for step in phase.before)
    keys *= together / launch.problem.group * gpu.l2_copies(launch.problem.group)
    at = row * np.concatenate(([0.0], np.cumsum(schedule.query_rows)))  # bytes of a pass before each block
    if at[-1] + keys * len(phase.first) < rooms[0]:
        return 0.0, 0.0
    thin = -(-len(phase.first) // MOST_PASSES)
    at = np.append(at[:-1:thin], at[-1])
    passes = zip(
        (phase.first[::thin] // thin).tolist(), (-(-phase.stop[::thin] // thin)).tolist(), strict=True
    )
    came = np.zeros((KINDS, len(at) - 1))  # of each block, what had come into L2 before it
    total, seen = np.zeros(KINDS), 0
    again = there = home = 0.0
    for first, stop in passes:
        total += thin * keys
        if first < (back := min(seen, stop)):
            lost = total - came[:, first] >= rooms
            passed = at[back] - at[first]
            filled = thin * keys / np.maximum(rooms - passed, keys)  # how often keys fill what rows leave
            share = float((lost * np.clip(filled, 1, thin)).mean()) / thin
            again, home = again + passed, home + passed * share
            there += passed * share * (1 + (gpu.l2_partitions - 1) * share) / gpu.l2_partitions
            came[lost, first:back] = total[lost, None] + at[first:back] - at[first]
            total += lost * passed
        if seen < stop:
            seen = max(first, seen)
            came[:, seen:stop] = total[:, None] + at[seen:stop] - at[seen]
            total, seen = total + at[stop] - at[seen], stop
    return (there / again, home / again) if again else (0.0, 0.0)

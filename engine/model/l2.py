"""Which tile requests reach DRAM: modelled, from the order in which the SMs take a kernel's blocks.

L2 throws out first what was not used for longest, so bytes that were used before are still there unless L2
was filled since. What fills it is counted between two uses of the same bytes (`engine.model.reuse`): bytes
that all SMs use, K and V, lie in both of L2's partitions, what one SM uses alone in 1.5 of them, see
`Gpu.l2_copies`. Addresses are hashed over the cache's sets, some of which fill early and some late, so the
chance that bytes are gone rises from 0 to 1 around one cacheful. So DRAM delivers K and V once where those
of the heads in flight fit L2, and once for every wave of blocks where they do not.

Every kernel starts with empty caches, as a profiler empties them; what lies dirty in L2 at the end counts as
written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.model.launch import Kernel, Launch
from engine.model.occupancy import put_aside, spilled_bytes
from engine.model.rates import BOUND_BY_SOFTMAX, WARP_GROUP_ROWS
from engine.model.reuse import Programs, walk
from engine.problem.cache import by_content, cached
from engine.schedule.bytes import Bytes
from engine.schedule.nest import TILE
from engine.schedule.programs import MOST_LISTED
from engine.schedule.step import Operation, Tensor

# Of bytes since whose last use a share s of L2 was used, 1 / (1 + exp((1 - s) / UNEVEN)) are gone, as its
# sets fill unevenly. A walk over buffers around L2's size measures it, alike on an H200 and an H100. At the
# share NEVER_GONE that is one in a thousand; below it none is.
UNEVEN, NEVER_GONE = 0.07, 0.5
REWRITTEN = 1.06  # of L2, at which half of the rows are gone that a block rewrites at every pass; by the same
# How far SMs drift apart: the slowest eighth of them takes so much longer for a tile than the fastest, a
# share; 0.4 to 2.4% by timestamps in the kernels on an H200.
APART = 0.015
# Of what is missing to even distances, what blocks that share an SM make up in a turn where softmax's
# instructions bind: the oldest block's warps are served first, so that blocks spread over their keys. By
# timestamps 0.4 to 0.5.
SPREADING = 0.5
ROWS_SHARE = 0.5  # of a tile's time in a warp-specialised kernel, what goes with its rows, by timestamps
# Within what the modelled bytes are sure: those of an L2 that is so much larger or smaller, and how far two
# readings of the counter differ.
SURE_OF_L2, SURE_OF_COUNTER = 0.15, 0.03
SIZES = np.array([1, 1 + SURE_OF_L2, 1 - SURE_OF_L2])  # of L2, for the modelled bytes, the fewest, the most
NONE = np.zeros(len(SIZES))
CHUNKS = 64  # that a head's K and V are cut into at most: programs in the same one are taken to be together
MOST_WAVES = 24  # over whole heads are followed; those after them are taken to go on alike


@dataclass(frozen=True)
class Refetched:
    """Bytes that one kernel moves across HBM beyond the first time, over batch and heads."""

    # read, written: by tensor, [sizes of L2]; tensors that move once alone are left out
    read: Mapping[Tensor, np.ndarray]
    written: Mapping[Tensor, np.ndarray]
    registers: int = 0  # at most, of those that threads put aside and read again


@dataclass(frozen=True)
class DramRange:
    """Between what the DRAM bytes of a launch lie, over batch and heads: (fewest, most).

    It holds more than 95% of the recorded reads. Here K and V of a head, 17 MB, and those of the next nearly
    fill what L2 keeps of them; read are 101 to 150 MB, of which 101 are compulsory.

    >>> from engine import Experiment, simulate
    >>> one = Experiment.of(algorithm="flash3", seq=65_536, heads=4, head_dim=64, hardware="h200")
    >>> [round(end / 1e6) for end in simulate(one.in_own_tiling()).traffic.dram_range.read]
    [101, 150]
    """

    read: tuple[int, int]
    written: tuple[int, int]

    @property
    def total(self) -> tuple[int, int]:
        """Read and written together."""
        return self.read[0] + self.written[0], self.read[1] + self.written[1]

    @property
    def is_wide(self) -> bool:
        """Whether the model is less sure of them than a counter is, which makes twice SURE_OF_COUNTER."""
        low, high = self.total
        return high > (1 + 3 * SURE_OF_COUNTER) * low


def gone(share, half: float = 1.0) -> np.ndarray:
    """[sizes of L2, uses] chance that bytes are no longer in L2 after such a share of it was used since."""
    share = np.asarray(share, float) / (half * SIZES[:, None])
    return np.where(share < NEVER_GONE, 0.0, 1 / (1 + np.exp((1 - share) / UNEVEN)))


def dram_bytes(kernels: Sequence[Refetched], compulsory: Bytes, requested: Bytes) -> tuple[Bytes, DramRange]:
    """The modelled DRAM bytes by tensor, from compulsory to requested, and between what they lie."""
    modelled, ends = [], []
    for way in ("read", "written"):
        again, most = [getattr(kernel, way) for kernel in kernels], getattr(requested, way)
        moved = {
            tensor: np.minimum(once + sum(each.get(tensor, NONE) for each in again), most[tensor])
            for tensor, once in getattr(compulsory, way).items()
            if most[tensor]
        }
        modelled.append({tensor: round(by_size[0]) for tensor, by_size in moved.items()})
        _, few, many = sum(moved.values())
        registers = sum(kernel.registers for kernel in kernels)
        ends.append((round((1 - SURE_OF_COUNTER) * few), round((1 + SURE_OF_COUNTER) * many) + registers))
    return Bytes.of(*modelled), DramRange(*ends)


def refetched(launch: Launch, kernel: Kernel) -> Refetched:
    """What one kernel, the caches empty before it, moves across HBM more than once."""
    schedule, phase = launch.schedule, kernel.phase
    if phase.rewritten:
        return _rewritten(launch, kernel)
    by_query = phase.outer == "query"  # what the inner loop walks over, as other outer blocks do too
    walked = {
        tensor
        for tensor in phase.loaded
        if (schedule.amounts[tensor].by_query, schedule.amounts[tensor].by_key) == (not by_query, by_query)
    }
    if not walked:
        return Refetched({}, {})
    way = _walk(launch, kernel, walked)
    again, row = _walked_again(launch, kernel, way), {each: schedule.amounts[each].factor for each in walked}
    read = {tensor: again * factor / sum(row.values()) for tensor, factor in row.items()}
    return Refetched(read, {}, kernel.blocks * put_aside(launch.algorithm, schedule, phase))


# Rows that come from memory and go back at every pass.


def _rewritten(launch: Launch, kernel: Kernel) -> Refetched:
    """Of rows that a block reads and writes at every pass over them (flash1).

    Between two uses of a row come the other rows of its pass and the next keys, of all heads in flight.
    """
    schedule, phase, gpu = launch.schedule, kernel.phase, launch.gpu
    stored = {step.tensor for step in phase.each if step.operation == Operation.STORE}
    row = {tensor: schedule.amounts[tensor].factor for tensor in phase.loaded | stored}
    keys = sum(schedule.amounts[step.tensor].of(0, launch.tiling.block_kv) for step in phase.before)
    ends = np.concatenate(([0], np.cumsum(schedule.query_rows)))  # rows of a pass before each block
    seen = np.maximum.accumulate(phase.stop)[:-1]
    first = np.minimum(phase.first[1:], seen)
    again = ends[np.minimum(phase.stop[1:], seen)] - ends[first]  # [passes] rows that come back
    since = sum(row.values()) * (ends[seen] - ends[first]) + keys / launch.problem.group
    since = since + spilled_bytes(launch.algorithm, schedule, phase)
    full, rest = divmod(kernel.heads, gpu.sms * kernel.resident)
    lost = NONE
    for heads, times in ((gpu.sms * kernel.resident, full), (rest, 1)):
        share = gpu.l2_copies(1) / gpu.l2_bytes * heads * since
        lost = lost + times * heads * gone(share, REWRITTEN) @ again
    return Refetched(
        {tensor: lost * row[tensor] for tensor in phase.loaded},
        {tensor: lost * row[tensor] for tensor in stored},
    )


# K and V, which the tiles of a head walk over one after another and at the same time.


@dataclass(frozen=True)
class _Walk:
    """A kernel's programs in launch order, as far as they can be reached."""

    programs: Programs
    # abreast, places: programs that run at once: so many on so many places of an SM
    abreast: int
    places: int
    sizes: np.ndarray  # [chunks] of a head's walked tensors, shares of what fills L2
    room: float  # bytes of them that fill L2: the fewer, the more SMs walk over the same at once


def _walked_again(launch: Launch, kernel: Kernel, way: _Walk) -> np.ndarray:
    """[sizes of L2] bytes of the walked tensors that are fetched beyond the first time."""
    programs, count = way.programs, kernel.heads * kernel.phase.programs.count
    slots = min(way.abreast * way.places, count)
    between = max(slots, kernel.together)  # programs, at most, from one to the next of its stream
    streams = _different(programs.stream[:between]) + 1  # those of a wave, wherever it begins
    own = programs.around + programs.visit * len(way.sizes)
    if (streams * way.sizes.sum() + between * own) / SIZES.min() < NEVER_GONE:
        return NONE
    specialised = launch.algorithm.pipeline.specialised  # whichever technique is off
    spreading = SPREADING if launch.problem.head_dim <= BOUND_BY_SOFTMAX and not specialised else 0.0
    lost, walked = _lost(programs, way.sizes, way.abreast, way.places, MOST_WAVES, APART, spreading)
    waves = -(-count // slots)  # the last walks over as much as a full one
    beyond = 1.0 if walked >= count else (waves - 1) / max(1.0, walked / slots - 1)
    return beyond * way.room * lost


# more heads or a larger batch often change nothing in the waves that are followed
@cached(most=4096, most_bytes=2**24, key=by_content)
def _lost(
    programs: Programs,
    sizes: np.ndarray,
    abreast: int,
    places: int,
    waves: int,
    apart: float,
    spreading: float,
) -> tuple[np.ndarray, float]:
    """[sizes of L2] of the chunks, what is fetched again in so many waves, and the programs of those."""
    most, least = waves * len(sizes), NEVER_GONE * SIZES.min()
    reuse = walk(programs, sizes, abreast, places, most, apart, spreading, least=least)
    return gone(reuse.since) @ reuse.size, reuse.walked


def _walk(launch: Launch, kernel: Kernel, walked: set[Tensor]) -> _Walk:
    """A kernel's programs as they walk over some tensors; a chunk is whole inner blocks."""
    gpu, schedule, phase = launch.gpu, launch.schedule, kernel.phase
    problem, tiling = schedule.problem, schedule.tiling
    by_query = phase.outer == "query"
    rows, block = (tiling.block_q, tiling.block_kv)[:: 1 if by_query else -1]
    length = problem.seq_kv if by_query else problem.seq_q
    blocks = -(-length // block)  # of the inner loop
    abreast, places = gpu.sms, kernel.resident
    if phase.launched == TILE:
        abreast, places = max(1, abreast * places // blocks), 1
    together = -(-blocks // CHUNKS)  # inner blocks to a chunk
    starts = np.arange(0, length, together * block)
    row = sum(schedule.amounts[tensor].factor for tensor in walked)
    sizes = np.minimum(together * block, length - starts) * row
    grid = replace(kernel, count=phase.programs.count)
    head, outer = grid.launched(launch.order, 0, _reached(grid, together, abreast * places, len(sizes)))
    first, stop = phase.programs.at(outer)
    group = 1 if phase.shared or not by_query else problem.group
    around = {step.tensor for step in phase.before + phase.after} - {Tensor.NONE}
    visit = {step.tensor for step in phase.each} - walked - around - {Tensor.NONE}

    def moved(tensors: set[Tensor]) -> float:
        tile = (rows, together * block)[:: 1 if by_query else -1]
        return sum(schedule.amounts[tensor].of(*tile) for tensor in tensors)

    stream, share = head // group, gpu.l2_copies(1) / gpu.l2_bytes
    running = stream[: abreast * places]
    room = gpu.l2_bytes / gpu.l2_copies(len(running) / _different(running))
    programs = Programs(
        stream=stream,
        first=first // together,
        stop=-(-stop // together),
        reverse=phase.reverse,
        around=share * moved(around),
        visit=share * moved(visit),
        pace=_pace(launch, outer) if by_query else np.ones(len(outer)),
    )
    return _Walk(programs, abreast, places, sizes / room, room)


def _different(stream: np.ndarray) -> int:
    """How many; np.unique takes ten times as long."""
    return int(np.count_nonzero(np.bincount(stream)))


def _pace(launch: Launch, outer: np.ndarray) -> np.ndarray:
    """[programs] chunks of a step: 1 of the fastest, which have rows for the fewest warp groups."""
    seconds = tile_share(launch, outer)
    return seconds.min() / seconds


def tile_share(launch: Launch, outer: np.ndarray) -> np.ndarray:
    """[query blocks] of the time of one that is full, of those with such indices.

    The last tile of a head may have rows for some of its warp groups alone. It ends early, and the next head
    begins out of step on that SM.
    """
    if not launch.pipeline.specialised:
        return np.ones(len(outer))
    rows = launch.tiling.block_q
    groups = -(-np.minimum(launch.problem.seq_q - outer * rows, rows) // WARP_GROUP_ROWS)
    return 1 - ROWS_SHARE * np.maximum(1 - groups * WARP_GROUP_ROWS / rows, 0.0)


def _reached(grid: Kernel, together: int, slots: int, chunks: int) -> int:
    """Programs that can begin while waves are followed; each takes at most one chunk per step."""
    most = min(grid.blocks, slots * (1 + MOST_WAVES * chunks))
    if grid.count > MOST_LISTED:
        return most
    first, stop = grid.phase.programs.listed
    # those that run have at most a head's chunks to go; of heads that are launched together
    every = grid.together * int(np.maximum(-(-stop // together) - first // together, 1).sum())
    return min(most, (1 + slots * (MOST_WAVES + 1) * chunks // every) * grid.together * grid.count)

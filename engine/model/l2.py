"""Which tile requests reach DRAM: modelled, from the order in which the SMs take a schedule's programs.

Bytes that were used before are still in L2 unless too much was used since: the one that was not used for
longest leaves first. What is used since is counted in shares of the cache. What all SMs use, K and V, lies in
both of its halves and counts against `Gpu.l2_effective_bytes`; what one SM uses alone, Q, O and registers put
aside, lies in 1.5 of them, `Gpu.l2_copies`, and counts against `Gpu.l2_bytes`. So do K and V of a short head,
whose tiles run one after another where the heaviest of many heads go first. The cache is hashed: the
chance that bytes are gone rises around GONE. In a cache just filled it rises steeply. What is used once and
never again fills the sets unevenly, so that it rises the more gradually, the more has passed: all that has,
up to about a cacheful, and what has since the bytes were first used. An H100's counters saw that of all SMs
that walk over the same bytes with bytes of their own beside, and of calls with once, twice and four times as
many queries over the same keys. What lies dirty in L2 at the end counts as written. Rows that a block
rewrites at every pass are `l2_rewritten`'s.

Where query heads share keys, all SMs go over from one key head to the next in a wave in which L2 holds both:
a call is followed past as many such waves as it has. That heads share keys makes no difference but that.

Every kernel starts with empty caches: a profiler empties them, and so its counters can be held against this.
What a kernel finds of the one before it, where that was little, comes on top in a run without a profiler.

The last tile of a head may have rows for some of its warp groups alone: it ends early, and the next head
begins out of step on that SM. Blocks of one SM spread over their keys where softmax binds; where products
bind they stay in step, as SMs do but for 3 to 9% of a pass after fifteen, those of a warp-specialised kernel
but for 34%.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.model.l2_rewritten import rewritten
from engine.model.launch import Kernel, Launch
from engine.model.occupancy import put_aside
from engine.model.rates import BOUND_BY_SOFTMAX, WARP_GROUP_ROWS
from engine.model.reuse import Programs, Reuse, walk
from engine.problem.hardware import Gpu
from engine.schedule.bytes import Bytes
from engine.schedule.nest import TILE, Phase
from engine.schedule.programs import MOST_LISTED
from engine.schedule.schedule import Schedule
from engine.schedule.step import Tensor

GONE = 1.0  # share of L2 used since, at which half of the bytes are gone: all of it
# of that share, in which the odds change by a factor e: in a cache just filled; more by what has been used
# beyond L2's size, at most; and by what has been used since the same bytes' first use, at most. Fitted to an
# H200's counters and to 21 calls on an H100
FRESH, STREAMED, MOST_STREAMED, PASSED, MOST_PASSED = 0.04, 0.08, 0.03, 0.02, 0.04
NEVER_GONE = 0.5  # share below which all is still there; at it about one byte in a hundred is gone at most
CHUNKS = 64  # that a head's K and V are cut into at most: programs in the same one are taken to be together
MOST_WAVES = 24  # over whole heads are followed; those after them are taken to go on alike
# by which the slowest SM is slower than the fastest, and where the kernel is warp-specialised: by traces of
# long calls on an H200 0.4 to 1.3%, and 1.3 to 2.4%
APART, APART_SPECIALISED = 0.01, 0.02
# of what is missing to even distances, what blocks on an SM make up in a turn where softmax's instructions
# bind, up to such a head dim: the oldest's go first. By traces 0.4 to 0.5 at d 64, 0 at 80; set on counters.
SPREADING = 0.6
# of a flash3 tile's time, by head dim and rows, what goes with its rows: the last of a head, of 1 warp group
# of 3 and of 2 of 3, of 1 of 2, ends so much sooner on an H200 and lets the next head begin out of step
ROWS_SHARE = {(64, 192): 0.61, (128, 128): 0.37, (256, 128): 0.5}


@dataclass(frozen=True)
class Taken:
    """What is taken of L2 and of the SMs.

    Attributes:
        half: share of L2 used since, at which half of the bytes are gone.
        chunks: that a head's K and V are cut into at most.
        apart: by how much the slowest SM of a warp-specialised kernel is slower than the fastest, a share.
        users: SMs that walk over the same at once; None: as many as the programs that run.
    """

    half: float = GONE
    chunks: int = CHUNKS
    apart: float = APART_SPECIALISED
    users: float | None = None


USUAL = Taken()  # for the modelled bytes


def gone(share, softness=FRESH, half: float = GONE):
    """The chance that bytes are no longer in L2 when such a share of it was used since; 0.5 at half."""
    share = np.asarray(share, float)
    return np.where(share < NEVER_GONE, 0.0, 1 / (1 + np.exp((half - share) / softness)))


def softness(reuse: Reuse) -> np.ndarray:
    """[uses] of that share, in which the odds change by a factor e."""
    streamed = np.clip(STREAMED * (reuse.so_far - 1), 0.0, MOST_STREAMED)
    return FRESH + streamed + np.minimum(PASSED * reuse.passed, MOST_PASSED)


def kept_bytes(gpu: Gpu) -> float:
    """Bytes that all SMs use of which half are still in L2 when as many others were used since."""
    return GONE * gpu.l2_effective_bytes


def dram_bytes(launch: Launch, compulsory: Bytes, requested: Bytes, taken: Taken = USUAL) -> Bytes:
    """Modelled DRAM bytes over batch and heads, by tensor: from compulsory to requested."""
    read, written = dict(compulsory.read), dict(compulsory.written)
    for kernel in launch.kernels:
        again, rewritten = fetched_again(launch, kernel, taken)
        for amounts, more in ((read, again), (written, rewritten)):
            for tensor, amount in more.items():
                amounts[tensor] += round(amount)
    return Bytes.of(
        {tensor: min(amount, requested.read[tensor]) for tensor, amount in read.items()},
        {tensor: min(amount, requested.written[tensor]) for tensor, amount in written.items()},
    )


def fetched_again(
    launch: Launch, kernel: Kernel, taken: Taken = USUAL
) -> tuple[dict[Tensor, float], dict[Tensor, float]]:
    """Bytes that one kernel, the caches empty before it, reads beyond the first time, and writes likewise."""
    schedule, phase = launch.schedule, kernel.phase
    if phase.rewritten:
        return rewritten(launch, kernel, taken.half / GONE * launch.gpu.l2_bytes)
    walked = {tensor for tensor in phase.loaded if _is_walked(schedule, phase, tensor)}
    if not walked:
        return {}, {}
    again = _walked_again(launch, kernel, walked, taken)
    row = {tensor: schedule.amounts[tensor].factor for tensor in walked}
    return {tensor: again * row[tensor] / sum(row.values()) for tensor in walked}, {}


def _is_walked(schedule: Schedule, phase: Phase, tensor: Tensor) -> bool:
    """Whether the inner loop walks over a tensor that other outer blocks walk over too."""
    amount = schedule.amounts[tensor]
    by_inner, by_outer = (amount.by_key, amount.by_query)[:: 1 if phase.outer == "query" else -1]
    return by_inner and not by_outer


@dataclass(frozen=True)
class _Walk:
    """A kernel's programs in launch order, as far as they can be reached.

    Attributes:
        abreast, places: programs that run at once: so many on so many places of an SM.
        sizes: [chunks] of a head's walked tensors, shares of what fills L2.
        room: bytes of them that fill L2: the fewer, the more SMs walk over the same at once.
    """

    programs: Programs
    abreast: int
    places: int
    sizes: np.ndarray
    room: float


def _walked_again(launch: Launch, kernel: Kernel, walked: set[Tensor], taken: Taken) -> float:
    """Bytes of the walked tensors that are fetched beyond the first time."""
    way = _walk(launch, kernel, walked, taken)
    programs, count = way.programs, kernel.heads * kernel.phase.programs.count
    slots = min(way.abreast * way.places, count)
    between = max(slots, kernel.together)  # programs, at most, from one to the next of its stream
    streams = len(np.unique(programs.stream[:between])) + 1  # those of a wave, wherever it begins
    own = programs.around + programs.visit * len(way.sizes)
    if streams * way.sizes.sum() + between * own < NEVER_GONE:
        return 0.0
    most_steps = MOST_WAVES * len(way.sizes)
    specialised = launch.algorithm.pipeline.specialised  # whichever technique is off
    spreading = SPREADING if launch.problem.head_dim <= BOUND_BY_SOFTMAX and not specialised else 0.0
    apart = taken.apart if specialised else APART
    reuse = walk(programs, way.sizes, way.abreast, way.places, most_steps, apart, spreading)
    waves = -(-count // slots)  # the last walks over as much as a full one
    beyond = 1.0 if reuse.walked >= count else (waves - 1) / max(1.0, reuse.walked / slots - 1)
    lost = reuse.size * gone(reuse.since, softness(reuse), taken.half)
    return beyond * float(lost.sum()) * way.room


def put_aside_again(launch: Launch) -> float:
    """Bytes from DRAM of registers put aside, which the keys that passed since have pushed out of L2."""
    lost = 0.0
    for kernel in launch.kernels:
        aside, phase = put_aside(launch.pipeline, launch.schedule, kernel.phase), kernel.phase
        walked = {tensor for tensor in phase.loaded if _is_walked(launch.schedule, phase, tensor)}
        if aside and walked:
            way = _walk(launch, kernel, walked, USUAL)
            running = slice(min(way.abreast * way.places, len(way.programs.stream)))
            streams = len(np.unique(way.programs.stream[running]))
            passes = (way.programs.stop - way.programs.first) * way.sizes.mean() * streams
            passes = passes + way.abreast * way.places * way.programs.around
            lost += kernel.blocks * aside * float(gone(passes).mean())
    return lost


def _walk(launch: Launch, kernel: Kernel, walked: set[Tensor], taken: Taken) -> _Walk:
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
    together = -(-blocks // taken.chunks)  # inner blocks to a chunk
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
    room = gpu.l2_bytes / gpu.l2_copies(taken.users or len(running) / len(np.unique(running)))
    programs = Programs(
        stream=stream,
        first=first // together,
        stop=-(-stop // together),
        reverse=phase.reverse,
        around=share * (moved(around) + put_aside(launch.pipeline, schedule, phase)),
        visit=share * moved(visit),
        pace=_pace(launch, outer) if by_query else np.ones(len(outer)),
    )
    return _Walk(programs, abreast, places, sizes / room, room)


def _pace(launch: Launch, outer: np.ndarray) -> np.ndarray:
    """[programs] chunks of a step: 1 of the fastest, which have rows for the fewest warp groups."""
    seconds = tile_share(launch, outer)
    return seconds.min() / seconds


def tile_share(launch: Launch, outer: np.ndarray) -> np.ndarray:
    """[query blocks] of the time of one that is full, of those with such indices."""
    rows = launch.tiling.block_q
    groups = -(-np.minimum(launch.problem.seq_q - outer * rows, rows) // WARP_GROUP_ROWS)
    share = ROWS_SHARE.get((launch.problem.head_dim, rows), 0.0) if launch.pipeline.specialised else 0.0
    return 1 - share * np.maximum(1 - groups * WARP_GROUP_ROWS / rows, 0.0)


def _reached(grid: Kernel, together: int, slots: int, chunks: int) -> int:
    """Programs that can begin while waves are followed; each takes at most one chunk per step."""
    most = min(grid.blocks, slots * (1 + MOST_WAVES * chunks))
    if grid.count > MOST_LISTED:
        return most
    first, stop = grid.phase.programs.listed
    # those that run have at most a head's chunks to go; of heads that are launched together
    every = grid.together * int(np.maximum(-(-stop // together) - first // together, 1).sum())
    return min(most, (1 + slots * (MOST_WAVES + 1) * chunks // every) * grid.together * grid.count)

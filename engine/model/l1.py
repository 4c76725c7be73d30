"""What the SMs read from L2: modelled. Tiles request bytes; L1 answers some, and L2 gives whole sectors.

L1 has what shared memory leaves of an SM's memory. What runs ahead (cp.async of 16 bytes, TMA) passes it by;
rows that flash1 walks over at every pass, queries that neighbouring tiles of unfused attention share, and
sectors at the edges of ragged rows may be found in it. Its replacement is close to random: once it is full,
bytes last through E bytes read since with the chance exp(-E / C), C being KEPT of its room. Where the walk is
about as long as C, one and the same call has read 7.4 MB in one session and 8.3 in another.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from engine.model.launch import Kernel, Launch
from engine.model.occupancy import (
    NARROW,
    RESERVED,
    WARP,
    is_online,
    put_aside,
    set_aside,
    spilled_bytes,
    threads_of,
)
from engine.model.rates import WARP_GROUP_ROWS
from engine.model.traffic import requested_bytes
from engine.model.unfused_rows import number_by_number
from engine.problem.gpu import KIB
from engine.schedule.bytes import Bytes
from engine.schedule.nest import ROWS, TILE
from engine.schedule.step import Tensor

SECTOR = 32  # bytes, the least that L2 gives: CUDA C++ Best Practices Guide
# Shared memory of a block beyond which a launch must ask for it (CUDA C++ Programming Guide), and Triton then
# asks for all; and of an SM, up to which the driver makes room for twice as many blocks of four warps, by
# flash1's hits in L1.
ALL_FROM, ROOMY = 48 * KIB, 132 * KIB
# Of L1, what holds bytes that are walked over again; and of bytes that are read once, what they displace of
# those. A walk over rows around L1's size measures both.
KEPT, PASSING = 0.78, 0.2
STRAY = 0.4  # of a turn of all SMs, by which the next tile of an SM of unfused attention is off it
PASSES = 64  # over a head's rows that are followed at most, evenly spread over all of them
STATIONS = 16  # of a pass over as many bytes as L1 has
FORGOTTEN = 8  # times L1's bytes after which nothing is left


@lru_cache(maxsize=8)  # the modelled time asks for it too
def from_l2(launch: Launch) -> int:
    """Bytes that all SMs together read from L2; over batch and heads."""
    return round(sum(_of_kernel(launch, kernel) for kernel in launch.kernels))


def requested_by_warps(launch: Launch, requested: Bytes) -> int:
    """Bytes that warps and TMA request, over batch and heads: each that holds a row requests its m and l.

    One warp does; where products have fewer than 64 rows, all of them. So it is in compiled code of flash1,
    the one kernel that reads m and l.
    """
    shared = any(kernel.phase.rewritten for kernel in launch.kernels)
    shared = shared and launch.tiling.block_q < WARP_GROUP_ROWS
    more = shared * (NARROW // WARP - 1) * requested.read[Tensor.STATISTICS]
    return requested.total_read + more + _filled(launch, requested)


def _of_kernel(launch: Launch, kernel: Kernel) -> float:
    phase = kernel.phase
    requested = requested_bytes(replace(launch.schedule, phases=(phase,)))
    if phase.launched == TILE:
        return requested.total_read - _neighbours_share(launch, kernel) * requested.read[Tensor.Q]
    if number_by_number(launch.schedule, phase):
        return requested.total_read + _split_sectors(launch, kernel)
    if not phase.rewritten and not is_online(phase):
        return requested.total_read
    spilled = kernel.heads * launch.schedule.bounds.visible
    spilled *= spilled_bytes(launch.algorithm, launch.schedule, phase)
    spilled += kernel.blocks * put_aside(launch.algorithm, launch.schedule, phase)
    spilled += _filled(launch, requested)
    return requested.total_read + spilled - (_walked_hits(launch, kernel) if phase.rewritten else 0)


def _filled(launch: Launch, requested: Bytes) -> int:
    """Bytes of columns behind the last, 0 as TMA fills them: a chip counts whole boxes."""
    wide = launch.algorithm.box_columns(launch.problem).items()
    return round(sum((columns - 1) * requested.read[tensor] for tensor, columns in wide))


def l1_bytes(launch: Launch, kernel: Kernel) -> int:
    """L1 of an SM beside the shared memory that the driver sets aside for a kernel."""
    gpu, phase = launch.gpu, kernel.phase
    each = set_aside(launch.algorithm, launch.schedule, phase, gpu) + RESERVED
    if each > ALL_FROM + RESERVED:
        return gpu.l1_bytes(gpu.shared_bytes_sm)
    needed = kernel.resident * each
    narrow = threads_of(launch.schedule, phase) == NARROW
    return gpu.l1_bytes(max(needed, min(ROOMY, (1 + narrow) * needed)))


def _walked_hits(launch: Launch, kernel: Kernel) -> float:
    """Bytes of rows that come back for every key block, and are still in L1."""
    sms = launch.gpu.sms
    last = kernel.heads % (sms * kernel.resident)  # heads of the last round, of which fewer share an SM
    fewer = max(1, last // sms)
    fuller = (fewer + 1) * (last - fewer * sms) if last > sms else 0  # heads on SMs with one more
    shares = ((kernel.heads - last, kernel.resident), (last - fuller, fewer), (fuller, fewer + 1))
    return sum(heads * _head_hits(launch, kernel, together) for heads, together in shares if heads)


def _head_hits(launch: Launch, kernel: Kernel, together: int) -> float:
    """The same of one head, where so many share the SM's L1."""
    phase, tiling, amounts = kernel.phase, launch.tiling, launch.schedule.amounts
    kept = KEPT * l1_bytes(launch, kernel) / together
    requested = sum(amounts[tensor].factor for tensor in phase.loaded)
    spilled = spilled_bytes(launch.algorithm, launch.schedule, phase)
    row = requested + spilled / tiling.block_q  # both pass L1
    phase_keys = (Tensor.K,) if launch.problem.latent else (Tensor.K, Tensor.V)
    passing = PASSING * sum(amounts[tensor].of(0, tiling.block_kv) for tensor in phase_keys)
    block = max(tiling.block_q, math.ceil(kept / STATIONS / row))  # rows of a station
    low = phase.first * tiling.block_q
    high = np.minimum(phase.stop * tiling.block_q, launch.problem.seq_q)
    near = ((low < high) & (high - low < FORGOTTEN * kept / row)).nonzero()[0]
    every = max(1, -(-len(near) // PASSES))
    passes = zip(low[near[::every]].tolist(), high[near[::every]].tolist(), strict=True)
    return requested / row * every * sum(_followed(passes, block, row, kept, passing))


def _followed(
    passes: Iterable[tuple[int, int]], block: int, row: int, kept: float, passing: float
) -> list[float]:
    """Bytes of each pass that are found in L1; a pass goes over the rows from one to another."""
    read, last, found = 0.0, {}, []
    for low, high in passes:
        read, hit = read + passing, 0.0
        edges = sorted({low, high, *range(-(-low // block) * block, high, block)})
        for start, stop in pairwise(edges):
            bytes_, station = (stop - start) * row, start // block
            there = math.exp((last[station] - max(0.0, read - kept)) / kept) if station in last else 0.0
            hit += there * bytes_
            read += (1 - there) * bytes_
            last[station] = max(0.0, read - kept)
        found.append(hit)
    return found


def _neighbours_share(launch: Launch, kernel: Kernel) -> float:
    """The share of reads of Q that find it in L1: the tile before on the same SM had the same rows.

    Tiles go to the SMs in turn, and stray from it as SMs finish early and late. Of a row of `across` tiles
    those that come a turn or more after the row's first have a neighbour in it, of which the next K displaces
    a part.
    """
    across, sms = launch.schedule.grid[1], launch.gpu.sms
    turn = NormalDist(sms, STRAY * sms)
    behind = (across - sms) * turn.cdf(across) + turn.variance * turn.pdf(across)
    keys = launch.schedule.amounts[Tensor.K].of(0, launch.tiling.block_kv)
    return math.exp(-keys / (KEPT * l1_bytes(launch, kernel))) * behind / across


def _split_sectors(launch: Launch, kernel: Kernel) -> float:
    """Bytes of sectors beyond those requested, where rows of S or P begin within one: again at every edge.

    Blocks of whole rows read a run of them in one go. By key blocks a sector that two share comes twice,
    unless it is still in L1, through which the lines of a block's rows and V pass meanwhile.
    """
    problem, tiling, phase = launch.problem, launch.tiling, kernel.phase
    row = problem.seq_kv * problem.itemsize
    if phase.launched == ROWS:
        return kernel.heads * problem.seq_q / phase.rows * _beyond(row * phase.rows)
    aligned = SECTOR // math.gcd(row, SECTOR)  # one row of so many begins at a sector's start
    edges = (launch.schedule.grid[1] - 1) * (1 - 1 / aligned)
    width = tiling.block_kv * problem.itemsize
    lines = tiling.block_q * 2 * width + launch.schedule.amounts[Tensor.V].of(0, tiling.block_kv)
    sharing = min(kernel.resident, -(-kernel.blocks // launch.gpu.sms))  # an SM, where there are as many
    filled = sharing * lines / (KEPT * l1_bytes(launch, kernel))
    lasts = 1.0 if filled < 1 else math.exp(-filled)
    return kernel.heads * problem.seq_q * (edges * SECTOR * (1 - lasts) + _beyond(row))


def _beyond(length: int) -> float:
    """Bytes of sectors beyond a run of so many, on average over where runs one after another begin."""
    step = math.gcd(length, SECTOR)
    starts = range(0, SECTOR, step)
    return sum(-(-(start + length) // SECTOR) * SECTOR - length for start in starts) / len(starts)

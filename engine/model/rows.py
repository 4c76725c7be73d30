"""How the kernels of unfused attention hold rows of S and P: threads, pieces and registers.

Rows whose length is no multiple of ALIGNED_KEYS move number by number, for Triton knows no better alignment:
each takes instructions of its own, and no copy of one runs ahead. A thread of the kernel of O fetches eight
numbers of P that lie side by side where P's tile has the shape of O's, else one. Registers are those of
compiled kernels, sm_90.
"""

from __future__ import annotations

from math import log2

from engine.schedule.nest import ROWS, TILE, Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import Tensor

ALIGNED_KEYS = 16
SOFTMAX_NUMBERS = 1024  # of a row for each of its warps, of which there are FEWEST_WARPS to MOST_WARPS
FEWEST_WARPS, MOST_WARPS = 4, 32
WARP_NUMBERS = 2048  # that the registers of one of so many warps hold, 64 of a thread
NARROW_COLUMNS = 64  # of a head; more take registers of their own
# registers of a thread: of the softmax, by number of its rows, whole vectors or number by number, and more at
# every doubling of a block's warps, or of its rows where these are vectors
ROW_REGISTERS, NUMBER_REGISTERS, APART_REGISTERS, DOUBLED_REGISTERS = 16, 1, 2.5, 8
TILE_REGISTERS, WIDE_TILE_REGISTERS = 32, 48  # beside a tile of S
OUTPUT_REGISTERS = 48  # beside O, and by number of P that is on its way: with an address, or eight of one
SCATTERED_REGISTERS, ADJACENT_REGISTERS = 3, 0.5


def has_rows(phase: Phase) -> bool:
    """Whether a kernel has rows of S or P in memory: one of unfused attention."""
    return any(step.tensor in (Tensor.S, Tensor.P) for step in phase.before + phase.each + phase.after)


def is_softmax(phase: Phase) -> bool:
    """Whether a kernel takes whole rows of S; that which combines splits of the keys has none."""
    return phase.launched == ROWS and has_rows(phase)


def number_by_number(schedule: Schedule, phase: Phase) -> bool:
    """Whether a kernel's rows of S or P move so."""
    return has_rows(phase) and schedule.problem.seq_kv % ALIGNED_KEYS > 0


def waits_for_rows(schedule: Schedule, phase: Phase) -> bool:
    """Whether a kernel's visits wait for rows that no copy fetches ahead."""
    return number_by_number(schedule, phase) and Tensor.P in phase.loaded


def adjacent(schedule: Schedule, columns: int) -> bool:
    """Whether a thread fetches numbers of P that lie side by side."""
    return schedule.tiling.block_kv == columns


def padded_row(schedule: Schedule) -> int:
    """Numbers of a row in the softmax: a power of two."""
    return 1 << (schedule.problem.seq_kv - 1).bit_length()


def softmax_warps(schedule: Schedule) -> int:
    """Warps of a block of the softmax."""
    return min(MOST_WARPS, max(FEWEST_WARPS, padded_row(schedule) // SOFTMAX_NUMBERS))


def rows_spill(schedule: Schedule) -> bool:
    """Whether the numbers of a row alone fill the registers of as many threads as a block can have."""
    return padded_row(schedule) >= MOST_WARPS * WARP_NUMBERS


def working_registers(schedule: Schedule, phase: Phase, threads: int, columns: int) -> float:
    """Registers of a thread of one of these kernels beside its sums."""
    apart = number_by_number(schedule, phase)
    if is_softmax(phase):
        each = (APART_REGISTERS if apart else NUMBER_REGISTERS) * phase.rows * padded_row(schedule) / threads
        doubled = log2(softmax_warps(schedule) / FEWEST_WARPS * (1 if apart else phase.rows))
        return ROW_REGISTERS + each + DOUBLED_REGISTERS * doubled
    if phase.launched == TILE:
        return WIDE_TILE_REGISTERS if apart or columns > NARROW_COLUMNS else TILE_REGISTERS
    numbers = schedule.tiling.block_q * schedule.tiling.block_kv / threads
    each = ADJACENT_REGISTERS if adjacent(schedule, columns) else SCATTERED_REGISTERS
    return OUTPUT_REGISTERS + apart * each * numbers

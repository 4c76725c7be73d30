"""How the kernels of unfused attention hold rows of S and P: threads, pieces and registers.

Rows whose length is no multiple of ALIGNED_KEYS move number by number, for Triton knows no better alignment:
each takes instructions of its own, and no copy of one runs ahead. A thread of the kernel of O fetches eight
numbers of P that lie side by side where P's tile has the shape of O's, else one. Registers are those of
compiled kernels, sm_90.
"""

from math import log2

from engine.schedule.nest import ROWS, Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import Tensor

ALIGNED_KEYS = 16
SOFTMAX_NUMBERS = 1024  # of a row for each of its warps, of which there are FEWEST_WARPS to MOST_WARPS
FEWEST_WARPS, MOST_WARPS = 4, 32
WARP_NUMBERS = 2048  # that the registers of one of so many warps hold, 64 of a thread
REGISTER_BYTES, ADDRESS = 4, 2  # of an address: two registers
# registers of a thread, in compiled code: of the softmax beside its numbers, and for each halving after the
# first in which the numbers of a row, or of several, come together
ROW_REGISTERS, HALVING = 16, 8


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


def softmax_registers(schedule: Schedule, phase: Phase, threads: int) -> float:
    """Registers of a thread of the softmax: for its numbers of S, and what reducing them takes.

    Each has one as float32; number by number it has an address of its own instead, and is packed.
    """
    apart = number_by_number(schedule, phase)
    each = ADDRESS + schedule.problem.itemsize / REGISTER_BYTES if apart else 1
    halves = softmax_warps(schedule) / FEWEST_WARPS * (1 if apart else phase.rows)
    return (
        ROW_REGISTERS
        + each * phase.rows * padded_row(schedule) / threads
        + HALVING * max(0.0, log2(halves) - 1)
    )


def rows_registers(schedule: Schedule, phase: Phase, threads: int, columns: int) -> float:
    """The same of a thread that has P come number by number; those side by side share an address."""
    if not waits_for_rows(schedule, phase):
        return 0.0
    each = schedule.problem.itemsize / REGISTER_BYTES + ADDRESS * (not adjacent(schedule, columns))
    return each * schedule.tiling.block_q * schedule.tiling.block_kv / threads

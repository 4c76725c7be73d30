"""What the kernels of unfused attention take: instructions, counted in what the compiler makes of them, and
what they wait for."""

from __future__ import annotations

from math import log2

from engine.model.launch import Launch
from engine.model.occupancy import WARP, columns, threads_of
from engine.model.rates import RESTING_CLOCK, RUNNING_CLOCK, SCHEDULED, Rates
from engine.model.rows import (
    FEWEST_WARPS,
    NARROW_COLUMNS,
    adjacent,
    number_by_number,
    padded_row,
    rows_spill,
    softmax_warps,
)
from engine.problem.gpu import Gpu
from engine.problem.problem import Mask
from engine.schedule.nest import TILE, Phase
from engine.schedule.step import Operation, Tensor

COPIED_AT_ONCE = 16  # bytes
# instructions of a thread, by number of S, by 16 bytes of Q and K, beside these, and at least: sm_90
TILE_NUMBER, TILE_COPY, TILE_REST, TILE_LEAST = 8, 17, 128, 310
TILE_APART, WIDE_APART = 8.4, 9.9  # more by number that moves by itself, and where a head has over 64 columns
# more by number of S where those are looked at for hidden keys, and under a causal mask one by one
WINDOW_NUMBER, CAUSAL_NUMBER, CAUSAL_APART = 5, 3, 2
# by number of a row, whole vectors or one by one; beside these where a block has 1, 2, 4, 8 or more rows
ROW_NUMBER, ROW_APART = 10.5, 18
ROW_REST, REST_APART = (118, 187, 210, 170, 163), (127, 236, 327, 560, 1146)
ROW_WARPS, WARPS_APART = 12, 52  # more at every doubling of a block's warps
# of a visit of the kernel of O, by 16 bytes that it copies, beside these, and by number of P that moves by
# itself, alone or beside seven others of its thread
VISIT_COPY, VISIT_REST, SCATTERED_NUMBER, ADJACENT_NUMBER = 10, 60, 8, 5.5
# fitted, see `engine.model.fitted`: of what HBM delivers of whole rows where they come in pieces as wide as a
# tile, and clocks of a visit at its barriers and until its products end
PIECES_SHARE, OUTPUT_IDLE = 0.88, 470
# slots that an instruction of a tile of S takes, and the share of products and of what passes shared memory
# that those of other blocks do not hide; likewise
TILE_SLOTS, TILE_BESIDE = 1.2, 0.75
# s that a row waits for its load, its maximum and its sum, one after another; likewise
ROW_TRIP = 0.96e-6
FETCH_TRIP = 0.8e-6  # s, from a visit's loads of P to its products; likewise
# clocks of an SM's loads and stores by 32 numbers of P: alone, and where eight threads share a row; likewise
SCATTERED_CLOCKS, ADJACENT_CLOCKS = 2, 2.5


def running_clock(gpu: Gpu) -> float:
    """Hz at which a GPU runs a kernel that leaves its power alone."""
    return RUNNING_CLOCK * gpu.clock_hz


def issued_seconds(launch: Launch, phase: Phase) -> float:
    """Seconds of an SM in which one block of the kernel of S, or of the softmax, issues its instructions."""
    if phase.launched == TILE:
        return _tile_instructions(launch, phase) / SCHEDULED / running_clock(launch.gpu)
    return _row_instructions(launch, phase) / SCHEDULED / (RESTING_CLOCK * launch.gpu.clock_hz)


def _tile_instructions(launch: Launch, phase: Phase) -> float:
    tiling, amounts = launch.tiling, launch.schedule.amounts
    loads = [step.tensor for step in phase.each if step.operation == Operation.LOAD]
    copied = sum(amounts[tensor].of(tiling.block_q, tiling.block_kv) for tensor in loads)
    wide, apart = columns(launch.problem.head_dim), number_by_number(launch.schedule, phase)
    copied *= wide / launch.problem.head_dim
    number = TILE_NUMBER + _hidden(launch.problem.mask, apart)
    if apart:
        number += WIDE_APART if wide > NARROW_COLUMNS else TILE_APART
    threads = threads_of(launch.schedule, phase)
    each = number * tiling.block_q * tiling.block_kv + TILE_COPY * copied / COPIED_AT_ONCE
    return max(TILE_LEAST * threads, each + TILE_REST * threads)


def _row_instructions(launch: Launch, phase: Phase) -> float:
    schedule, rows = launch.schedule, min(int(log2(phase.rows)), len(ROW_REST) - 1)
    number, rest, doubled = ROW_NUMBER, ROW_REST[rows], ROW_WARPS
    if number_by_number(schedule, phase):
        number, rest, doubled = ROW_APART, REST_APART[rows], WARPS_APART
    rest += doubled * log2(softmax_warps(schedule) / FEWEST_WARPS)
    return number * phase.rows * padded_row(schedule) + rest * threads_of(schedule, phase)


def _hidden(mask: Mask, apart: bool) -> int:
    """Instructions for each number of S to tell whether its key is hidden."""
    if mask.window is not None:
        return WINDOW_NUMBER
    return mask.causal * (CAUSAL_APART if apart else CAUSAL_NUMBER)


def row_seconds(launch: Launch, phase: Phase, rates: Rates) -> float:
    """Seconds of an SM for a block of the softmax: its instructions, and numbers that find no register.

    Those go through L2 and come back, as float32.
    """
    spilled = 8 * padded_row(launch.schedule) * rows_spill(launch.schedule)
    return issued_seconds(launch, phase) + spilled * launch.gpu.sms / rates.cache


def row_wait(launch: Launch, phase: Phase, running: int, rates: Rates) -> float:
    """Seconds that a block of the softmax waits: for its rows, which HBM brings to all that run at once."""
    rows = phase.rows * launch.problem.seq_kv * launch.problem.itemsize
    return ROW_TRIP + running * rows / rates.memory


def fetch_wait(launch: Launch, phase: Phase) -> float:
    """Seconds that a visit of the kernel of O waits: for P where no copy runs ahead, or for its products."""
    if number_by_number(launch.schedule, phase):
        return FETCH_TRIP
    return OUTPUT_IDLE / running_clock(launch.gpu)


def fetching_seconds(launch: Launch, phase: Phase) -> float:
    """Seconds of an SM in which a visit of the kernel of O issues its instructions, and takes P and V.

    Where P moves number by number, it passes through registers into shared memory.
    """
    tiling, amounts, wide = launch.tiling, launch.schedule.amounts, columns(launch.problem.head_dim)
    numbers, copied = tiling.block_q * tiling.block_kv, amounts[Tensor.V].of(0, tiling.block_kv)
    copied *= wide / launch.problem.head_dim
    number = clocks = 0.0
    if not number_by_number(launch.schedule, phase):
        copied += amounts[Tensor.P].of(tiling.block_q, tiling.block_kv)
    elif adjacent(launch.schedule, wide):
        number, clocks = ADJACENT_NUMBER, ADJACENT_CLOCKS
    else:
        number, clocks = SCATTERED_NUMBER, SCATTERED_CLOCKS
    instructions = number * numbers + VISIT_COPY * copied / COPIED_AT_ONCE
    instructions += VISIT_REST * threads_of(launch.schedule, phase)
    return (instructions / SCHEDULED + clocks * numbers / WARP) / running_clock(launch.gpu)


def memory_share(phase: Phase) -> float:
    """Share of what HBM delivers of whole rows that it does of a kernel's."""
    return PIECES_SHARE if Tensor.P in phase.loaded else 1.0

"""What the kernels of unfused attention issue: instructions counted in what the compiler makes of them.

Rows of S and P whose length is no multiple of ALIGNED_KEYS move number by number, for Triton knows no better
alignment: each takes instructions of its own, and no copy of one runs ahead.
"""

from __future__ import annotations

from engine.model.launch import Launch
from engine.model.occupancy import WARP, columns, threads_of
from engine.model.rates import RUNNING_CLOCK, SCHEDULED
from engine.problem.gpu import Gpu
from engine.problem.problem import Mask
from engine.schedule.nest import TILE, Phase
from engine.schedule.step import Operation, Tensor

ALIGNED_KEYS = 16
COPIED_AT_ONCE = 16  # bytes
# instructions of a thread, by number of S, by 16 bytes of Q and K, and beside these; compiled for Hopper
TILE_NUMBER, TILE_COPY, TILE_REST = 8, 17, 128
CAUSAL_NUMBER, WINDOW_NUMBER = 3, 5  # more by number of S where those are looked at for hidden keys
# by number of a row, beside these, and where a program has several rows
ROW_NUMBER, ROW_REST, ROWS_REST = 12, 96, 70
APART = 9.5  # more by number that moves by itself
SOFTMAX_NUMBERS = 1024  # of a row for each of its warps, of which there are FEWEST_WARPS to MOST_WARPS
FEWEST_WARPS, MOST_WARPS = 4, 32


def running_clock(gpu: Gpu) -> float:
    """Hz at which a GPU runs a kernel that leaves its power alone."""
    return RUNNING_CLOCK * gpu.clock_hz


def number_by_number(launch: Launch, phase: Phase) -> bool:
    """Whether a kernel's rows of S or P move so."""
    touched = {step.tensor for step in phase.before + phase.each + phase.after} & {Tensor.S, Tensor.P}
    return bool(launch.algorithm.unfused and touched and launch.problem.seq_kv % ALIGNED_KEYS)


def waits_for_rows(launch: Launch, phase: Phase) -> bool:
    """Whether a kernel's visits wait for rows that no copy fetches ahead."""
    return number_by_number(launch, phase) and Tensor.P in phase.loaded


def issued_seconds(launch: Launch, phase: Phase) -> float:
    """Seconds of an SM in which one block of the kernel of S, or of the softmax, issues its instructions."""
    apart = APART * number_by_number(launch, phase)
    if phase.launched == TILE:
        tiling, threads = launch.tiling, threads_of(launch.schedule, phase)
        amounts = launch.schedule.amounts
        loads = [step.tensor for step in phase.each if step.operation == Operation.LOAD]
        copied = sum(amounts[tensor].of(tiling.block_q, tiling.block_kv) for tensor in loads)
        copied *= columns(launch.problem.head_dim) / launch.problem.head_dim
        numbers = tiling.block_q * tiling.block_kv
        number = TILE_NUMBER + apart + _hidden(launch.problem.mask)
        each = number * numbers + TILE_COPY * copied / COPIED_AT_ONCE + TILE_REST * threads
        return each / SCHEDULED / running_clock(launch.gpu)
    row = 1 << (launch.problem.seq_kv - 1).bit_length()
    threads = WARP * min(MOST_WARPS, max(FEWEST_WARPS, row // SOFTMAX_NUMBERS))
    each = (ROW_NUMBER + apart) * phase.rows * row + (ROW_REST + ROWS_REST * (phase.rows > 1)) * threads
    return each / SCHEDULED / running_clock(launch.gpu)


def _hidden(mask: Mask) -> int:
    """Instructions for each number of S to tell whether its key is hidden."""
    if mask.window is not None:
        return WINDOW_NUMBER
    return CAUSAL_NUMBER if mask.causal else 0

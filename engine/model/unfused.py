"""What the kernels of unfused attention take (S = Q K^T, softmax, P V): their instructions and their waits.

Instructions of a thread are counted in compiled code (sm_90). Rows whose length is no multiple of 16 move
number by number, which takes more of them; see `engine.model.unfused_rows`.
"""

from engine.model.launch import Launch
from engine.model.occupancy import COPIED_AT_ONCE, WARP, columns, threads_of
from engine.model.rates import Rates
from engine.model.unfused_rows import number_by_number, padded_row, rows_spill
from engine.model.visit import copied_at_once, loads
from engine.schedule.nest import TILE, Phase
from engine.schedule.step import Tensor

# by number of S in its kernel, without a mask, and in the softmax, more by number that moves by itself; by 16
# bytes of Q and K, or P and V; beside these of a block of S, of the softmax, and of a visit of O
TILE_NUMBER, ROW_NUMBER, APART_NUMBER, COPY = 9, 10.5, 9, 12.7
TILE_REST, ROW_REST, VISIT_REST = 225, 170, 45
APART_CLOCKS = 2  # of an SM's loads and stores for 32 numbers of P that move by themselves


def row_seconds(launch: Launch, phase: Phase, rates: Rates) -> float:
    """Seconds of an SM for a block of the softmax: its instructions, and numbers that find no register.

    Those go through L2 and come back, as float32.
    """
    spilled = 8 * padded_row(launch.schedule) * rows_spill(launch.schedule)
    return issued_seconds(launch, phase) + spilled * launch.gpu.sms / rates.cache


def issued_seconds(launch: Launch, phase: Phase) -> float:
    """Seconds of an SM in which a block of the kernel of S, or of the softmax, issues its instructions."""
    schedule, tiling = launch.schedule, launch.tiling
    apart = APART_NUMBER * number_by_number(schedule, phase)
    if phase.launched == TILE:
        instructions = (TILE_NUMBER + apart) * tiling.block_q * tiling.block_kv
        instructions += COPY * copied_at_once(launch, loads(phase))
        instructions += TILE_REST * threads_of(schedule, phase)
    else:
        instructions = (ROW_NUMBER + apart) * phase.rows * padded_row(schedule)
        instructions += ROW_REST * threads_of(schedule, phase)
    return instructions / launch.gpu.issued_per_second


def fetching_seconds(launch: Launch, phase: Phase) -> float:
    """Seconds of an SM in which a visit of the kernel of O issues its instructions, and takes P and V.

    Where P moves number by number, it passes through registers into shared memory.
    """
    numbers, amounts = launch.tiling.block_q * launch.tiling.block_kv, launch.schedule.amounts
    wide = columns(launch.problem.v_dim) / launch.problem.v_dim
    copied, instructions, clocks = wide * amounts[Tensor.V].of(0, launch.tiling.block_kv), 0.0, 0.0
    if number_by_number(launch.schedule, phase):
        instructions, clocks = APART_NUMBER * numbers, APART_CLOCKS * numbers / WARP
    else:
        copied += amounts[Tensor.P].of(launch.tiling.block_q, launch.tiling.block_kv)
    instructions += COPY * copied / COPIED_AT_ONCE
    instructions += VISIT_REST * threads_of(launch.schedule, phase)
    return instructions / launch.gpu.issued_per_second + clocks / launch.gpu.running_clock

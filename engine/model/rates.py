"""What a GPU reaches of its vendor's peaks: measured or fitted on an H200, taken to hold for the others.

`engine.model.fitted` says to which recorded rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.problem.hardware import Gpu

MATRIX_SHARE = 0.8  # a large matrix product: 769 to 808 of 989 TFLOP/s, the card's power is the limit
MEMORY_SHARE = 0.89  # a copy: 4.27 of 4.8 TB/s
CACHE_SHARE = 0.694  # of what the SMs can take from L2 together: attention in small blocks reads 9.4 TB/s
# of a visit that waits for its rows, fitted to flash1: s where L2 answers, more where DRAM does, and where
# all warps hold parts of the same few rows; a share more of softmax, of few rows of its scores, under a mask
WAITED_TRIP, WAITED_MEMORY, WAITED_WARPS, WAITED_MASK = 0.356e-6, 0.749e-6, 0.18e-6, 0.3
WAITED_BYTES_PER_CLOCK, WAITED_WORD = 21.2, 20e-9  # of an SM; s a word of a thread that spills; likewise
WAITED_LINES = 3  # power of the share of rows in L1, in which it has all of a visit's; likewise
AT_WORK = 0.58  # of such a visit but for its waits, in which other blocks on the SM wait; likewise
# s more for L2 on an SM that is the only one at work in its GPC, and how many at work leave one so: the first
# nine go to one GPC of eight, seven more to the others. Read off traces on an H200
WAITED_ALONE, SMS_OF_ONE_ALONE = 0.15e-6, frozenset((1, *range(10, 24)))
CACHE_BYTES_PER_CLOCK = 64  # that one SM can take from L2; all slices of L2 together give all SMs less
SCORE_OPERATIONS = 3  # float32 operations per score: scale and subtract m, maximum, sum
SCHEDULED = 128  # threads of an SM for which an instruction is issued per clock
LATENCY = 0.7e-6  # s, one round trip to memory with its address arithmetic
COLD_BLOCK = 2.4e-6  # s, until the warps of a specialised block have their barriers; fitted to short calls
COLD_VISITS = 2  # of which such a block asks for the keys before its first product
# s more of a visit of an SM's first tile, where all walk over keys that nobody read before, and for how many
# of its visits, until copies have run ahead; read off traces
COLD_VISIT, COLD_RUN = 0.09e-6, 16
# that a block waits for one after another: first loads, first products (of split keys: too few), last store
ROUND_TRIPS = 3
TRIPS_OF_A_LOOP = 1.1  # for each loop of flash2, or further one: it begins with empty buffers
# of a tile of flash3: fewer where two warp groups start the next one while O leaves, more where three take
# turns, and where products bind and it is drawn late; fitted to flash3, as are the next four lines
TRIPS_SPARED, TRIPS_OF_TURNS, TRIPS_OF_A_DRAW = 0.6, 1.5, 1.0
# times as long as by themselves that exponentials take under products, as other instructions of softmax come
# between; and between two warp groups that take no turns, where softmax binds
UNDER_PRODUCTS, BARE_OF_TWO = 1.32, 1.23
# cycles more of a visit, by head dim and rows: without a mask, causal, with a window. Compiled loops differ
# in how much of its softmax a warp group runs under its own P V, in how it hands buffers back, in whether it
# asks for the mask at every visit, and at d 256 in whether descriptors of products move between registers
LOOP_CYCLES = {
    (64, 192): (0, 20, 110),
    (64, 128): (200, 0, 0),
    (128, 128): (0, 110, 200),
    (256, 128): (0, 40, 300),
}
TILES_POWER = 2.6  # the norm in which times add of tiles whose Q is not copied ahead, and of HBM for them
BOUND_BY_SOFTMAX = 64  # head dim up to which softmax takes longer than the products
# the norm in which times of flash2's blocks and of what they ask HBM for add: most of that is hidden, as SMs
# fall out of step; fitted to flash2 on an H200, many short sequences among its calls
HBM_POWER = 3
LAUNCH = 2e-6  # s, start of a kernel; fitted to short calls of the unfused kernels under the profiler
LAUNCH_BETWEEN_EVENTS = 3e-6  # the same of split keys, which are recorded between events of their own
TWO_WARP_GROUPS = 128  # query rows: fewer on an SM leave its units waiting for one another as these do
WARP_GROUP_ROWS = 64  # from which on a block's products are Hopper's asynchronous ones
# instructions of a thread in a visit of online softmax, by score, number of O, 16 bytes that it copies, and
# beside these; counted in what the compiler makes of flash2 for Hopper, to 9%
SCORE_INSTRUCTIONS, OUTPUT_INSTRUCTIONS, COPY_INSTRUCTIONS, VISIT_INSTRUCTIONS = 5.2, 1.57, 6.2, 62
PADDED_COPY_INSTRUCTIONS = 2.6  # more where the head dimension is padded; likewise
# cycles of an SM for 16 bytes of such a row: of 0.085 more by the counter of passes through shared memory so
# much is in the way of others; fitted to calls of d 80 and 96
STRADDLING_CYCLES = 0.02
# around a block's visits: by number of O, by 16 bytes copied ahead of a loop, for each further loop, beside
# these, and where TMA copies; likewise, to 13%
BLOCK_OUTPUT, BLOCK_COPY, BLOCK_LOOP, BLOCK_INSTRUCTIONS, BLOCK_BY_TMA = 8.7, 9, 87, 312, 115
MASK_INSTRUCTIONS, WINDOW_INSTRUCTIONS = 4.4, 6.5  # more by score of a tile that the mask cuts; likewise
# a warp group alone on its SM takes so much longer than its instructions do, with more of them so much less
WAITS_ALONE, WAITS_POWER = 0.8, 2.6  # fitted to flash2: the sweep with d 64, calls drawn by lot, and traces
# the same of one that copies for itself, but for so many cycles, which it waits for what it copied; likewise
WAITS_COPYING, COPYING_CYCLES = 0.65, 200
IN_STEP = 0.3  # of a warp group to such gaps where it waits at barriers with another of its block; likewise
# more for each of a block where O has over MOST_HIDDEN_COLUMNS and a thread more numbers of O and scores than
# this: 250 registers of 255 there, 209 in blocks of 32 keys, by compiled code; fitted to calls of d 256
FULL_REGISTERS, MOST_SUMS = 0.25, 150
# the share of its clock that an H200 holds, and what it gives up of it as its tensor cores work for more than
# a share of the time, which takes power; read off the counted clocks of flash2 and flash3
RUNNING_CLOCK, POWER_FROM, POWER_SLOPE = 0.984, 0.5, 0.35
# of that clock after so many seconds of a call: its power limit holds for an average, so that a short call
# may take more. Read off calls of 16,384 to 524,288 tokens on one H200, recorded beside those on several
SUSTAINED_FROM, SUSTAINED_CLOCK = 0.03, 0.85
RESTING_CLOCK = 1.08  # the same of a kernel without matrix products: 1.98 GHz; read off its counted clocks
# of a visit of online softmax, clock cycles of an SM; of few rows, and for each element of Q beside these
VISIT_CYCLES, SMALL_VISIT_CYCLES, SMALL_OPERAND_CYCLES = 60, 150, 0.084  # fitted to the sweep of flash2, d 64
SMALL_ROWS_SHARE = 0.62  # of the matrix rate that products of few rows reach; likewise
HIDDEN_WITHIN = 0.12  # of the shorter of products and softmax, between a block's warp groups; likewise
HIDDEN_WITHIN_BY_TMA = 0.36  # where no thread has copies to issue; fitted to flash2 in its own blocks, d 64
MOST_HIDDEN_COLUMNS = 128  # beyond, registers are full and nothing hides


# of a warp in a visit of fewer than 64 rows, whose products are its own instructions: beside these, by number
# of O and score of a thread, by 16 bytes that it copies, by product of 16 x 8 x 16; compiled code, to 16%.
# Of fewer keys than FEWEST_KEYS warps compute the same twice
FEW_ROWS_INSTRUCTIONS, FEWEST_KEYS = (68, 2.4, 7.2, 7.3, 1.13), 32
# cycles that each of them takes a scheduler, as shared memory's passes bind, and by which part of that more
# for a warp alone, which waits for each; fitted to the sweep of flash2 with d 64
FEW_ROWS_CYCLES, FEW_ROWS_ALONE = 2.1, 0.8


@dataclass(frozen=True)
class Rates:
    """What a GPU does in a second: matrix FLOPs, exponentials, float32 operations, bytes of L2 and of HBM."""

    matrix: float
    exponentials: float
    vector: float
    cache: float
    memory: float

    @classmethod
    def of(cls, gpu: Gpu, dtype: str) -> Rates:
        """The rates that a GPU reaches in a dtype."""
        return cls(
            matrix=MATRIX_SHARE * gpu.products_per_second(dtype),
            exponentials=gpu.exponentials_per_second,
            vector=gpu.matrix_flops["float32"] / 2,
            cache=CACHE_SHARE * gpu.cache_bytes_per_second,
            memory=MEMORY_SHARE * gpu.memory_bytes_per_second,
        )

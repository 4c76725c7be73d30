"""What a GPU reaches of its vendor's peaks, and what kernels take of it: rates of the time model.

Each is of one of four kinds. A share of a peak, or a wait, that a micro-benchmark of one kernel can measure
on any GPU; those here are an H200's and are taken to hold for others. A number of instructions, counted in
what the compiler makes of the kernels (sm_90, Triton 3.6 and 3.7). A figure of the architecture, with its
source. And what warps wait for one another, the last section, which is read off recorded calls of an H200.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.problem.hardware import Gpu
from engine.problem.problem import Problem

# Shares of peaks: what large matrix products, a copy, and reads of what lies in L2 by all SMs reach.
MATRIX_SHARE = 0.8  # 769 to 808 of 989 TFLOP/s
# Reads alone, by the longest recorded decoding, reach more of HBM than a copy, which turns it to writing.
READ_SHARE, COPY_SHARE = 0.95, 0.89  # 4.65 and 4.23 of 4.8 TB/s; an H100 3.13 and 3.02 of 3.35
CACHE_SHARE = 0.694  # 9.4 TB/s
CACHE_BYTES_PER_CLOCK = 64  # that one SM takes from L2 by copies that run ahead (Hopper's tuning guide)

# Waits, seconds: a loop that loads one tile of 64 columns after another, each when it has the last, waits so
# much longer where DRAM, or L2, has them than where L1 does (32 to 128 rows on an H200: 0.45 to 1.0 and 0.27
# to 0.48 microseconds).
LATENCY = 0.7e-6
L2_LATENCY = LATENCY / 2
LAUNCH = 2e-6  # start of a kernel: an empty one under the profiler
BETWEEN_EVENTS = 1e-6  # more between two events

# Tensor cores and exponentials side by side.
POWER = 2.5  # the norm in which times add that hide under one another in part: of two equal ones 76%
BOUND_BY_SOFTMAX = 64  # head dim up to which exponentials take longer than the products

# The clock under load, as shares of its peak: an H200 holds RUNNING_CLOCK, and gives up POWER_SLOPE of what
# its tensor cores work beyond POWER_FROM of the time, by counters of the SMs' clock. Its power limit is on an
# average: calls of more than SUSTAINED_FROM seconds go on at SUSTAINED_CLOCK of that.
RUNNING_CLOCK, POWER_FROM, POWER_SLOPE = 0.984, 0.5, 0.35
SUSTAINED_FROM, SUSTAINED_CLOCK = 0.03, 0.85

# Figures of the architecture (CUDA C++ Programming Guide; PTX ISA, wgmma).
SCHEDULED = 128  # threads of an SM for which an instruction is issued per clock
WARP_GROUP_ROWS = 64  # of a product that a warp group issues asynchronously, from which on there are such

# Instructions of a thread, counted in compiled code. Of a visit of online softmax: by 16 bytes that it copies
# and beside all else; and around the visits of a block, beside all else.
COPY_INSTRUCTIONS, VISIT_INSTRUCTIONS, BLOCK_INSTRUCTIONS = 6.2, 62, 312
SCORE_OPERATIONS = 3  # float32 arithmetic of a score: scale and subtract m, maximum, sum
# An exponential as a polynomial of degree 3: a bound, three steps to its whole part, three products, two more
# to put the exponent in its place; of these six by two numbers at a time (Blackwell's packed float32).
POLYNOMIAL_OPERATIONS = 6
# More of a score by the operations of the kernels' source: with a cap, whose tanh is an exponential and a
# quotient, which both ask the exponentials' unit; and where it falls with its distance.
CAP_EXPONENTIALS, CAP_INSTRUCTIONS, SLOPE_INSTRUCTIONS = 2, 12, 4
FEW_ROWS_CYCLES = 2.1  # of a scheduler for an instruction of fewer than 64 rows, which waits for one before

WAITS_ALONE = 0.8  # more than its instructions that a warp group alone on its SM takes; with others the less


@dataclass(frozen=True)
class Rates:
    """What a GPU does in a second: matrix FLOPs, exponentials, float32 operations, bytes of L2 and of HBM.

    `Rates.of(GPUS["h200"], "float16").memory` is 4.56e12: bytes per second.
    """

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
            memory=READ_SHARE * gpu.memory_bytes_per_second,
        )

    def hbm_seconds(self, read: float, written: float) -> float:
        """Seconds of HBM for so many bytes: it turns from reading to writing, which a copy shows."""
        return (read + (2 * READ_SHARE / COPY_SHARE - 1) * written) / self.memory


def term_instructions(problem: Problem) -> int:
    """Instructions more of a score for what becomes of it before the softmax."""
    return CAP_INSTRUCTIONS * bool(problem.softcap) + SLOPE_INSTRUCTIONS * problem.slopes


def exponentials_of(problem: Problem) -> int:
    """What a score asks of the exponentials' unit."""
    return 1 + CAP_EXPONENTIALS * bool(problem.softcap)


def exponential_seconds(scores: float, asked: float, polynomials: float, rates: Rates) -> float:
    """Seconds of all SMs for the exponentials of scores; a share of polynomials runs beside their unit."""
    by_unit = (asked - polynomials) * scores / rates.exponentials
    return max(by_unit, POLYNOMIAL_OPERATIONS * polynomials * scores / rates.vector)


def running_clock(gpu: Gpu) -> float:
    """Hz at which a GPU runs a kernel that leaves its power alone."""
    return RUNNING_CLOCK * gpu.clock_hz


def in_norm(one, other):
    """Seconds, or arrays of them, of two that hide under one another in part."""
    return (one**POWER + other**POWER) ** (1 / POWER)


def clock_left(busy: float) -> float:
    """Share of the clock that is left while the tensor cores work a share `busy` of the time."""
    return 1 - POWER_SLOPE * max(0.0, busy - POWER_FROM) / RUNNING_CLOCK


def sustained(seconds: float) -> float:
    """Seconds of work that would take so many at the clock it begins with: the limit is on an average."""
    return seconds + max(0.0, seconds - SUSTAINED_FROM) * (1 / SUSTAINED_CLOCK - 1)


def unsustained(seconds: float) -> float:
    """The other way round."""
    return min(seconds, SUSTAINED_FROM) + max(0.0, seconds - SUSTAINED_FROM) * SUSTAINED_CLOCK

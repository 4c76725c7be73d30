"""What kernels take of a GPU, and rates of the time model; what it reaches of its peaks is in `Gpu.reached`.

Each is of one of three kinds. A number of instructions, counted in what the compiler makes of the kernels
(sm_90, Triton 3.6 and 3.7). A figure of the architecture, with its source. And what warps wait for one
another, the last section, which is read off recorded calls of an H200.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.problem.gpu import Reached
from engine.problem.hardware import Gpu
from engine.problem.problem import Problem

CACHE_BYTES_PER_CLOCK = 64  # that one SM takes from L2 by copies that run ahead (Hopper's tuning guide)

# Tensor cores and exponentials side by side.
POWER = 2.5  # the norm in which times add that hide under one another in part: of two equal ones 76%
BOUND_BY_SOFTMAX = 64  # head dim up to which exponentials take longer than the products

# Figures of the architecture (CUDA C++ Programming Guide; PTX ISA, wgmma).
WARP_GROUP_ROWS = 64  # of a product that a warp group issues asynchronously, from which on there are such

# Instructions of a thread, counted in compiled code. Of a visit of online softmax: by 16 bytes that it copies
# and beside all else; and around the visits of a block, beside all else.
COPY_INSTRUCTIONS, VISIT_INSTRUCTIONS, BLOCK_INSTRUCTIONS = 6.2, 62, 312
SCORE_OPERATIONS = 3  # float32 arithmetic of a score: scale and subtract m, maximum, sum
# An exponential as a polynomial of degree 3: a bound, three steps to its whole part, three products, two more
# to put the exponent in its place; of these six by two numbers at a time (Blackwell's packed float32).
POLYNOMIAL_OPERATIONS = 6
# More of a score by the operations of the kernels' source: with a cap, whose tanh is an exponential and a
# quotient, which both ask the exponentials' unit; and where it falls with its distance. FlashAttention-3's
# takes that unit's reciprocal for the quotient, and has it make a float32 of every other score's distance.
CAP_EXPONENTIALS, CAP_INSTRUCTIONS, SLOPE_INSTRUCTIONS = 2, 12, 4
CAP_BY_UNIT, SLOPE_BY_UNIT, SLOPE_CONVERTED = 3, 2, 0.5
FEW_ROWS_CYCLES = 2.1  # of a scheduler for an instruction of fewer than 64 rows, which waits for one before

WAITS_ALONE = 0.8  # more than its instructions that a warp group alone on its SM takes; with others the less


@dataclass(frozen=True)
class Rates:
    """What a GPU does in a second: matrix FLOPs, exponentials, float32 operations, bytes of L2 and of HBM.

    `Rates.of(GPUS["h200"], "float16").memory` is 4.56e12: bytes per second. A byte that is written counts as
    `written` that are read, as HBM turns from one to the other.
    """

    matrix: float
    exponentials: float
    vector: float
    cache: float
    memory: float
    written: float

    @classmethod
    def of(cls, gpu: Gpu, dtype: str) -> Rates:
        """The rates that a GPU reaches in a dtype."""
        reached = gpu.reached
        slower = min(1.0, reached.clock / Reached().clock)  # where a card stays far below its peak clock
        return cls(
            matrix=reached.matrix * gpu.products_per_second(dtype),
            exponentials=slower * gpu.exponentials_per_second,
            vector=min(slower * gpu.matrix_flops["float32"] / 2, gpu.sms * gpu.issued_per_second),
            cache=reached.cache * gpu.cache_bytes_per_second,
            memory=reached.reads * gpu.memory_bytes_per_second,
            written=2 * reached.reads / reached.copies - 1,
        )

    def hbm_seconds(self, read: float, written: float) -> float:
        """Seconds of HBM for so many bytes."""
        return (read + self.written * written) / self.memory


def term_instructions(problem: Problem, by_unit: bool = False) -> int:
    """Instructions more of a score for what becomes of it before the softmax."""
    cap, slope = (CAP_BY_UNIT, SLOPE_BY_UNIT) if by_unit else (CAP_INSTRUCTIONS, SLOPE_INSTRUCTIONS)
    return cap * bool(problem.softcap) + slope * problem.slopes


def exponentials_of(problem: Problem, by_unit: bool = False) -> float:
    """What a score asks of the exponentials' unit."""
    return 1 + CAP_EXPONENTIALS * bool(problem.softcap) + SLOPE_CONVERTED * (by_unit and problem.slopes)


def exponential_seconds(scores: float, asked: float, polynomials: float, rates: Rates) -> float:
    """Seconds of all SMs for the exponentials of scores; a share of polynomials runs beside their unit."""
    by_unit = (asked - polynomials) * scores / rates.exponentials
    return max(by_unit, POLYNOMIAL_OPERATIONS * polynomials * scores / rates.vector)


def in_norm(one, other):
    """Seconds, or arrays of them, of two that hide under one another in part."""
    return (one**POWER + other**POWER) ** (1 / POWER)

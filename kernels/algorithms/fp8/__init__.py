"""FlashAttention-3 with numbers of 8 bits: their rounding, and the launch."""

from kernels.algorithms.fp8.forward import ALGORITHM as ALGORITHM

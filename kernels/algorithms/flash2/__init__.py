"""FlashAttention-2 (Dao, arXiv 2307.08691): its forward pass, which other algorithms share."""

from kernels.algorithms.flash2.forward import ALGORITHM as ALGORITHM

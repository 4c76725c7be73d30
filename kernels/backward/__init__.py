"""The backward pass of FlashAttention-2 in two kernels, and what all backward passes share."""

import kernels.interpreter  # noqa: F401 (before Triton is imported)

"""FlashAttention-4's forward pass for Blackwell GPUs in Gluon. Never run on the chip: see `forward`."""

import kernels.interpreter  # noqa: F401 (before Triton is imported)

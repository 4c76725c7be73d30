"""What kernels in Triton do with a tile: loads, masks, the online softmax."""

import kernels.interpreter  # noqa: F401 (before Triton is imported)

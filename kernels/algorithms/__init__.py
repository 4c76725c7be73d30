"""A file or folder an algorithm: its launch, its kernels, the tilings that they take."""

import kernels.interpreter  # noqa: F401 (before Triton is imported)

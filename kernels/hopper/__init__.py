"""Kernels for Hopper GPUs in Gluon, which not every Triton has: imported when they are to run."""

import kernels.interpreter  # noqa: F401 (before Triton is imported)

"""Kernels for Hopper GPUs in Gluon, which not every Triton has: imported when they are to run."""

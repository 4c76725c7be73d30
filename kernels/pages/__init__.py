"""Attention over a KV cache that lies in pages: the plan, the checks, the kernels."""

import kernels.interpreter  # noqa: F401 (before Triton is imported)

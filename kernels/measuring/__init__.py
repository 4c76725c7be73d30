"""Kernels that compute no attention: what measurements need beside them."""

import kernels.interpreter  # noqa: F401 (before Triton is imported)

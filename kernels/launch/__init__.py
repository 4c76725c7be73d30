"""How kernels are launched, launched again, and their blocks of threads traced."""

import kernels.interpreter  # noqa: F401 (before Triton is imported)
from kernels.launch.launch import OutOfSharedMemoryError as OutOfSharedMemoryError

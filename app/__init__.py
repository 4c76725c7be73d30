"""The dashboard: lays out what the engine computes, and computes nothing itself."""

import os

# Before NumPy is imported: BLAS's threads wait by spinning, on cores that other visitors need, and products
# of tiles are too small to share.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

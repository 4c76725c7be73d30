"""Imported before numpy and torch: their threads wait by spinning, on cores that other tests need."""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # of processes that the tests start too

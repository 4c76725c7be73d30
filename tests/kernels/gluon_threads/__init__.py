"""Runs the kernels for Hopper without a GPU: their source as Python, a thread for each partition of warps.

Gluon has no interpreter. Here waits block, a deadlock is an error, products are done when they are waited
for, copies are there when they are waited for and spoil what was there when they start, and what no one has
written is NaN: so a wrong order of the partitions shows in the results.
"""

from gluon_threads.block import DeadlockError, Products
from gluon_threads.memory import Descriptor, Parts, Sequences
from gluon_threads.source import OnThreads

__all__ = ["DeadlockError", "Descriptor", "OnThreads", "Parts", "Products", "Sequences"]

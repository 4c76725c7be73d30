"""What kernels take and the engine models, written once: tilings, the order of launches, costs of methods.

A file an algorithm. Nothing here imports torch, Triton or NumPy.
"""

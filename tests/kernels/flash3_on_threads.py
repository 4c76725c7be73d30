"""flash3's launch by the ways that combine parts of tiles, on threads of the CPU."""

import math

import torch
from gluon_threads import Descriptor, OnThreads

from kernels.algorithms.flash3 import forward as flash3
from kernels.hopper import forward


def put_on_threads(monkeypatch, way) -> None:
    """Replace the GPU parts of the launch in a module `way`; room that is asked for holds NaN."""
    monkeypatch.setattr(forward, "attention_kernel", OnThreads(forward.attention_kernel))
    monkeypatch.setattr(flash3, "_descriptor", Descriptor)
    monkeypatch.setattr(way, "zeroed_counter", lambda device: torch.zeros(1, dtype=torch.int32))
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, **how: empty(*size, **how).fill_(math.nan))

"""What torch allocates without writing it, filled with bits that tell whether it was written since."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

from engine.watch.memory import POISON


@contextmanager
def poisoned(torch, unwritten: set[int]):
    """Within it, what torch allocates without writing it is filled with POISON, and its storage noted."""
    places = ((torch, "empty"), (torch, "empty_like"), (torch, "empty_strided"), (torch.Tensor, "new_empty"))
    before = [getattr(owner, name) for owner, name in places]
    kept = []  # so that no storage's address is given out again

    def poisoning(allocate):
        def allocated(*args, **kwargs):
            tensor = allocate(*args, **kwargs)
            size = tensor.element_size()
            if tensor.is_floating_point() and size in POISON and tensor.numel():
                bits_of(torch.tensor([], dtype=tensor.dtype).set_(tensor.untyped_storage()))[:] = POISON[size]
                unwritten.add(tensor.untyped_storage().data_ptr())
                kept.append(tensor)
            return tensor

        return allocated

    for (owner, name), allocate in zip(places, before, strict=True):
        setattr(owner, name, poisoning(allocate))
    try:
        yield
    finally:
        for (owner, name), allocate in zip(places, before, strict=True):
            setattr(owner, name, allocate)


def bits_of(tensor) -> np.ndarray:
    """A CPU tensor's elements of 2, 4 or 8 bytes as unsigned whole numbers, in the same memory."""
    import torch

    size = tensor.element_size()
    signed = {2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    return tensor.view(signed).numpy().view(POISON[size].dtype)

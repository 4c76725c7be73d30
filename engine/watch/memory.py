"""The memory that a kernel was given: which tensor an address belongs to, and which row of which head."""

from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np

ALIKE = 0.9995  # correlation from which two arrays of equal size are one another's copy, rounded or scaled
POISON = {
    2: np.uint16(0x7F5A),
    4: np.uint32(0x7FC0DEAD),
    8: np.uint64(0x7FF8DEADDEADDEAD),
}  # bits of a NaN that no kernel computes, by bytes of an element: 0x7F5A is one in float16 and in bfloat16
FEWEST = 8  # elements of a tensor of which copies are recognised


@dataclass(frozen=True)
class View:
    """A tensor as it lies in memory."""

    name: str  # Q, K, V, or the kernel's own name of the argument
    start: int  # the address of its first element
    itemsize: int
    shape: tuple[int, ...] = ()  # of these
    # of batch, head, row and column, in elements; empty where it is none of Q, K and V
    strides: tuple[int, ...] = ()
    group: int = 1  # how many of its heads are one of the head's that it is counted by

    def places(self, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Head (counted through the batch), row and column of every address."""
        rest = (addresses.astype(np.int64) - self.start) // self.itemsize
        found: list = [0, 0, 0, 0]
        for axis in sorted(range(4), key=lambda each: -self.strides[each]):
            if self.shape[axis] > 1 and self.strides[axis] > 0:
                found[axis], rest = np.divmod(rest, self.strides[axis])
        head = found[0] * self.shape[1] + found[1]
        return head // self.group, np.asarray(found[2]), np.asarray(found[3])


@dataclass
class Region:
    """One stretch of memory, with the tensors that lie in it."""

    # start, stop: first address, and one past the last
    start: int
    stop: int
    itemsize: int
    views: list[View] = field(default_factory=list)

    def __post_init__(self):
        size = (self.stop - self.start) // self.itemsize + 1
        # by element, the program that last wrote or read it in this launch, or -1
        self.writer, self.reader = (np.full(size, -1, np.int32) for _ in range(2))

    def view(self, base: int | None) -> View:
        """The tensor that begins at an address; the first one where none does."""
        return next((view for view in self.views if view.start == base), self.views[0])


@dataclass
class Memory:
    """All memory that launches were given."""

    known: dict[str, np.ndarray]  # float arrays [batch, heads, rows, columns] by name
    heads: int  # of Q, over the batch
    regions: list[Region] = field(default_factory=list)

    def add(self, name: str, tensor) -> None:
        """Take in a tensor that a kernel is launched with."""
        storage = tensor.untyped_storage()
        start, size = storage.data_ptr(), storage.nbytes()
        region = next(
            (each for each in self.regions if (each.start, each.stop) == (start, start + size)), None
        )
        if region is None:
            region = Region(start, start + size, tensor.element_size())
            apart = [each for each in self.regions if each.stop <= start or region.stop <= each.start]
            self.regions = [*apart, region]
        if not any(view.start == tensor.data_ptr() for view in region.views):
            view = self._recognised(tensor) or View(name, tensor.data_ptr(), tensor.element_size())
            region.views.append(view)

    def launch(self) -> None:
        """Another launch begins: what the one before wrote is there for all to read."""
        for region in self.regions:
            region.writer[:] = region.reader[:] = -1

    def region(self, address: int) -> Region | None:
        """The region that an address lies in."""
        return next((each for each in self.regions if each.start <= address < each.stop), None)

    def nearest(self, address: int) -> Region | None:
        """The last region that begins before an address, or the first of all."""
        before = [each for each in self.regions if each.start <= address]
        return max(before or self.regions, key=lambda each: each.start, default=None)

    def _recognised(self, tensor) -> View | None:
        """The tensor as one of those known, or as their copy in another order of axes; None if it is none."""
        if not tensor.is_floating_point() or tensor.numel() < FEWEST or tensor.element_size() == 1:
            return None
        own = tensor.detach().double().numpy()
        for name, values in self.known.items():
            repeated = self.heads // (values.shape[0] * values.shape[1])
            for group in {1, repeated}:
                wide = np.repeat(values, group, 1)
                if (found := _laid_out(own, tensor.stride(), wide)) is not None:
                    shape, strides = found
                    return View(name, tensor.data_ptr(), tensor.element_size(), shape, strides, group)
        return None


def _laid_out(own: np.ndarray, strides: tuple[int, ...], values: np.ndarray):
    """Shape and strides of batch, head, row and column where a tensor has these values; else None."""
    if own.size != values.size:
        return None
    for order in ((0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2)):
        one, other = own.ravel(), values.transpose(order).ravel()
        norms = np.sqrt((one @ one) * (other @ other))
        if not (np.isfinite(norms) and norms > 0 and one @ other > ALIKE * norms):
            continue
        shape = tuple(values.shape[axis] for axis in order)
        if own.shape != shape:  # heads folded into the batch, and the like: as it lies if it has no gaps
            if not own.flags.c_contiguous:
                return None
            strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(4))
        placed = dict(zip(order, strides, strict=True))
        return values.shape, tuple(placed[axis] for axis in range(4))
    return None


@contextmanager
def poisoned(torch):
    """Within it, what torch allocates without writing it is filled with POISON."""
    kept = []  # so that no storage's address is given out again

    def poisoning(allocate):
        def allocated(*args, **kwargs):
            tensor = allocate(*args, **kwargs)
            size = tensor.element_size()
            if tensor.is_floating_point() and size in POISON and tensor.numel():
                bits_of(torch.tensor([], dtype=tensor.dtype).set_(tensor.untyped_storage()))[:] = POISON[size]
                kept.append(tensor)
            return tensor

        return allocated

    names = ("empty", "empty_like", "empty_strided")
    others = {name: poisoning(getattr(torch, name)) for name in names}
    with (
        patch.multiple(torch, **others),
        patch.object(torch.Tensor, "new_empty", poisoning(torch.Tensor.new_empty)),
    ):
        yield


def bits_of(tensor) -> np.ndarray:
    """A CPU tensor's elements of 2, 4 or 8 bytes as unsigned whole numbers, in the same memory."""
    import torch

    size = tensor.element_size()
    signed = {2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    return tensor.view(signed).numpy().view(POISON[size].dtype)

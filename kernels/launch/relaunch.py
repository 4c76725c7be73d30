"""A launch done again for other addresses, in a fraction of the time that Triton's own takes on the host."""

from collections.abc import Sequence
from copy import copy
from inspect import getclosurevars
from types import SimpleNamespace

import torch

# what torch.cuda asks for too, after some questions; PyTorch for CPUs alone has neither
current_device = getattr(torch._C, "_cuda_getDevice", None)
current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
MOST_ADDRESSES = 4096  # of a tensor, for which a TMA descriptor is kept; a memory that is full begins anew


def flat(tensors: Sequence) -> list:
    """Tensors and descriptors without None, those of tuples too."""
    found = []
    for tensor in tensors:  # nested comprehensions would take longer
        if isinstance(tensor, tuple):
            found.extend(flat(tensor))
        elif tensor is not None:
            found.append(tensor)
    return found


class Relaunch:
    """A kernel's launch, to be done again: `again(*addresses)` of tensors of the same layouts.

    Triton's launcher looks at every argument and encodes a TMA descriptor of every tensor that has one, at
    each launch. Here what it hands to its compiled part is kept, and what was encoded for an address.
    """

    def __init__(self, compiled, programs: int, tensors: Sequence, constants: Sequence):
        """tensors come first in the kernel's signature: tensors, TMA descriptors, None, or tuples."""
        arguments, self._maps, places, groups = [], [], [], []
        encodings = iter(getattr(compiled.metadata, "tensordesc_meta", None) or ())
        for tensor in tensors:
            maps = _Maps(tensor, next(encodings)) if hasattr(tensor, "base") else None
            if isinstance(tensor, tuple):
                groups.append((len(arguments), tensor))
            if tensor is not None:
                places.append(len(arguments))
                self._maps.extend([None] * len(flat([tensor])) if maps is None else [maps])
            arguments.extend([tensor] if maps is None else maps.described(tensor.base.data_ptr()))
        arguments.extend(constants)

        encoded = any(maps is not None for maps in self._maps)
        launcher, given = copy(compiled.run), []
        launch, launcher.launch = launcher.launch, lambda *handed: given.extend(handed)
        launcher(programs, 1, 1, 0, compiled.function, compiled.packed_metadata, None, None, None, *arguments)
        self._nested = isinstance(given[-1], tuple) and given[-1][0] is arguments[0]  # from Triton 3.7 on
        self._fixed = given[4 : -1 if self._nested else -len(arguments)]
        self._launch = getclosurevars(launch).nonlocals["launcher"] if encoded else launch
        for place in places:
            arguments[place] = None  # or the tensors would live as long
        self._count, self._groups, self._places = len(arguments), [], places
        for place, group in groups:
            at = places.index(place)
            there = [len(arguments) + index for index, each in enumerate(group) if each is not None]
            places[at : at + 1] = there
            self._groups.append((place, slice(len(arguments), len(arguments) + len(group))))
            arguments.extend([None] * len(group))
        self._arguments = arguments
        first = flat(tensors)[0]
        self._device = getattr(first, "base", first).device.index
        self._programs = programs
        self._compiled = compiled  # whose code must stay loaded

    def __call__(self, *addresses: int) -> None:
        """Start it on its tensors' device, on the stream that is current there."""
        if current_device() != self._device:  # making it the current one takes microseconds
            with torch.cuda.device(self._device):
                return self(*addresses)
        arguments = self._arguments.copy()
        for place, maps, address in zip(self._places, self._maps, addresses, strict=True):
            arguments[place] = address if maps is None else maps[address]
        if self._groups:
            for place, those in self._groups:
                arguments[place] = tuple(arguments[those])
            del arguments[self._count :]
        stream = current_stream(self._device)
        handed = [arguments] if self._nested else arguments
        self._launch(self._programs, 1, 1, stream, *self._fixed, *handed)


class _Maps(dict):
    """By address, the TMA descriptor of a tensor there."""

    def __init__(self, descriptor, encoding: dict):
        super().__init__()
        self._fields = {**vars(descriptor), "base": None}
        self._encoding = encoding

    def described(self, address: int) -> list:
        """What Triton makes of a descriptor among a kernel's arguments; the encoded one comes first."""
        from triton.backends.nvidia.driver import make_tensordesc_arg

        base = SimpleNamespace(data_ptr=lambda: address)
        return make_tensordesc_arg(SimpleNamespace(**{**self._fields, "base": base}), self._encoding)

    def __missing__(self, address: int):
        if len(self) >= MOST_ADDRESSES:
            self.clear()
        self[address], *_ = self.described(address)
        return self[address]

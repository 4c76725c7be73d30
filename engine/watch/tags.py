"""Where numbers came from: tags that stick to arrays, and to every view of them, for as long as they live."""

import weakref
from typing import NamedTuple

import numpy as np

NOTHING: frozenset = frozenset()


class Pointer(NamedTuple):
    """The numbers are addresses; `base` is the one that they were counted from."""

    base: int


class Tile(NamedTuple):
    """Rows low to high (high included) of a head of Q, K or V, and such columns of them."""

    tensor: str
    head: int
    low: int
    high: int
    first_column: int
    last_column: int


class Product(NamedTuple):
    """Products of Q and K, element by element, that are yet to be summed."""


class Tags:
    """Tags by the array that owns the memory, so that a transposed or broadcast view has them too."""

    def __init__(self):
        self._held: dict[int, tuple[weakref.ref, frozenset]] = {}

    def of(self, array) -> frozenset:
        """The tags of an array."""
        held = self._held.get(id(_owner(array)))
        return NOTHING if held is None else held[1]

    def put(self, array, tags: frozenset) -> None:
        """Let an array have exactly these tags."""
        owner = _owner(array)
        key = id(owner)
        self._held.pop(key, None)
        if tags:
            self._held[key] = weakref.ref(owner, lambda _: self._held.pop(key, None)), tags


def _owner(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array

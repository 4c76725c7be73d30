"""Results that are kept to be given again, as many as so many bytes allow: the oldest go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import Enum, EnumType
from functools import update_wrapper
from threading import RLock
from types import FunctionType
from typing import Any

import numpy as np


def kept(most: int, most_bytes: int) -> Callable[[Callable], Kept]:
    """Keep a function's results, `most` of them and `most_bytes` of arrays and text."""
    return lambda make: Kept(make, most, most_bytes)


# most of what a result holds, and nothing that has bytes to speak of
LEAVES = frozenset({bool, int, float, type(None), frozenset, FunctionType, EnumType})
_ways: list[Callable[[], None]] = []


def set_way(way: Callable[[], None]) -> None:
    """Let this be called before each piece of a long computation: a server's shorter work goes first."""
    _ways[:] = [way]


def give_way() -> None:
    """Between two pieces of a computation, with nothing locked that others may want."""
    for way in _ways:
        way()


@dataclass(slots=True)
class _Result:
    """What was made, and its bytes; None until it is measured again."""

    value: Any
    size: int | None = None


class Kept:
    """A function with its latest results; of several threads that ask for one at once the first makes it."""

    def __init__(self, make: Callable, most: int, most_bytes: int):
        self._make, self._most, self._most_bytes = make, most, most_bytes
        self._results: OrderedDict[Hashable, _Result] = OrderedDict()
        self._making: dict[Hashable, RLock] = {}
        self._lock = RLock()
        update_wrapper(self, make)

    def __call__(self, *args, **named):
        key = (args, *named.items())
        with self._lock:
            if key in self._results:
                return self._given(key)
        give_way()
        with self._lock:
            making = self._making.setdefault(key, RLock())
        with making:
            with self._lock:
                if key in self._results:
                    return self._given(key)
            try:
                value = self._make(*args, **named)
            finally:
                with self._lock:
                    self._making.pop(key, None)
            with self._lock:
                self._results[key] = _Result(value)
                while len(self._results) > self._most or self.bytes > self._most_bytes:
                    self._results.popitem(last=False)
        return value

    def _given(self, key: Hashable) -> Any:
        self._results.move_to_end(key)
        result = self._results[key]
        result.size = None  # arrays may come to a result when they are asked for
        return result.value

    @property
    def bytes(self) -> int:
        """Of all results."""
        for result in self._results.values():
            if result.size is None:
                result.size = array_bytes(result.value)
        return sum(result.size for result in self._results.values())

    def cache_clear(self) -> None:
        """Forget every result."""
        with self._lock:
            self._results.clear()


def array_bytes(value: Any) -> int:
    """Bytes of the arrays and texts that a value holds, in its attributes and in theirs, each once."""
    seen: set[int] = set()
    waiting, total = [value], 0
    while waiting:
        one = waiting.pop()
        if type(one) in LEAVES or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            total += one.nbytes
        elif isinstance(one, str | bytes):
            total += len(one)
        else:
            waiting.extend(_parts(one))
    return total


def _parts(value: Any) -> Iterable:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, tuple | list):
        return value
    plain = isinstance(value, type | Enum) or not hasattr(value, "__dict__")
    return () if plain else vars(value).values()

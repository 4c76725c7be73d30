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


def cached(most: int, most_bytes: int) -> Callable[[Callable], Cache]:
    """Keep a function's results, `most` of them and `most_bytes` of arrays and text."""
    return lambda make: Cache(make, most, most_bytes)


# most of what a result holds, and nothing that has bytes to speak of
LEAVES = frozenset({bool, int, float, type(None), frozenset, FunctionType, EnumType})


@dataclass(slots=True)
class _Result:
    """What was made, its bytes when they were counted last, and whether there may be others now."""

    value: Any
    size: int = 0
    uncounted: bool = False


class Cache:
    """A function with its latest results; of several threads that ask for one at once the first makes it."""

    def __init__(self, make: Callable, most: int, most_bytes: int):
        self._make, self._most, self._most_bytes = make, most, most_bytes
        self._results: OrderedDict[Hashable, _Result] = OrderedDict()
        self._uncounted: list[_Result] = []
        self._bytes = 0  # of all results, as counted
        self._making: dict[Hashable, RLock] = {}
        self._lock = RLock()
        update_wrapper(self, make)

    def __call__(self, *args, **named):
        key = (args, *named.items())
        with self._lock:
            if key in self._results:
                return self._given(key)
        with self._lock:
            making = self._making.setdefault(key, RLock())
        with making:
            with self._lock:
                if key in self._results:
                    return self._given(key)
            try:
                value = self._make(*args, **named)
                with self._lock:
                    self._results[key] = made = _Result(value)
                    self._count_later(made)
                    while len(self._results) > self._most or self._recounted() > self._most_bytes:
                        self._drop(self._results.popitem(last=False)[1])
            finally:  # and not before it is kept: who asks in between would make it again
                with self._lock:
                    self._making.pop(key, None)
        return value

    def _recounted(self) -> int:
        """Bytes of all results; a few of the latest may be left for the next time, as counting takes long."""
        return self.bytes if len(self._uncounted) > self._most // 16 else self._bytes

    def _given(self, key: Hashable) -> Any:
        self._results.move_to_end(key)
        result = self._results[key]
        self._count_later(result)  # arrays may come to a result when they are asked for
        return result.value

    def _count_later(self, result: _Result) -> None:
        if not result.uncounted:
            result.uncounted = True
            self._uncounted.append(result)

    def _drop(self, result: _Result) -> None:
        self._bytes -= result.size
        result.size, result.uncounted = 0, False

    @property
    def bytes(self) -> int:
        """Of all results."""
        with self._lock:
            for result in self._uncounted:
                if result.uncounted:  # and not dropped meanwhile
                    size = array_bytes(result.value)
                    self._bytes += size - result.size
                    result.size, result.uncounted = size, False
            self._uncounted.clear()
            return self._bytes

    def cache_clear(self) -> None:
        """Forget every result."""
        with self._lock:
            self._results.clear()
            self._uncounted.clear()
            self._bytes = 0


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

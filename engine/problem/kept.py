"""Results that are kept to be given again, as many as so many bytes allow: the oldest go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from functools import update_wrapper
from threading import RLock
from typing import Any

import numpy as np


def kept(most: int, most_bytes: int) -> Callable[[Callable], Kept]:
    """Keep a function's results, `most` of them and `most_bytes` of arrays and text."""
    return lambda make: Kept(make, most, most_bytes)


class Kept:
    """A function with its latest results; of several threads that ask for one at once the first makes it."""

    def __init__(self, make: Callable, most: int, most_bytes: int):
        self._make, self._most, self._most_bytes = make, most, most_bytes
        self._results: OrderedDict[Hashable, Any] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}  # of those that nobody has asked for since they were measured
        self._making: dict[Hashable, RLock] = {}
        self._lock = RLock()
        update_wrapper(self, make)

    def __call__(self, *args, **named):
        key = (args, *named.items())
        with self._lock:
            if key in self._results:
                return self._given(key)
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
                self._results[key] = value
                while len(self._results) > self._most or self.bytes > self._most_bytes:
                    self._sizes.pop(self._results.popitem(last=False)[0], None)
        return value

    def _given(self, key: Hashable) -> Any:
        self._results.move_to_end(key)
        self._sizes.pop(key, None)  # arrays may come to a result when they are asked for
        return self._results[key]

    @property
    def bytes(self) -> int:
        """Of all results."""
        for key in self._results.keys() - self._sizes.keys():
            self._sizes[key] = array_bytes(self._results[key])
        return sum(self._sizes.values())

    def cache_clear(self) -> None:
        """Forget every result."""
        with self._lock:
            self._results.clear()
            self._sizes.clear()


def array_bytes(value: Any) -> int:
    """Bytes of the arrays and texts that a value holds, in its attributes and in theirs, each once."""
    seen: set[int] = set()
    waiting, total = [value], 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
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
    return vars(value).values() if hasattr(value, "__dict__") and not isinstance(value, type) else ()

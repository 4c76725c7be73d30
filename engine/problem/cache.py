"""Results kept to be given again, as many as so many bytes allow, and files that visitors brought."""

from __future__ import annotations

import atexit
import hashlib
import os
import pickle
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from enum import EnumType
from functools import lru_cache, update_wrapper, wraps
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from tempfile import gettempdir
from threading import RLock
from types import FunctionType
from typing import Any

import numpy as np


def cached(most: int, most_bytes: int, key: Callable | None = None) -> Callable[[Callable], Cache]:
    """Keep a function's results, `most` of them and `most_bytes` of arrays and text.

    key: (arguments, named ones) -> what calls that are alike have in common; else both, which are hashable.
    """
    return lambda make: Cache(make, most, most_bytes, key or (lambda args, named: (args, *named.items())))


def kept_with(most: int) -> Callable[[Callable], Callable]:
    """Keep that many results of a function with its first argument, and no longer: a visitor's own recording,
    and what was worked out of it, go when they leave."""

    def keeping(make: Callable) -> Callable:
        name = f"{make.__module__}.{make.__qualname__}"

        @wraps(make)
        def given(holder: Any, *more: Hashable) -> Any:
            results = vars(holder).setdefault(name, {})
            with suppress(KeyError):  # another thread may drop it
                return results[more]
            found = results[more] = make(holder, *more)
            for oldest in list(results)[:-most]:
                results.pop(oldest, None)
            return found

        return given

    return keeping


def by_content(args: tuple, named: dict[str, Any]) -> bytes:
    """A key of a call that is given arrays: by what these hold."""
    return sha256(pickle.dumps((args, named), pickle.HIGHEST_PROTOCOL)).digest()


# most of what a result holds, and nothing that has bytes to speak of
LEAVES = frozenset({bool, int, float, type(None), frozenset, FunctionType, EnumType})


class Cache:
    """A function with its latest results; of several threads that ask for one at once the first makes it."""

    def __init__(self, make: Callable, most: int, most_bytes: int, key: Callable):
        self._make, self._most, self._most_bytes, self._key = make, most, most_bytes, key
        self._results: OrderedDict[Hashable, Any] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}  # their bytes, as counted last
        self._used: set[Hashable] = set()  # since then: arrays may come to a result when they are asked for
        self._making: dict[Hashable, RLock] = {}
        self._lock = RLock()
        update_wrapper(self, make)

    def __call__(self, *args, **named):
        key = self._key(args, named)
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
                with self._lock:
                    self._results[key] = value
                    self._used.add(key)
                    self._drop_oldest()
            finally:  # and not before it is held: who asks in between would make it again
                with self._lock:
                    self._making.pop(key, None)
        return value

    def _given(self, key: Hashable) -> Any:
        self._results.move_to_end(key)
        self._used.add(key)
        return self._results[key]

    def _drop_oldest(self) -> None:
        """Forget what is too much; a few of the latest are counted the next time, as counting takes long."""
        if len(self._used) > self._most // 16:
            self._count()
        while len(self._results) > self._most or sum(self._sizes.values()) > self._most_bytes:
            key, _ = self._results.popitem(last=False)
            self._sizes.pop(key, None)

    def _count(self) -> None:
        self._sizes |= {key: array_bytes(self._results[key]) for key in self._used & self._results.keys()}
        self._used.clear()

    @property
    def bytes(self) -> int:
        """Of all results."""
        with self._lock:
            self._count()
            return sum(self._sizes.values())

    def cache_clear(self) -> None:
        """Forget every result."""
        with self._lock:
            for held in (self._results, self._sizes, self._used):
                held.clear()


def array_bytes(value: Any) -> int:
    """Bytes of the arrays and texts that a value holds, in its attributes and in theirs, each once."""
    seen: set[int] = set()
    waiting, total = [value], 0
    while waiting:
        one = waiting.pop()
        kind = _kind(type(one))
        if kind is None or id(one) in seen:
            continue
        seen.add(id(one))
        if kind is np.ndarray:
            total += one.nbytes
        elif kind is str:
            total += len(one)
        else:
            waiting.extend(one if kind is list else one.values() if kind is dict else vars(one).values())
    return total


@lru_cache(maxsize=1024)
def _kind(kind: type) -> type | None:
    """What values of a type are looked into as: array, text, dict, list, object; None: they hold nothing."""
    if kind in LEAVES or isinstance(kind, EnumType) or issubclass(kind, type):
        return None
    for like, kinds in ((np.ndarray, np.ndarray), (str, (str, bytes)), (dict, dict), (list, (list, tuple))):
        if issubclass(kind, kinds):
            return like
    return object if kind.__dictoffset__ else None


FOLDER = "ATTENTION_TILES_KEPT"  # in the environment: where they lie
MOST_KEPT = 32  # of a kind
os.environ.setdefault(FOLDER, str(Path(gettempdir(), f"attention-tiles-{token_hex(8)}")))


def keep_file(data: bytes, suffix: str) -> str:
    """Keep a file, and forget the oldest of its kind beyond MOST_KEPT; the key that it is found by."""
    key, folder = hashlib.sha256(data).hexdigest()[:12], Path(os.environ[FOLDER])
    if not folder.is_dir():
        folder.mkdir(mode=0o700)
        atexit.register(rmtree, folder, ignore_errors=True)
    if not (written := kept_file(key, suffix)).is_file():
        written.write_bytes(data)
    oldest = sorted(folder.glob(f"*{suffix}"), key=lambda path: path.stat().st_mtime)
    for path in oldest[:-MOST_KEPT]:
        path.unlink(missing_ok=True)
    return key


def kept_file(key: str, suffix: str) -> Path:
    """Where it lies, if it is still there."""
    return Path(os.environ[FOLDER], key + suffix)

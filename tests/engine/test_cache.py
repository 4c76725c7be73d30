"""What is kept is bounded by bytes, those included that come to a result when they are asked for."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
import pytest

from engine.problem.cache import array_bytes, by_content, cached


class Grows:
    def __init__(self, number: int):
        self.first = np.zeros(number, np.uint8)

    @cached_property
    def later(self) -> np.ndarray:
        return np.zeros(1000, np.uint8)


def noting(most_bytes: int, make=Grows, most: int = 10):
    """What is made is kept; and a list of what was asked to be made."""
    made = []
    return cached(most=most, most_bytes=most_bytes)(lambda given: (made.append(given), make(given))[1]), made


def test_the_oldest_go_when_the_bytes_are_too_many():
    make, made = noting(250)
    for number in (100, 101, 100, 102):  # 101 is the one that nobody has asked for again
        make(number)
    assert (made, make.bytes) == ([100, 101, 102], 202)
    make(101)
    assert made == [100, 101, 102, 101]
    few, _ = noting(10**6, lambda number: (np.zeros(1, np.uint8), {"again": Grows(number)}), most=3)
    for number in range(1, 6):  # bounded by their number
        few(number)
    assert few.bytes == (1 + 3) + (1 + 4) + (1 + 5)
    few.cache_clear()
    assert few.bytes == 0


def test_arrays_that_come_later_count_and_a_result_too_large_is_given_but_not_kept():
    make, made = noting(1100)
    assert array_bytes(make(100)) == 100
    assert array_bytes(make(100).later) == 1000
    make(50)
    assert make.bytes == 50
    assert len(make(2000).first) == 2000
    make(2000)
    assert made == [100, 50, 2000, 2000]


def test_what_many_ask_for_at_once_is_made_once():
    def slowly(name: str) -> str:
        time.sleep(0.05)
        return f"the text of {name}"

    make, made = noting(100, slowly, most=2)
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(make, ["it"] * 8))) == 1
    assert made == ["it"]
    assert make.bytes == len("the text of it")


def test_from_when_it_is_begun_there_is_no_moment_at_which_nobody_makes_it_or_has_it(monkeypatch):
    make = cached(most=2, most_bytes=100)(lambda name: seen.append(True) or f"the text of {name}")
    lock, seen = make._lock, []

    class Told:
        """The lock, and whether others find it made, or being made, each time that they may look."""

        def __enter__(self):
            lock.acquire()

        def __exit__(self, *_):
            if seen:
                seen.append(bool(make._making or make._results))
            lock.release()

    monkeypatch.setattr(make, "_lock", Told())
    make("it")
    assert len(seen) > 2
    assert all(seen)


def test_what_cannot_be_made_is_tried_again():
    def refused(name: str):
        raise ValueError(name)

    make, tries = noting(100, refused, most=2)
    for _ in range(2):
        with pytest.raises(ValueError, match="it"):
            make("it")
    assert tries == ["it", "it"]


def test_what_is_given_the_same_numbers_is_made_once_and_the_oldest_go():
    made = []
    kept = cached(most=2, most_bytes=100, key=by_content)
    make = kept(lambda numbers, more: made.append((numbers.tolist(), more)) or len(made))
    for numbers, more in (([1, 2], 0), ([1, 2], 0), ([1, 3], 0), ([1, 2], 1)):
        make(np.array(numbers), more)
    assert made == [([1, 2], 0), ([1, 3], 0), ([1, 2], 1)]
    make(np.array([1, 2]), 0)
    assert len(made) == 4

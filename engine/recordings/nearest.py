"""The recorded row nearest to a scenario: by several criteria, each deciding where those before it cannot."""

from collections.abc import Callable, Iterable
from math import log2
from operator import attrgetter
from typing import Any, TypeVar

Candidate = TypeVar("Candidate")
Property = Callable[[Any], Any]
Criterion = Callable[[Any, Any], float]
# of a row or a scenario
length, head_dim = attrgetter("problem.seq_kv"), attrgetter("problem.head_dim")


def nearest(
    candidates: Iterable[Candidate], wanted: Any, *criteria: Criterion, of: Property = lambda one: one
) -> Candidate | None:
    """The candidate with the least distance to what is wanted, the first of several; None of none.

    `of` gives what is compared of a candidate, where that is not the candidate itself.
    """
    distances = ((tuple(far(of(one), wanted) for far in criteria), one) for one in candidates)
    return min(distances, key=lambda pair: pair[0], default=(None, None))[1]


def nearest_length(lengths: Iterable[int], keys: int) -> int | None:
    """The number of keys with the fewest doublings to another, the smaller of two."""
    return nearest(sorted(lengths), keys, doublings(lambda length: length))


def differing(*properties: Property) -> Criterion:
    """How many properties differ."""
    return lambda one, other: sum(get(one) != get(other) for get in properties)


def difference(get: Property) -> Criterion:
    """How far a number is from another."""
    return lambda one, other: abs(get(one) - get(other))


def doublings(*properties: Property) -> Criterion:
    """How many times numbers must be doubled or halved, all together."""
    return lambda one, other: sum(abs(log2(get(one) / get(other))) for get in properties)


def masked(one: Any) -> bool:
    """Whether a row's or a scenario's mask hides the keys after a query."""
    return not one.problem.mask.looks_ahead


def windowed(one: Any) -> bool:
    """Whether its mask is a window."""
    return one.problem.mask.window is not None


def further(one: Any) -> tuple:
    """What else its mask and its scores have: documents, a prefix, terms; and whether V has another width."""
    problem = one.problem
    return problem.mask.packed, bool(problem.mask.prefix), problem.terms, problem.head_dim_v is None


def all_heads(one: Any) -> int:
    """Its query heads over the batch."""
    return one.problem.batch * one.problem.heads


def sharing_heads(one: Any) -> float:
    """Its query heads per key head."""
    return one.problem.heads / one.problem.kv_heads


# Of scenarios: which keys are hidden, what becomes of scores, the head dimension, and how large all else is.
MASK, WIDTH = differing(masked, windowed, further), difference(head_dim)
SIZES = doublings(length, all_heads, sharing_heads)

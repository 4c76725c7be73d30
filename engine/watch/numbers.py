"""What attention gives in float64, and what it would give with one thing wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from engine.problem.bounds import blocks, visible
from engine.problem.dtype import dtype_named, round_to
from engine.problem.inputs import make_inputs
from engine.problem.problem import Problem

EXP2 = 2.0**-17  # what exp2 in float32 is off by
LN_2 = float(np.log(2.0))
Forgotten = tuple[str, str, np.ndarray, "Flaw | None"]


class Flaw(NamedTuple):
    """What an online softmax does wrong: scores times a factor, exponents too, another mask, or no alpha."""

    factor: float = 1.0
    base: float = 1.0
    mask: np.ndarray | None = None
    rescale_out: bool = True
    rescale_sum: bool = True


@dataclass(frozen=True)
class Numbers:
    """One attention's inputs, float64 [batch, heads, rows, head_dim], and what it must give.

    out, lse: [batch * heads, seq_q, head_dim] and [batch * heads, seq_q], lse natural.
    tolerance: of an element of O: two roundings, of P and of O, in the tensors' dtype.
    """

    problem: Problem
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    out: np.ndarray
    lse: np.ndarray
    tolerance: float

    @classmethod
    def of(cls, problem: Problem, stretch: float = 1.0, seed: int = 0) -> Numbers:
        """The numbers of a problem, the same for a seed; stretch multiplies Q, and so the scores."""
        q, k, v = make_inputs(problem, seed, problem.batch * problem.heads)
        q, k, v = (
            array.astype(np.float64) for array in (round_to(q * np.float32(stretch), problem.dtype), k, v)
        )
        q = q.reshape(problem.batch, problem.heads, problem.seq_q, -1)
        keys = problem.batch, problem.kv_heads, problem.seq_kv
        k, v = (each[:: problem.group].reshape(*keys, -1) for each in (k, v))
        scores, values = _scores(problem, q, k), _flat(np.repeat(v, problem.group, 1))
        seen = visible(problem)
        out, lse = _softmax(scores, seen, values)
        out = np.nan_to_num(out)  # rows that see no key
        rounding = max(dtype_named(problem.dtype).eps, EXP2)
        tolerance = rounding * (np.abs(out).max() + np.abs(v).max())
        return cls(problem, q, k, v, out, lse, float(tolerance))

    @property
    def tensors(self) -> dict[str, np.ndarray]:
        """Q, K and V by name."""
        return {"Q": self.q, "K": self.k, "V": self.v}

    def forgotten(self, block_kv: int, visited: np.ndarray) -> Iterator[Forgotten]:
        """Kind, what was forgotten, the O [batch * heads, seq_q, head_dim] that comes of it, and its Flaw.

        visited: [seq_q, seq_kv] bool, the tiles that were computed. O is NaN in rows that see no key.
        """
        problem = self.problem
        s, v = _scores(problem, self.q, self.k), _flat(np.repeat(self.v, problem.group, 1))
        seen, scale = visible(problem), problem.scale
        times = "the scores are not multiplied by", "the scores are multiplied by"
        log2e = "log2(e) = 1.4427"
        for kind, words, factor in (
            ("missing_scale", f"{times[0]} the scale, {scale:.6g}", 1 / scale),
            ("missing_scale", f"{times[1]} the scale, {scale:.6g}, twice", scale),
            ("wrong_base", f"the exponentials are of base 2, and {times[0]} {log2e}", LN_2),  # m is as it was
            ("wrong_base", f"the exponentials are of base e, but {times[1]} {log2e}", 1 / LN_2),
        ):
            flaw = Flaw(base=LN_2) if factor == LN_2 else Flaw(factor)
            yield kind, words, _softmax(s * factor, seen, v)[0], flaw
        yield from self._masks(s, visited, v)
        order = [range(first, first + block_kv) for first in range(0, problem.seq_kv, block_kv)]
        *_, (_, _, total, out) = online(s, seen, v, order, Flaw())
        yield "missing_division", "O is not divided by the sum l of its row", out, None
        yield "missing_division", "O is divided by the sum l of its row twice", self.out / _some(total), None
        for kept, summed, words in (
            (False, True, "O is not multiplied by alpha when the running maximum rises"),
            (True, False, "the running sum l is not multiplied by alpha when the running maximum rises"),
            (False, False, "neither O nor l is multiplied by alpha when the running maximum rises"),
        ):
            flaw = Flaw(rescale_out=kept, rescale_sum=summed)
            *_, (_, _, total, out) = online(s, seen, v, order, flaw)
            yield "missing_rescale", words, out / _some(total), flaw
        yield "missing_softmax", "the softmax is missing: O is S V", np.where(seen, s, 0.0) @ v, None
        padded = blocks(problem.seq_kv, block_kv) * block_kv - problem.seq_kv
        if padded:
            wide = np.concatenate([s, np.zeros((*s.shape[:2], padded))], 2)
            more = np.concatenate([v, np.zeros((len(v), padded, v.shape[2]))], 1)
            allowed = np.concatenate([seen, np.ones((len(seen), padded), bool)], 1)
            words = f"{padded} keys past the last one count as keys with a score of 0"
            yield "ragged_end", words, _softmax(wide, allowed, more)[0], None

    def _masks(self, s, visited, v) -> Iterator[Forgotten]:
        key, query = np.arange(visited.shape[1]), np.arange(visited.shape[0])[:, None]
        position = self.problem.positions(query)
        causal = self.problem.mask.causal
        for kind, words, mask in (
            (
                ("missing_mask", "the causal mask is not applied", True),
                ("wrong_mask", "the causal mask hides the query's own key", key < position),
                ("wrong_mask", "the causal mask shows one key after the query", key <= position + 1),
                ("wrong_mask", "the causal mask aligns the first query with the first key", key <= query),
                ("wrong_mask", "the causal mask is turned around", key >= position),
            )
            if causal
            else (("wrong_mask", "a causal mask is applied, and none was asked", key <= position),)
        ):
            yield kind, words, _softmax(s, mask & visited, v)[0], Flaw(mask=mask & visited)

    def first_wrong(self, flaw: Flaw, head: int, row: int, order: Sequence[range]) -> dict[str, Any] | None:
        """After which block of keys, in order, a row first differs: its m, alpha, l and O as they must be and
        as the flaw makes them, of O the first number, not yet divided by l. None where it never does.
        """
        scores, seen = _scores(self.problem, self.q, self.k)[head, row], visible(self.problem)
        values = _flat(np.repeat(self.v, self.problem.group, 1))[head, :, :1]
        other = seen if flaw.mask is None else np.broadcast_to(flaw.mask, seen.shape)
        right, wrong = (
            online(scores[None, None] * each.factor, mask[row][None], values[None], order, each)
            for mask, each in ((seen, Flaw()), (other, flaw))
        )
        for at, pair in enumerate(zip(right, wrong, strict=True)):
            must, found = ([float(number.squeeze()) for number in step] for step in pair)
            if not np.allclose(must, found, rtol=1e-6, atol=1e-9):
                told = ([each if np.isfinite(each) else None for each in side] for side in (must, found))
                return {"at": at, **dict(zip(("must", "found"), told, strict=True))}
        return None


def online(scores, seen, v, order: Iterable[range], flaw: Flaw) -> Iterator[tuple]:
    """m, alpha, l and O before its division after each block of keys, by the online softmax with a flaw."""
    m = np.full(scores.shape[:2], -np.inf)
    out, total = np.zeros((*scores.shape[:2], v.shape[2])), np.zeros(scores.shape[:2])
    for keys in order:
        block = slice(keys.start, keys.stop)
        part, before = np.where(seen[:, block], scores[:, :, block], -np.inf), m
        m = np.maximum(m, part.max(2))
        reference = np.where(np.isneginf(m), 0.0, m)
        alpha = np.exp(flaw.base * (before - reference))
        weights = np.exp(flaw.base * (part - reference[:, :, None]))
        total = total * (alpha if flaw.rescale_sum else 1.0) + weights.sum(2)
        out = out * (alpha[:, :, None] if flaw.rescale_out else 1.0) + weights @ v[:, block]
        told = flaw.rescale_out and flaw.rescale_sum
        yield m, alpha if told else np.where(np.isneginf(before), alpha, 1.0), total, out


def _scores(problem: Problem, q, k) -> np.ndarray:
    """[batch * heads, seq_q, seq_kv] scaled."""
    return _flat(q) @ _flat(np.repeat(k, problem.group, 1)).transpose(0, 2, 1) * problem.scale


def _flat(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, *array.shape[2:])


def _some(total: np.ndarray) -> np.ndarray:
    return np.where(total == 0.0, 1.0, total)[:, :, None]


def _softmax(scores, seen, v) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.where(seen, scores, -np.inf)
    largest = hidden.max(2, keepdims=True)
    weights = np.exp(hidden - np.where(np.isneginf(largest), 0.0, largest))
    total = weights.sum(2)
    with np.errstate(divide="ignore"):
        lse = np.where(np.isneginf(largest), 0.0, largest)[:, :, 0] + np.log(total)
    return np.where(total[:, :, None] > 0, weights @ v / _some(total), np.nan), lse

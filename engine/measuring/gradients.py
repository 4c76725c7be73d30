"""What the gradients of a head must be: float64, a chunk of queries at a time. Imports torch when called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.problem.problem import Problem

CHUNK = 2048  # queries whose scores are held at once


@dataclass(frozen=True)
class ExactGradients:
    """dQ, dK and dV of some (batch, head) pairs, float64, and the greatest error that is no bug."""

    places: tuple[tuple[int, int], ...]
    gradients: tuple[Any, ...]
    allowed: float

    def error(self, gradients) -> float:
        """Greatest difference of a result (dQ, dK, dV) to float64; NaN if it has one."""
        import torch

        differences = [
            (given[place].double() - exact).abs().max()
            for place, own in zip(self.places, self.gradients, strict=True)
            for given, exact in zip(gradients, own, strict=True)
        ]
        return float(torch.stack(differences).max())


def exact_gradients(q, k, v, d_out, problem: Problem) -> ExactGradients:
    """Of the first and the last head; heads must not be shared.

    Allowed is, as for the forward pass, 4 times the error of unfused PyTorch plus 4 rounding units.
    """
    import torch

    places = tuple({(0, 0), (problem.batch - 1, problem.heads - 1)})
    exact, allowed = [], 0.0
    for place in places:
        own = [tensor[place] for tensor in (q, k, v, d_out)]
        exact.append(_gradients(*(tensor.double() for tensor in own), problem))
        for rounded, true in zip(_gradients(*own, problem), exact[-1], strict=True):
            unit = torch.finfo(q.dtype).eps * float(true.abs().max())
            allowed = max(allowed, 4 * float((rounded.double() - true).abs().max()) + 4 * unit)
    return ExactGradients(places, tuple(exact), allowed)


def _gradients(q, k, v, d_out, problem: Problem) -> tuple:
    """dQ, dK, dV of one head in the tensors' dtype, summed over chunks in at least float32."""
    import torch

    wide = torch.promote_types(q.dtype, torch.float32)
    keys = torch.arange(problem.seq_kv, device=q.device)
    d_q = torch.empty_like(q)
    d_k, d_v = (torch.zeros(k.shape, dtype=wide, device=k.device) for _ in range(2))
    for start in range(0, problem.seq_q, CHUNK):
        rows = slice(start, start + CHUNK)
        scores = (q[rows] @ k.mT) * problem.scale
        if not problem.mask.looks_ahead:
            position = torch.arange(start, start + len(scores), device=q.device)[:, None] + problem.offset
            hidden = keys > position
            if problem.mask.window is not None:
                hidden |= keys <= position - problem.mask.window
            scores.masked_fill_(hidden, -torch.inf)
        weights = torch.softmax(scores, -1).nan_to_num_(0.0)
        d_weights = d_out[rows] @ v.mT
        delta = (weights * d_weights).sum(-1, keepdim=True, dtype=wide).to(q.dtype)
        d_scores = weights * (d_weights - delta)
        d_q[rows] = (d_scores @ k) * problem.scale
        d_k += (d_scores.mT @ q[rows]).to(wide) * problem.scale
        d_v += (weights.mT @ d_out[rows]).to(wide)
    return d_q, d_k, d_v

"""What a result must be, in float64, and how far off it may be. Imports torch when called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.problem.bounds import visible
from engine.problem.problem import Problem

SAMPLED_HEADS = 4
SAMPLED_ROWS = 32
CHUNK = 2048  # queries whose scores are held at once
TIMES = 4  # the error of unfused PyTorch, and rounding units, that a result may be off
ALLOWED = (
    f"{TIMES} times the error of unfused PyTorch on the same rows, plus {TIMES} rounding units of the largest"
    " output"
)


@dataclass(frozen=True)
class ExactOutput:
    """What sampled rows of O must be.

    Attributes:
        places: (batch, head) of each sampled head.
        rows: the sampled queries of each.
        outputs: [heads sampled, rows, head_dim] float64 tensor.
        allowed: greatest error that is no bug.
    """

    places: tuple[tuple[int, int], ...]
    rows: Any
    outputs: Any
    allowed: float

    def error(self, out) -> float:
        """Greatest difference of a result to float64; NaN if it has one."""
        import torch

        sampled = torch.stack([out[place][self.rows] for place in self.places])
        return float((sampled.double() - self.outputs).abs().max())


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


def exact_output(q, k, v, problem: Problem) -> ExactOutput:
    """Sampled rows in float64, so that no N x N matrix is needed; and how far off unfused PyTorch is."""
    import torch

    rows = _spread(problem.seq_q, SAMPLED_ROWS, q.device)
    flat = _spread(problem.batch * problem.heads, SAMPLED_HEADS, "cpu").tolist()
    places = tuple(divmod(index, problem.heads) for index in flat)
    group = problem.group
    outputs, errors = [], []
    for batch, head in places:
        own = q[batch, head, rows], k[batch, head // group], v[batch, head // group]
        exact = _attended(*(tensor.double() for tensor in own), rows, problem)
        outputs.append(exact)
        errors.append(float((_attended(*own, rows, problem).double() - exact).abs().max()))
    outputs = torch.stack(outputs)
    unit = torch.finfo(q.dtype).eps * float(outputs.abs().max())
    return ExactOutput(places, rows, outputs, TIMES * max(errors) + TIMES * unit)


def exact_gradients(q, k, v, d_out, problem: Problem) -> ExactGradients:
    """Of the first and the last head; heads must not be shared. Allowed is what ALLOWED says."""
    import torch

    places = tuple({(0, 0), (problem.batch - 1, problem.heads - 1)})
    exact, allowed = [], 0.0
    for place in places:
        own = [tensor[place] for tensor in (q, k, v, d_out)]
        exact.append(_gradients(*(tensor.double() for tensor in own), problem))
        for rounded, true in zip(_gradients(*own, problem), exact[-1], strict=True):
            unit = torch.finfo(q.dtype).eps * float(true.abs().max())
            error = float((rounded.double() - true).abs().max())
            allowed = max(allowed, TIMES * error + TIMES * unit)
    return ExactGradients(places, tuple(exact), allowed)


def hidden_keys(problem: Problem, queries):
    """[queries, seq_kv] bool tensor of the keys that some queries do not see; None where they see all."""
    import torch

    if not problem.mask.hides:
        return None
    return torch.as_tensor(~visible(problem, queries.cpu().numpy()), device=queries.device)


def _weights(q, k, queries, problem: Problem):
    """[queries, seq_kv]: P of some queries, in the dtype of what is given; 0 for one that sees no key."""
    import torch

    scores = (q @ k.mT) * problem.scale
    hidden = hidden_keys(problem, queries)
    if hidden is not None:
        scores.masked_fill_(hidden, -torch.inf)
    return torch.softmax(scores, -1).nan_to_num_(0.0)


def _attended(q, k, v, queries, problem: Problem):
    """[queries, head_dim]: attention of some queries, in the dtype of what is given."""
    return _weights(q, k, queries, problem) @ v


def _gradients(q, k, v, d_out, problem: Problem) -> tuple:
    """dQ, dK, dV of one head in the tensors' dtype, summed over chunks in at least float32."""
    import torch

    wide = torch.promote_types(q.dtype, torch.float32)
    d_q = torch.empty_like(q)
    d_k, d_v = (torch.zeros(k.shape, dtype=wide, device=k.device) for _ in range(2))
    for start in range(0, problem.seq_q, CHUNK):
        rows = slice(start, start + CHUNK)
        queries = torch.arange(start, min(start + CHUNK, problem.seq_q), device=q.device)
        weights = _weights(q[rows], k, queries, problem)
        d_weights = d_out[rows] @ v.mT
        delta = (weights * d_weights).sum(-1, keepdim=True, dtype=wide).to(q.dtype)
        d_scores = weights * (d_weights - delta)
        d_q[rows] = (d_scores @ k) * problem.scale
        d_k += (d_scores.mT @ q[rows]).to(wide) * problem.scale
        d_v += (weights.mT @ d_out[rows]).to(wide)
    return d_q, d_k, d_v


def _spread(length: int, most: int, device):
    """At most so many indices, evenly spread, the first and the last among them."""
    import torch

    return torch.linspace(0, length - 1, min(length, most), device=device).round().long().unique()

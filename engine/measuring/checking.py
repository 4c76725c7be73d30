"""Each result is held against float64 before its time counts. Imports torch when called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.problem.problem import Problem

SAMPLED_HEADS = 4
SAMPLED_ROWS = 32
ALLOWED = "4 times the error of unfused PyTorch on the same rows, plus 4 rounding units of the largest output"


@dataclass(frozen=True)
class Reference:
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


def reference(q, k, v, problem: Problem) -> Reference:
    """Sampled rows in float64, so that no N x N matrix is needed; and how far off unfused PyTorch is."""
    import torch

    rows = _spread(problem.seq_q, SAMPLED_ROWS, q.device)
    flat = _spread(problem.batch * problem.heads, SAMPLED_HEADS, "cpu").tolist()
    places = tuple(divmod(index, problem.heads) for index in flat)
    group = problem.heads // problem.kv_heads
    outputs, errors = [], []
    for batch, head in places:
        own = q[batch, head, rows], k[batch, head // group], v[batch, head // group]
        exact = _attended(*(tensor.double() for tensor in own), rows, problem)
        outputs.append(exact)
        errors.append(float((_attended(*own, rows, problem).double() - exact).abs().max()))
    outputs = torch.stack(outputs)
    unit = torch.finfo(q.dtype).eps * float(outputs.abs().max())
    return Reference(places, rows, outputs, 4 * max(errors) + 4 * unit)


def _attended(q, k, v, rows, problem: Problem):
    """[rows, head_dim]: attention of some queries, in the dtype of what is given."""
    import torch

    scores = (q @ k.mT) * problem.head_dim**-0.5
    if not problem.mask.looks_ahead:
        position = rows[:, None] + problem.offset
        key = torch.arange(problem.seq_kv, device=q.device)[None, :]
        hidden = key > position
        if problem.mask.window is not None:
            hidden |= key <= position - problem.mask.window
        scores = scores.masked_fill(hidden, -torch.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v


def _spread(length: int, most: int, device):
    """At most so many indices, evenly spread, the first and the last among them."""
    import torch

    return torch.linspace(0, length - 1, min(length, most), device=device).round().long().unique()

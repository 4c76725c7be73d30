"""What a result must be, in float64, and how far off it may be. Imports torch when called."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.measuring.machine import torch
from engine.problem.bounds import visible
from engine.problem.problem import Problem
from engine.problem.terms import SINK, SLOPE

SAMPLED_HEADS = 4
SAMPLED_ROWS = 32
CHUNK = 2048  # queries whose scores are held at once
TIMES = 4  # the error of unfused PyTorch, and rounding units, that a result may be off
ALLOWED = (
    f"{TIMES} times the error of unfused PyTorch on the same rows, plus {TIMES} rounding units of the largest"
    " output"
)


@dataclass(frozen=True)
class Exact:
    """What the results of a call must be where they are compared."""

    places: Sequence[tuple]  # the indices of each place: batch, head, and of O which queries
    expected: Sequence[tuple]  # at each place O, or dQ, dK and dV, float64 tensors
    allowed: float  # greatest error that is no bug

    def error(self, found) -> float:
        """Greatest difference of O, or of (dQ, dK, dV), to float64; NaN if it has one."""
        found = found if isinstance(found, tuple) else (found,)
        differences = [
            (given[place].double() - exact).abs().max()
            for place, own in zip(self.places, self.expected, strict=True)
            for given, exact in zip(found, own, strict=True)
        ]
        return float(torch.stack(differences).max())


def options_of(problem: Problem) -> dict[str, Any]:
    """Mask and terms of a problem as `kernels.attention` takes them, on this machine's device."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    every = {"sinks": ("sinks", SINK), "slopes": ("alibi_slopes", SLOPE)}
    found = {
        name: torch.full((problem.heads,), value, device=device)
        for term, (name, value) in every.items()
        if term in problem.terms
    }
    cap = {"softcap": problem.softcap} if problem.softcap else {}
    return problem.mask.arguments(problem.seq_kv) | found | cap


def exact_output(q, k, v, problem: Problem) -> Exact:
    """Sampled rows in float64, so that no N x N matrix is needed; and how far off unfused PyTorch is."""
    rows = _spread(problem.seq_q, SAMPLED_ROWS, q.device)
    heads = _spread(problem.batch * problem.heads, SAMPLED_HEADS, "cpu").tolist()

    def attended(place: tuple, made: Callable) -> tuple:
        batch, head, _ = place
        own = q[place], k[batch, head // problem.group], v[batch, head // problem.group]
        return (_attended(*map(made, own), rows, problem),)

    return _exact([(*divmod(head, problem.heads), rows) for head in heads], attended, q.dtype)


def exact_gradients(q, k, v, d_out, problem: Problem) -> Exact:
    """Of the first and the last head; heads must not be shared. Allowed is what ALLOWED says."""

    def found(place: tuple, made: Callable) -> tuple:
        return gradients(*(made(tensor[place]) for tensor in (q, k, v, d_out)), problem)

    return _exact([*{(0, 0), (problem.batch - 1, problem.heads - 1)}], found, q.dtype)


def _exact(places: list[tuple], compute: Callable[[tuple, Callable], tuple], dtype: Any) -> Exact:
    """What is computed at these places in float64, and what may be off by what it is in the dtype."""
    exact, rounded = (
        [compute(place, made) for place in places] for made in (torch.Tensor.double, torch.clone)
    )
    allowed = 0.0
    for own, others in zip(zip(*exact, strict=True), zip(*rounded, strict=True), strict=True):
        errors = [float((other.double() - each).abs().max()) for each, other in zip(own, others, strict=True)]
        unit = torch.finfo(dtype).eps * max(float(each.abs().max()) for each in own)
        allowed = max(allowed, TIMES * (max(errors) + unit))
    return Exact(places, exact, allowed)


def gradients(q, k, v, d_out, problem: Problem) -> tuple:
    """dQ, dK, dV of one head in the tensors' dtype, summed over chunks in at least float32."""
    wide = torch.promote_types(q.dtype, torch.float32)
    d_q, d_k, d_v = (torch.zeros(each.shape, dtype=wide, device=k.device) for each in (q, k, v))
    for start in range(0, problem.seq_q, CHUNK):
        rows = slice(start, start + CHUNK)
        queries = torch.arange(start, min(start + CHUNK, problem.seq_q), device=q.device)
        leaves = [tensor.detach().requires_grad_() for tensor in (q[rows], k, v)]
        with torch.enable_grad():
            out = _attended(*leaves, queries, problem)
        parts = torch.autograd.grad(out, leaves, d_out[rows])
        for total, part in zip((d_q[rows], d_k, d_v), parts, strict=True):
            total += part
    return d_q, d_k, d_v


def hidden_keys(problem: Problem, queries):
    """[queries, seq_kv] bool tensor of the keys that some queries do not see; None where they see all."""
    if not problem.mask.hides:
        return None
    return torch.as_tensor(~visible(problem, queries.cpu().numpy()), device=queries.device)


def _attended(q, k, v, queries, problem: Problem):
    """[queries, head_dim of v]: attention of some queries of a head; matrices have the dtype that is given.

    A query that sees no key gets 0.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    scores, hidden = ((q @ k.mT) * problem.scale).to(wide), hidden_keys(problem, queries)
    if problem.softcap:
        scores = problem.softcap * torch.tanh(scores / problem.softcap)
    if problem.slopes:
        keys = torch.arange(problem.seq_kv, device=q.device)
        scores = scores - SLOPE * (queries[:, None] + problem.offset - keys).abs()
    if hidden is not None:
        scores = scores.masked_fill(hidden, torch.finfo(wide).min)
    if problem.sinks:  # one more key, without a value
        scores = torch.nn.functional.pad(scores, (0, 1), value=SINK)
    weights = torch.softmax(scores, -1)[:, : problem.seq_kv].to(q.dtype)
    return (weights if hidden is None else weights.masked_fill(hidden, 0.0)) @ v


def _spread(length: int, most: int, device):
    """At most so many indices, evenly spread, the first and the last among them."""
    return torch.linspace(0, length - 1, min(length, most), device=device).round().long().unique()

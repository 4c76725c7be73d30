"""What masks, terms of the scores and V of another head dim cost flash2: in turns with the plain kernel.

Imports torch and kernels when called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from engine.algorithms import ALGORITHMS, BACKWARD, FORWARD
from engine.measuring import clock
from engine.measuring.trial import attempt, mask_arguments, not_timed, random_inputs, training_problem
from engine.problem.problem import Mask
from engine.recordings.timing import VariantTiming
from engine.studies.masks import beside

KEYS, PREFIX, SOFTCAP = 16384, 4096, 30.0
MASKS = (  # plain; windows to both sides; documents of one length, and of any
    Mask(),
    Mask(causal=True),
    Mask(window=1025, ahead=1024),
    Mask(documents=16),
    Mask(causal=True, documents=16),
    Mask(causal=True, documents=(8192, 5000, 1, 2191, 1000)),
)
UNITS = 8  # of rounding of the largest element that a result may be off


def plan(direction: str, keys: int = KEYS) -> list[VariantTiming]:
    """The rows to be measured, the plain ones first: 16k tokens, hidden size 2048, head dim 128."""
    of = ALGORITHMS["flash2"]
    problem = training_problem(keys, 128, True)
    plain = VariantTiming(of.key, f"{of.language}, {of.label}", direction, problem)
    return [
        *(replace(plain, problem=replace(problem, mask=mask)) for mask in MASKS),
        replace(plain, prefix=PREFIX),
        *(replace(plain, term=term) for term in ("softcap", "sinks", "alibi")),
        replace(plain, problem=replace(problem, head_dim=192), v_dim=128),
    ]


def timed(rows: Sequence[VariantTiming], repeats: clock.Repeats, cuda: bool) -> list[VariantTiming]:
    """The rows with their times, each result held against float64 first; or with why there is none."""
    calls, found = {}, {}
    for row in rows:
        checked, reason = attempt(lambda row=row: _checked(row, cuda), cuda)
        if reason is None:
            calls[row], error, allowed = checked
            found[row] = replace(row, error=error, allowed=allowed)
            if not error <= allowed:
                del calls[row]
                reason = not_timed(f"it is off by {error:.2g}")
        if reason is not None:
            found[row] = replace(row, skipped=reason)
    for row, times in clock.in_turns(calls, repeats, cuda).items():
        found[row] = replace(found[row], times=times)
    return [found[row] for row in rows]


def line(row: VariantTiming, plain: VariantTiming) -> str:
    """A row as the command line prints it: its time, its rate, and that rate over the plain one's."""
    name = row.problem.mask.text
    name += f", prefix {row.prefix:,}" if row.prefix else ""
    name += f", {row.term}" if row.term else ""
    name += f", d {row.problem.head_dim}/{row.v_dim}" if row.v_dim else ""
    if row.times is None:
        return f"{row.direction:<8} {name:<46} {row.skipped}"
    over = f"{row.tflops / plain.tflops:.2f} of plain" if plain.tflops else ""
    return f"{row.direction:<8} {name:<46} {row.times.p50 * 1e3:7.3f} ms {row.tflops:4.0f} TFLOP/s  {over}"


def run(repeats: clock.Repeats) -> list[VariantTiming]:
    """Times all of them and prints a line for each."""
    found = []
    for direction in (FORWARD, BACKWARD):
        rows = timed(plan(direction), repeats, cuda=True)
        found += rows
        for row in rows:
            print(line(row, beside(row, rows)), flush=True)
    return found


def _checked(row: VariantTiming, cuda: bool) -> tuple[Callable[[], Any], float, float]:
    """Its call, the greatest error on the first and the last head, and what is allowed."""
    import torch

    from kernels import attention

    q, k, v = random_inputs(row.problem, cuda, row.v_dim)
    options = _options(row, q.device)
    if row.direction == FORWARD:

        def call():
            return attention(q, k, v, algorithm=row.provider, **options)

        results, d_out = (call(),), None
    else:
        leaves = [tensor.requires_grad_() for tensor in (q, k, v)]
        with torch.enable_grad():
            out = attention(*leaves, algorithm=row.provider, **options)
        d_out = torch.randn_like(out)

        def call():
            return torch.autograd.grad(out, leaves, d_out, retain_graph=True)

        results = call()
    error = allowed = 0.0
    for head in sorted({0, row.problem.heads - 1}):
        for result, exact in zip(results, _exact((q, k, v), d_out, options, head), strict=True):
            error = max(error, float((result[:1, head : head + 1].double() - exact).abs().max()))
            allowed = max(allowed, UNITS * torch.finfo(q.dtype).eps * float(exact.abs().max()))
    return call, error, allowed


def _exact(inputs: tuple, d_out, options: dict[str, Any], head: int) -> tuple:
    """O, or dQ, dK and dV, of one head of the first sequence, float64."""
    import torch

    from kernels import reference_attention

    alone = slice(head, head + 1)
    of_heads = {name: options[name][alone] for name in ("sinks", "alibi_slopes") if name in options}
    own = [tensor[:1, alone].detach().double() for tensor in inputs]
    if d_out is None:
        return (reference_attention(*own, **{**options, **of_heads})[0],)
    leaves = [tensor.requires_grad_() for tensor in own]
    with torch.enable_grad():
        out, _ = reference_attention(*leaves, **{**options, **of_heads})
        return torch.autograd.grad(out, leaves, d_out[:1, alone].double())


def _options(row: VariantTiming, device) -> dict[str, Any]:
    """The mask and the term as the kernels take them; slopes as in the paper on ALiBi, arXiv 2108.12409."""
    import torch

    heads = torch.arange(1, row.problem.heads + 1, device=device, dtype=torch.float32)
    terms = {
        "softcap": {"softcap": SOFTCAP},
        "sinks": {"sinks": heads / row.problem.heads},
        "alibi": {"alibi_slopes": 2.0 ** (-8 * heads / row.problem.heads)},
    }
    options = mask_arguments(row.problem) | terms.get(row.term, {})
    return options | {"prefix": row.prefix} if row.prefix else options

"""What masks, terms of the scores and V of another head dim cost flash2: in turns with the plain kernel.

Imports torch and kernels when called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.algorithms import ALGORITHMS, BACKWARD, FORWARD
from engine.measuring import clock
from engine.measuring.implementations import implementations
from engine.measuring.trial import Checked, Trial, attempt, in_turns, training_problem
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
    return in_turns({row: _checked(row, cuda) for row in rows}, repeats, cuda)


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


def _checked(row: VariantTiming, cuda: bool) -> Checked | str:
    terms = _terms(row, "cuda" if cuda else "cpu")
    trial, reason = attempt(lambda: Trial.of(row.problem, cuda, row.direction, row.v_dim, terms), cuda)
    return reason or trial.checked(implementations()[row.provider].prepare, **terms)


def _terms(row: VariantTiming, device: str) -> dict[str, Any]:
    """The terms of its scores as the kernels take them; slopes as in the paper on ALiBi, arXiv 2108.12409."""
    import torch

    heads = torch.arange(1, row.problem.heads + 1, device=device, dtype=torch.float32)
    terms = {
        "softcap": {"softcap": SOFTCAP},
        "sinks": {"sinks": heads / row.problem.heads},
        "alibi": {"alibi_slopes": 2.0 ** (-8 * heads / row.problem.heads)},
    }
    return terms.get(row.term, {}) | ({"prefix": row.prefix} if row.prefix else {})

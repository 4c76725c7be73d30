"""The problems in which the field times attention."""

from __future__ import annotations

from engine.problem.problem import Mask, Problem

TOKENS, HIDDEN = 16384, 2048  # of a training step


def training_problem(seq: int, head_dim: int, causal: bool) -> Problem:
    """16k tokens of hidden size 2048 cut in sequences of this length; a longer sequence is one of its own."""
    heads, batch = HIDDEN // head_dim, max(1, TOKENS // seq)
    return Problem(batch, heads, heads, seq, seq, head_dim, "float16", Mask(causal))

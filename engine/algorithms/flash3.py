"""FlashAttention-3: as FlashAttention-2, but the key blocks come from the last to the first.

Jay Shah et al., arXiv 2407.08608, Algorithm 2. What it does at the same time is not a matter of the order:
see `engine.model.seconds` and `engine.model.warp_groups`.
"""

from __future__ import annotations

from dataclasses import replace

from engine.algorithms import flash2
from engine.problem.problem import Problem, Tiling
from engine.schedule.schedule import Schedule


def build(problem: Problem, tiling: Tiling) -> Schedule:
    """One head: each query block stays on the chip while the key blocks that it sees pass by, last first."""
    schedule = flash2.build(problem, tiling)
    (phase,) = schedule.phases
    return replace(schedule, phases=(replace(phase, reverse=True),))

"""FlashAttention-3: as FlashAttention-2, but the key blocks come from the last to the first.

Jay Shah et al., arXiv 2407.08608, Algorithm 2. What it does at the same time is not a matter of the order:
see `engine.modelled` and `engine.lanes`.
"""

from __future__ import annotations

from dataclasses import replace

from engine.experiment import Problem, Tiling
from engine.schedule import Schedule
from engine.schedules import flash2


def build(problem: Problem, tiling: Tiling) -> Schedule:
    """One head: each query block stays on the chip while the key blocks that it sees pass by, last first."""
    schedule = flash2.build(problem, tiling)
    (phase,) = schedule.phases
    return replace(schedule, phases=(replace(phase, reverse=True),))

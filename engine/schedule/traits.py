"""What a schedule is like, found in its loop nests: a picture asks this, never an algorithm's name."""

from enum import Enum
from typing import NamedTuple

from engine.schedule.nest import Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Step, Tensor


class Rows(Enum):
    ONLINE = "online"  # m, l and O are carried along from tile to tile
    WHOLE = "whole"  # its softmax is taken at once, when all its scores are there
    GRADIENTS = "gradients"  # its weights are computed again from lse, for the backward pass


class Leaves(Enum):
    """What the tiles of the score matrix are like once a phase is over."""

    NOTHING = "nothing"  # as they were
    SCORES = "scores"  # S stands in memory
    WEIGHTS = "weights"  # P stands in memory
    PART = "part"  # computed on the chip, and to be computed once more
    ALL = "all"  # done


class PhaseTraits(NamedTuple):
    loads: tuple[Tensor, ...]  # what it brings onto the chip
    leaves: Leaves  # what the tiles are like after it
    whole_rows: bool  # it works on whole rows of S, not on tiles
    gathers: bool  # O gathers on the chip from visit to visit, and leaves after the last
    carries: bool  # so do m and l


class Traits(NamedTuple):
    rows: Rows  # what becomes of a row of scores
    visits_hidden: bool  # tiles are computed that the mask hides whole
    rewrites: bool  # unfinished O comes from memory at every visit, and returns there
    copies_elsewhere: bool  # what is copied begins elsewhere than the tiles that are visited
    phases: tuple[PhaseTraits, ...]


def traits(schedule: Schedule) -> Traits:
    """What a schedule is like; costs nothing that grows with its visits."""
    phases = schedule.phases
    operations = {step.operation for phase in phases for step in _steps(phase)}
    rows = Rows.WHOLE if Operation.SOFTMAX in operations else Rows.ONLINE
    if operations & {Operation.ROW_TERMS, Operation.SCORE_GRADIENT}:
        rows = Rows.GRADIENTS
    return Traits(
        rows=rows,
        visits_hidden=any(phase.programs.all_visits > schedule.bounds.visible for phase in phases),
        rewrites=any(Tensor.O in phase.rewritten for phase in phases),
        copies_elsewhere=any(phase.boxes is not None for phase in phases),
        phases=tuple(_phase(phase, phase is phases[-1]) for phase in phases),
    )


def _steps(phase: Phase) -> tuple[Step, ...]:
    return (*phase.before, *phase.each, *phase.after)


def _phase(phase: Phase, last: bool) -> PhaseTraits:
    steps, visit = _steps(phase), {step.operation for step in phase.each}
    stored = {step.tensor for step in steps if step.operation == Operation.STORE}
    left = {step.tensor for step in phase.after} & {Tensor.O, Tensor.PARTIAL}
    gathers = Operation.ACCUMULATE in visit and bool(left)
    leaves = Leaves.ALL if last else Leaves.PART if phase.each else Leaves.NOTHING
    for tensor, kept in ((Tensor.P, Leaves.WEIGHTS), (Tensor.S, Leaves.SCORES)):
        leaves = kept if tensor in stored else leaves
    return PhaseTraits(
        loads=tuple(dict.fromkeys(step.tensor for step in steps if step.operation == Operation.LOAD)),
        leaves=leaves,
        whole_rows=any(step.operation == Operation.SOFTMAX for step in steps),
        gathers=gathers,
        carries=gathers and Operation.MAXIMUM in visit,
    )

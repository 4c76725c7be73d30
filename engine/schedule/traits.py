"""What a schedule is like, found in its loop nests: a picture asks this, never an algorithm's name."""

from dataclasses import dataclass
from enum import Enum

from engine.schedule.nest import Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Tensor


class Rows(Enum):
    """What becomes of a row of scores."""

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


@dataclass(frozen=True)
class PhaseTraits:
    """What one phase is like."""

    loads: tuple[Tensor, ...]  # what it brings onto the chip
    leaves: Leaves  # what the tiles are like after it
    whole_rows: bool  # it works on whole rows of S, not on tiles
    gathers: bool  # O gathers on the chip from visit to visit, and leaves after the last
    carries: bool  # so do m and l


@dataclass(frozen=True)
class Traits:
    """What a schedule is like."""

    rows: Rows  # what becomes of a row of scores
    visits_hidden: bool  # tiles are computed that the mask hides whole
    rewrites: bool  # unfinished O comes from memory at every visit, and returns there
    copies_elsewhere: bool  # what is copied begins elsewhere than the tiles that are visited
    phases: tuple[PhaseTraits, ...]  # of each phase


def traits(schedule: Schedule) -> Traits:
    """What a schedule is like; costs nothing that grows with its visits."""
    steps = [step for phase in schedule.phases for step in (*phase.before, *phase.each, *phase.after)]
    operations = {step.operation for step in steps}
    if operations & {Operation.ROW_TERMS, Operation.SCORE_GRADIENT}:
        rows = Rows.GRADIENTS
    else:
        rows = Rows.WHOLE if Operation.SOFTMAX in operations else Rows.ONLINE
    return Traits(
        rows=rows,
        visits_hidden=any(phase.programs.all_visits > schedule.bounds.visible for phase in schedule.phases),
        rewrites=any(_moves(phase.each, Operation.STORE, Tensor.O) for phase in schedule.phases),
        copies_elsewhere=any(phase.boxes is not None for phase in schedule.phases),
        phases=tuple(_phase(phase, phase is schedule.phases[-1]) for phase in schedule.phases),
    )


def _moves(steps, operation: Operation, tensor: Tensor) -> bool:
    return any(step.operation == operation and step.tensor == tensor for step in steps)


def _phase(phase: Phase, last: bool) -> PhaseTraits:
    steps = (*phase.before, *phase.each, *phase.after)
    done = {step.operation for step in phase.each}
    left = any(_moves(phase.after, Operation.STORE, tensor) for tensor in (Tensor.O, Tensor.PARTIAL))
    gathers = Operation.ACCUMULATE in done and left
    return PhaseTraits(
        loads=tuple(dict.fromkeys(step.tensor for step in steps if step.operation == Operation.LOAD)),
        leaves=_leaves(phase, last),
        whole_rows=any(step.operation == Operation.SOFTMAX for step in steps),
        gathers=gathers,
        carries=gathers and Operation.MAXIMUM in done,
    )


def _leaves(phase: Phase, last: bool) -> Leaves:
    steps = (*phase.before, *phase.each, *phase.after)
    if _moves(steps, Operation.STORE, Tensor.S):
        return Leaves.SCORES
    if _moves(steps, Operation.STORE, Tensor.P):
        return Leaves.WEIGHTS
    if last:
        return Leaves.ALL
    return Leaves.PART if phase.each else Leaves.NOTHING

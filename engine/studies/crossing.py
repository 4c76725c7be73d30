"""Which steps cross HBM: modelled, the DRAM bytes of `engine.model.l2` laid on the steps of one head.

A kernel starts with empty caches, so the first step that touches a tile fetches it, and what a kernel leaves
is written once. A step that touches the tile again crosses with the chance that it is gone by then: what the
kernel fetches beyond the first time, spread evenly over all that it asks for again. All heads run side by
side, and one head has its even share: of K and V that several heads read, of whatever L2 loses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from engine.model.launch import Launch
from engine.model.traffic import Traffic, compulsory_bytes
from engine.schedule.schedule import Schedule
from engine.schedule.step import PARTIALS, Operation, Tensor


@dataclass(frozen=True)
class Crossings:
    """What the steps of one head move across HBM; arrays are [steps], bytes float64.

    Attributes:
        read, written: by each step; all of them add up to `Traffic.dram` over the heads.
        first: bool, whether the step is the first of its kernel to load its tile, or to store it.
    """

    read: np.ndarray
    written: np.ndarray
    first: np.ndarray


def crossings(launch: Launch, traffic: Traffic) -> Crossings:
    """The DRAM bytes of a launch, step by step of one head."""
    columns = launch.schedule.columns
    first, moved = np.zeros(len(columns), bool), []
    for operation, asked, dram in (
        (Operation.LOAD, columns.read_bytes, traffic.dram.read),
        (Operation.STORE, columns.written_bytes, traffic.dram.written),
    ):
        bytes_ = np.zeros(len(columns))
        parts = list(parts_of(launch, traffic, operation))
        for tensor, share in shares_of(parts, dram).items():
            for index, once, again in (part[:3] for part in parts if part[3] == tensor):
                steps = columns.operation == operation
                steps = np.flatnonzero(steps & (columns.phase == index) & (columns.tensor == tensor))
                first[steps] = touches = _first_touches(launch.schedule, steps, tensor)
                spread = _spread(asked[steps].astype(np.float64), touches, once, again)
                bytes_[steps] = spread * share / traffic.heads
        moved.append(bytes_)
    return Crossings(*moved, first)


def parts_of(launch: Launch, traffic: Traffic, operation: Operation):
    """(kernel, bytes fetched once, bytes fetched again, tensor), over batch and heads."""
    kind = "read" if operation == Operation.LOAD else "written"
    for index, (kernel, refetched) in enumerate(zip(launch.kernels, traffic.refetched, strict=True)):
        compulsory = compulsory_bytes(replace(launch.schedule, phases=(kernel.phase,)))
        for tensor, once in getattr(compulsory, kind).items():
            if once:
                yield index, once, getattr(refetched, kind).get(tensor, (0.0,))[0], tensor


def shares_of(parts: list[tuple], dram: Mapping[Tensor, int]) -> dict[Tensor, float]:
    """By tensor, what crosses of what its kernels fetch once and again: less where less is asked for."""
    fetched: dict[Tensor, float] = {}
    for _, once, again, tensor in parts:
        fetched[tensor] = fetched.get(tensor, 0.0) + once + again
    return {tensor: dram[tensor] / amount for tensor, amount in fetched.items()}


def _spread(asked: np.ndarray, touches: np.ndarray, once: float, again: float) -> np.ndarray:
    """[steps] bytes: those of first touches in proportion to what each asks for, and the others likewise."""
    repeated = asked[~touches].sum()
    if not repeated:
        return asked * ((once + again) / asked.sum())
    return asked * np.where(touches, once / asked[touches].sum(), again / repeated)


def _first_touches(schedule: Schedule, steps: np.ndarray, tensor: Tensor) -> np.ndarray:
    """[steps] bool: which steps of one kernel, all on one tensor, are the first on their tile."""
    if tensor in PARTIALS:  # every split has its own
        return np.ones(len(steps), bool)
    columns, amount, keys = schedule.columns, schedule.amounts[tensor], len(schedule.key_rows) + 1
    tile = np.zeros(len(steps), np.int64)
    if amount.by_query:
        tile += (columns.query_block[steps] + 1) * keys
    if amount.by_key:
        tile += columns.key_block[steps] + 1
    at = np.full((len(schedule.query_rows) + 1) * keys, -1)
    at[tile[::-1]] = np.arange(len(steps))[::-1]  # of several the first stands, as it is written last
    touches = np.zeros(len(steps), bool)
    touches[at[at >= 0]] = True
    return touches

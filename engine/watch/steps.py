"""What a watched run did, step by step, of one head; and the same of FlashAttention-2's schedule."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from engine.algorithms.flash2 import schedule
from engine.problem.problem import Problem
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Tensor
from engine.watch.checks import Tiles
from engine.watch.watch import KINDS, Watch

MOST_SHOWN = 5_000  # steps of one head
NAMED = (Tensor.Q, Tensor.K, Tensor.V, Tensor.O)
MOVING = {Operation.SCORES: "visit", Operation.ACCUMULATE: "meet", Operation.STORE: "store"}


def of_head(watch: Watch, seen: Tiles | None, problem: Problem) -> dict[str, Any]:
    """The steps of one head: plain values for JSON.

    Each is [kind, tensor, line, program, query block, key block, bytes]; -1 where there is none. kinds and
    tensors are names by number, programs are [launch, index...]. whole: whether none was left out.
    Without `seen` there are no tiles, and all steps are told.
    """
    current: dict[tuple, tuple] = {}  # the head and first row of the queries that a program is at
    for visit in watch.visits:  # for what it does before its first
        current.setdefault((visit.launch, visit.program), (visit.q.head, visit.q.low))
    tensors, programs, told = {}, {}, []
    for step in watch.steps:
        who, blocks = (step.launch, step.program), (-1, -1)
        if step.q:
            current[who] = step.q.head, step.q.low
        head, query = current.get(who, (None, None))
        if seen is not None:
            # of a head of K and V, which heads of Q share
            of_others = step.k and not step.q and step.k.head != seen.head // problem.group
            if of_others or head not in (None, seen.head):
                continue
            places = (query, seen.tiling.block_q), (step.k and step.k.low, seen.tiling.block_kv)
            blocks = tuple(-1 if row is None else row // height for row, height in places)
        number = tensors.setdefault(step.tensor, len(tensors))
        by = programs.setdefault(who, len(programs))
        told.append([KINDS.index(step.kind), number, step.line or -1, by, *blocks, step.bytes])
    return {
        "kinds": KINDS,
        "tensors": list(tensors),
        "programs": [[launch, *program] for launch, program in programs],
        "rows": told[:MOST_SHOWN],
        "whole": len(told) <= MOST_SHOWN,
    }


def of_schedule(schedule: Schedule) -> list[list[int]]:
    """A schedule's own steps of one head, as those of `of_head`: tensors by the place in NAMED, by phase."""
    told = []
    for operation, tensor, phase, query, key, read, written in _columns(
        schedule, "operation", "tensor", "phase", "query_block", "key_block", "read_bytes", "written_bytes"
    ):
        kind = "load" if operation == Operation.LOAD else MOVING.get(operation)
        if kind is None or (kind in ("load", "store") and tensor not in NAMED):
            continue
        place = NAMED.index(tensor) if tensor in NAMED else -1
        told.append([KINDS.index(kind), place, -1, *map(int, (phase, query, key, read + written))])
    return told[:MOST_SHOWN]


def _columns(schedule: Schedule, *names: str) -> Iterable[tuple]:
    """These columns of a schedule, step by step."""
    return zip(*(getattr(schedule.columns, name) for name in names), strict=True)


def of_programs(watch: Watch, seen: Tiles, problem: Problem) -> list[dict[str, Any]]:
    """Bytes by launch, program and tensor, [read, written], beside flash2's for the same query block."""
    flash2 = defaultdict(lambda: defaultdict(lambda: [0, 0]))  # by query block of a head
    names = "tensor", "query_block", "read_bytes", "written_bytes"
    for tensor, query, read, written in _columns(schedule(problem, seen.tiling), *names):
        if Tensor(tensor) in NAMED:
            moved = flash2[int(query)][Tensor(tensor).name]
            moved[0] += int(read)
            moved[1] += int(written)
    places: dict[tuple, set] = defaultdict(set)
    for visit in watch.visits:
        places[visit.launch, visit.program].add((visit.q.head, visit.q.low // seen.tiling.block_q))
    by_program = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for step in watch.steps:
        if step.bytes:
            moved = by_program[step.launch, step.program][step.tensor]
            moved[0] += step.bytes * (step.kind != "store")
            moved[1] += step.bytes * (step.kind != "load")
    told = []
    for (launch, program), moved in by_program.items():
        (head, block), *more = places[launch, program] or {(None, None)}
        head, block = (None, None) if more else (head, block)
        model = None if block is None else dict(flash2[block])
        told.append(
            {
                "launch": watch.launches[launch - 1],
                "program": list(program),
                "moved": dict(moved),
                "head": head,
                "query_block": block,
                "flash2": model or {},
                "bytes": sum(map(sum, moved.values())),
                "flash2_bytes": sum(map(sum, model.values())) if model else None,
            }
        )
    return told


def tile_bytes(rows: list[list[int]], tensors: Sequence[str]) -> Counter:
    """Bytes of Q, K and V that are read for each visit, by (query block, key block): of either kind of steps.

    A load is for the next visit with its block; one of V, also for the visit of the program before it.
    """
    found, waiting, last = Counter(), [], None
    for kind, tensor, _, program, query, key, size in rows:
        name = tensors[tensor]
        if KINDS[kind] == "visit":
            last = program, query, key
            mine = [load for load in waiting if load[1] == (query if load[0] == "Q" else key)]
            waiting = [load for load in waiting if load not in mine]
            found[query, key] += sum(load[2] for load in mine)
        elif KINDS[kind] == "load" and name in ("Q", "K", "V"):
            if name == "V" and last and (last[0], last[2]) == (program, key) and query in (last[1], -1):
                found[last[1:]] += size
            else:
                waiting.append((name, query if name == "Q" else key, size))
    return found

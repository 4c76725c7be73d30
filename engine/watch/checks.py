"""What is held against a watched run when it is over: its tiles, its bytes and its numbers."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.algorithms.flash2 import schedule
from engine.model.traffic import requested_bytes
from engine.problem.bounds import key_bounds
from engine.problem.problem import Problem, Tiling
from engine.schedule.step import Tensor
from engine.watch.memory import POISON
from engine.watch.numbers import LN_2, Flaw, Numbers
from engine.watch.watch import Finding, Watch, at, rows, times

Tile = tuple[int, int]
# what makes numbers wrong: after ENOUGH nothing more is asked of them, and after CAUSES no sentence is owed
ENOUGH = {"missing_tile", "wrong_rows", "wrong_head", "unwritten", "read_before_written"}
CAUSES = ENOUGH | {"out_of_bounds", "race", "ragged_end", "repeated_tile"}


@dataclass(frozen=True)
class Tiles:
    """Tiles of one head, [query block, key block] each, in blocks of `tiling`.

    visits are in the order of time; head is the first in which something is amiss, or 0.
    amiss: those that are, by the kind of their finding.
    """

    tiling: Tiling
    head: int
    visits: tuple[Tile, ...]
    amiss: dict[str, list[Tile]]


def tiling_seen(watch: Watch, problem: Problem, asked: Tiling) -> Tiling:
    """The blocks in which the kernel multiplied: those asked for, unless its tiles were others."""
    heights, asked_of = [], {"q": (asked.block_q, problem.seq_q), "k": (asked.block_kv, problem.seq_kv)}
    for tensor, (wanted, length) in asked_of.items():
        tiles = [getattr(visit, tensor) for visit in watch.visits]
        seen = max((tile.high - tile.low + 1 for tile in tiles), default=wanted)
        heights.append(wanted if seen == min(wanted, length) else seen)
    return Tiling(*heights)


def tiles(watch: Watch, problem: Problem, asked: Tiling) -> Tiles:
    """The tiles that a run visited, beside those that its mask asks for."""
    tiling = tiling_seen(watch, problem, asked)
    bounds = key_bounds(problem, tiling)
    wanted = {
        (query, key)
        for query in range(len(bounds.first))
        for key in range(bounds.first[query], bounds.stop[query])
    }
    found = None
    for head in range(problem.batch * problem.heads):
        own = [visit for visit in watch.visits if visit.q.head == head]
        order = tuple(visit.tile(tiling) for visit in own)
        # a product in several parts, by columns or by halves of a tile, is one visit
        parts = Counter((visit.tile(tiling), visit.q, visit.k) for visit in own)
        again = {tile for (tile, *_), count in parts.items() if count > 1}
        visited = set(order)
        amiss = {"extra": visited - wanted, "missing": wanted - visited, "repeated": again}
        each = Tiles(tiling, head, order, {f"{kind}_tile": sorted(some) for kind, some in amiss.items()})
        if any(amiss.values()):
            return each
        found = found or each
    return found


def tile_findings(watch: Watch, problem: Problem, seen: Tiles) -> list[Finding]:
    """Extra, missing and repeated tiles, a sentence for each kind."""
    tiling, found = seen.tiling, []
    own = [visit for visit in watch.visits if visit.q.head == seen.head]
    for kind, some in seen.amiss.items() if watch.visits else ():
        if not some:
            continue
        query, key = some[0]
        by = [visit for visit in own if visit.tile(tiling) == some[0]]
        by = by or [visit for visit in own if visit.tile(tiling)[0] == query]
        line, program = (by[-1].line, by[-1].program) if by else (None, None)
        line = line or (watch.visits[0].line if not by else None)
        queries = rows(query * tiling.block_q, min((query + 1) * tiling.block_q, problem.seq_q) - 1)
        keys = rows(key * tiling.block_kv, min((key + 1) * tiling.block_kv, problem.seq_kv) - 1)
        place = f"tile ({query}, {key}) of head {seen.head}, query {queries} by key {keys}"
        who = f"Program {program}" if program else "No program"
        text = {
            "extra_tile": f"{who} visits {place},{at(line)} although the mask hides all of it",
            "missing_tile": f"No program visits {place}, although the mask leaves some of it",
            "repeated_tile": f"{who} visits {place},{at(line)} {times(len(by))}",
        }[kind]
        more = f"; {len(some)} tiles of this head are such." if len(some) > 1 else "."
        tensor = "K" if kind != "repeated_tile" else "S"
        found.append(Finding(kind, text + more, line, program, tensor))
    return found


def load_findings(watch: Watch, problem: Problem, seen: Tiles) -> list[Finding]:
    """Q, K or V that a program loads again though it had it, where that is more than flash2 requests."""
    expected, found, (read, _) = requested_bytes(schedule(problem, seen.tiling)), [], watch.moved
    loads: dict[tuple, list] = {}  # lines of each tile, by launch and program
    for step in watch.steps:
        for tile in step.tiles if step.kind == "load" else ():
            loads.setdefault((step.launch, step.program, tile), []).append(step.line)
    for tensor in (Tensor.Q, Tensor.K, Tensor.V):
        name, model = tensor.name, expected.read[tensor]
        several = ((*key, lines) for key, lines in loads.items() if len(lines) > 1)
        again = next((load for load in several if load[2].tensor == name), None)
        if read[name] > model and again:
            _, program, tile, lines = again
            text = (
                f"Program {program} loads {rows(tile.low, tile.high)} of {name}{at(lines[1])} "
                f"{times(len(lines))}: {read[name]:,} bytes of {name} are read in all, where "
                f"FlashAttention-2 reads {model:,}."
            )
            found.append(Finding("loaded_again", text, lines[1], program, name))
    return found


def number_findings(
    watch: Watch, numbers: Numbers, seen: Tiles, out: np.ndarray, found: set[str]
) -> tuple[list[Finding], dict[str, Any] | None]:
    """Why O, [batch * heads, seq_q, head_dim] float64, is not what float64 gives, and where that begins.

    found: kinds so far. The place is one of `seen.head`: see `first_wrong`.
    """
    error = np.abs(out - numbers.out)
    wrong = ~(error <= numbers.tolerance)  # NaN too
    if not wrong.any() or found & ENOUGH:
        return [], None
    head, row, _ = (int(axis[0]) for axis in np.nonzero(wrong))
    block, line = row // seen.tiling.block_q, watch.stores.get("O")
    high, wide = seen.tiling.block_q, seen.tiling.block_kv
    shape = numbers.problem.seq_q, numbers.problem.seq_kv
    visited = np.full(shape, not seen.visits)  # all where none was seen
    for query, key in seen.visits:
        visited[query * high : (query + 1) * high, key * wide : (key + 1) * wide] = True
    for kind, words, would, flaw in numbers.forgotten(seen.tiling.block_kv, visited):
        allowed = 2 * numbers.tolerance * max(1.0, np.nanmax(np.abs(would)) / np.abs(numbers.out).max())
        if not ((np.abs(out - would) <= allowed) | np.isnan(would)).all():
            continue
        where, first = f"first in query block {block}", flaw and first_wrong(numbers, seen, wrong, flaw)
        if kind == "missing_rescale" and first and head == seen.head:
            where = f"first at tile ({first['tile'][0]}, {first['tile'][1]})"
        text = f"O is wrong, {where} of head {head}: {words}."
        if kind == "missing_rescale":  # its line is that of P V; of the division O's store, else of Q K
            met = [step.line for step in watch.steps if step.kind == "meet"]
            line = (met and met[-1]) or line
        elif kind != "missing_division" and watch.visits:
            line = watch.visits[0].line
        return [Finding(kind, text, line, None, "O")], first
    if found & CAUSES:
        return [], None
    largest = np.nanmax(error) if np.isfinite(out).any() else np.nan
    amount = "is not a number" if not np.isfinite(out).all() else f"is off by up to {largest:.3g}"
    text = f"O {amount}, first in {rows(row, row)} of head {head} (query block {block})."
    return [Finding("wrong_values", text, line, None, "O")], None


def first_wrong(numbers: Numbers, seen: Tiles, wrong: np.ndarray, flaw: Flaw) -> dict[str, Any] | None:
    """The first tile of the head that is shown after which its first wrong row differs, as it was visited.

    As {tile, row, must, found}, both [m, alpha, l, O]; None where that head is right.
    """
    high, wide, head = seen.tiling.block_q, seen.tiling.block_kv, seen.head
    if not wrong[head].any():
        return None
    row = int(np.nonzero(wrong[head])[0][0])
    count = -(-numbers.problem.seq_kv // wide)
    order = [key for query, key in dict.fromkeys(seen.visits) if query == row // high] or range(count)
    keys = [range(key * wide, min((key + 1) * wide, numbers.problem.seq_kv)) for key in order]
    first = numbers.first_wrong(flaw, head, row, keys)
    if first is None:
        return None
    return {"tile": [row // high, order[first.pop("at")]], "row": row, **first}


def root_causes(findings: list[Finding], right: bool) -> list[Finding]:
    """Wrong strides alone where there are any, as wrong rows, tiles and numbers follow from them.

    right: whether O is; then what steps otherwise is meant to, such as over every second row.
    """
    wrong = [found for found in findings if found.kind == "wrong_stride"]
    return [found for found in findings if found not in wrong] if right else wrong or findings


def lse_findings(watch: Watch, numbers: Numbers, extra: list) -> list[Finding]:
    """Whether an lse that is returned beside O is natural; what a file keeps is its own business."""
    tensor = extra[0] if extra and hasattr(extra[0], "untyped_storage") else None
    region = watch.memory.region(tensor.data_ptr()) if tensor is not None else None
    name = region.view(tensor.data_ptr()).name if region else ""
    if "lse" not in name.lower() or tensor.numel() != numbers.lse.size:
        return []
    lse = tensor.detach().double().numpy().reshape(numbers.lse.shape)
    line, allowed = watch.stores.get(name), 1e-3 * (1 + np.abs(numbers.lse).max())
    if np.allclose(lse, numbers.lse, atol=allowed):
        return []
    if np.allclose(lse, numbers.lse / LN_2, atol=allowed / LN_2):
        text = f"{name}{at(line)} is in units of log2: it must be natural, which is 0.6931 times this."
        return [Finding("lse_base", text, line, None, name)]
    text = f"{name}{at(line)} is not the log-sum-exp of the scaled scores, neither natural nor in base 2."
    return [Finding("wrong_lse", text, line, None, name)]


def unwritten_finding(bits: np.ndarray, line: int | None) -> Finding | None:
    """Whether some of O, [batch * heads, seq_q, head_dim] as bits, was never written."""
    poison = POISON.get(bits.dtype.itemsize)
    missing = bits == poison if poison is not None else np.zeros(bits.shape, bool)
    if not missing.any():
        return None
    head = int(np.nonzero(missing)[0][0])
    row = np.nonzero(missing[head].any(1))[0]
    text = f"Nothing was written to {rows(int(row[0]), int(row[-1]))} of head {head} of O."
    return Finding("unwritten", text, line, None, "O")

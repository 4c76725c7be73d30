"""A file's function `attention` run once, watched, and judged. torch is imported when called."""

import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from engine.algorithms.flash2 import schedule
from engine.experiment import Experiment
from engine.model.traffic import requested_bytes
from engine.problem.problem import Problem
from engine.watch import checks
from engine.watch.interpreter import reporting
from engine.watch.memory import Memory, bits_of, poisoned
from engine.watch.numbers import Numbers
from engine.watch.steps import NAMED, of_head, of_programs, of_schedule
from engine.watch.tape import Tape
from engine.watch.user_file import NotServedError, arguments, ending_in_sentences
from engine.watch.watch import Finding, Watch


def watched(
    attention: Callable, experiment: Experiment, stretch: float, seed: int, file: str, notes: list[str]
) -> dict[str, Any]:
    """Run a function as a file's attention on one problem, in the blocks asked for, and judge it.

    stretch: what Q, and so the scores, is multiplied by. Plain values for JSON; raises NotServedError.
    """
    numbers, tiling = Numbers.of(experiment.problem, stretch, seed), experiment.asked
    problem = numbers.problem
    given = partial(arguments, attention, problem=problem, tiling=tiling)
    watch, out, extra = run(attention, numbers.tensors, problem, given, ("O", numbers.q.shape), file)
    seen = checks.tiles(watch, problem, tiling)
    shape = (problem.batch * problem.heads, problem.seq_q, problem.head_dim)
    values = out.double().numpy().reshape(shape)
    bits = bits_of(out.contiguous()).reshape(shape)
    findings = [*watch.findings]
    unwritten = checks.unwritten_finding(bits, watch.stores.get("O"))
    if unwritten and all(finding.kind != "read_before_written" for finding in findings):
        findings.append(unwritten)
    findings += checks.tile_findings(watch, problem, seen)
    kinds = {finding.kind for finding in findings}
    wrong, first = checks.number_findings(watch, numbers, seen, values, kinds)
    findings += wrong
    findings += checks.load_findings(watch, problem, seen)
    right = bool((np.abs(values - numbers.out) <= numbers.tolerance).all())
    if right:  # else lse is wrong for the same reason
        findings += checks.lse_findings(watch, numbers, extra)
    told = _plain(watch, numbers, seen, values, checks.root_causes(findings, right), notes)
    return told | {"first_wrong": first}


def run(
    function: Callable,
    numbers: dict[str, np.ndarray],
    problem: Problem,
    given: Callable,
    must: tuple,
    file: str,
) -> tuple[Watch, Any, list]:
    """The watch, what a function returned, on the CPU, and what it returned beside.

    numbers: of the tensors that `given` makes its arguments of; must: the name and shape of what it returns.
    NumPy says nothing of the numbers that its kernels make.
    """
    import torch

    tensors = [torch.from_numpy(each).to(getattr(torch, problem.dtype)) for each in numbers.values()]
    watch = Watch(Memory(numbers, problem.batch * problem.heads), problem.group, file)
    positional, named = given(tensors)
    tape = function if isinstance(function, Tape) and function.running else None
    with (
        np.errstate(all="ignore"),
        warnings.catch_warnings(action="ignore"),
        poisoned(torch),
        reporting(watch, tape),
        ending_in_sentences(file),
    ):
        returned = function(*positional, **named)
    if not watch.launches:
        raise NotServedError(f"{function.__name__} launches no Triton kernel")
    out, *extra = returned if isinstance(returned, tuple | list) else (returned,)
    name, shape = must
    if not isinstance(out, torch.Tensor) or out.shape != shape:
        got = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
        raise NotServedError(f"{function.__name__} returns {got}; it must return {name} of shape {shape}")
    # what was returned is found by its memory, or as the one that was written of its size
    region, (_, written) = watch.memory.region(out.untyped_storage().data_ptr()), watch.moved
    sized = {each for each, held in watch.held if written[each] and held.numel() == out.numel()}
    own = region.views[0].name if region else next(iter(sized), None) if len(sized) == 1 else None
    if own not in (None, name):
        watch.rename(own, name)
    return watch, out.detach(), extra


def _plain(watch: Watch, numbers: Numbers, seen: checks.Tiles, values, findings, notes) -> dict[str, Any]:
    problem, model = numbers.problem, schedule(numbers.problem, seen.tiling)
    expected = requested_bytes(model)
    error, names = np.abs(values - numbers.out), [each.name for each in NAMED]
    return verdict(watch, error, numbers.tolerance, findings) | {
        **{
            f"{way}_bytes": {name: counted[name] for name in dict.fromkeys([*names, *counted])}
            for way, counted in zip(("read", "written"), watch.moved, strict=True)
        },
        "flash2_read_bytes": {each.name: expected.read[each] for each in NAMED},
        "flash2_written_bytes": {each.name: expected.written[each] for each in NAMED},
        "block_q": seen.tiling.block_q,
        "block_kv": seen.tiling.block_kv,
        "head": seen.head,
        "visits": [list(tile) for tile in seen.visits],
        **{f"{kind}s": [list(tile) for tile in some if watch.visits] for kind, some in seen.amiss.items()},
        "tiles_of_all_heads": len({(visit.q.head, visit.tile(seen.tiling)) for visit in watch.visits}),
        "by_program": of_programs(watch, seen, problem),
        "steps": of_head(watch, seen, problem),
        "flash2_steps": of_schedule(model),
        "heads": problem.batch * problem.heads,
        "notes": notes
        + ([] if watch.visits else ["No product of Q and K was seen, so tiles are not checked."]),
    }


def verdict(watch: Watch, error: np.ndarray, tolerance: float, findings: list[Finding]) -> dict[str, Any]:
    """What every report says: how far off its numbers are, and what was found."""
    return {
        "right": bool((error <= tolerance).all()),
        "largest_error": float(error.max()) if np.isfinite(error).all() else None,
        "tolerance": tolerance,
        "launches": watch.launches,
        "findings": [asdict(finding) for finding in findings],
    }

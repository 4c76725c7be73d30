"""A file's function `attention` run once, watched, and judged. torch is imported when called."""

import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from engine.algorithms.flash2 import schedule
from engine.experiment import Experiment
from engine.model.traffic import requested_bytes
from engine.problem.problem import Tiling
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
    watch, out, extra = run(attention, numbers, tiling, file)
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


def run(attention: Callable, numbers: Numbers, tiling: Tiling, file: str):
    """The watch, O [batch, heads, seq_q, head_dim] on the CPU, and what else the function returned."""
    import torch

    problem, dtype = numbers.problem, getattr(torch, numbers.problem.dtype)
    tensors = [torch.from_numpy(each).to(dtype) for each in numbers.tensors.values()]
    known = dict(zip("QKV", (each.double().numpy() for each in tensors), strict=True))
    watch = Watch(Memory(known, problem.batch * problem.heads), problem.group, file)
    returned = observed(attention, arguments(attention, tensors, problem, tiling), watch)
    out, *extra = returned if isinstance(returned, tuple | list) else (returned,)
    if not isinstance(out, torch.Tensor) or out.shape != tensors[0].shape:
        shape = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
        raise NotServedError(
            f"attention returns {shape}; it must return O of the shape of q, {tuple(tensors[0].shape)}"
        )
    out = out.detach()
    renamed(watch, out, "O")
    return watch, out, extra


def observed(function: Callable, given: tuple[list, dict], watch: Watch):
    """What a function returns that is watched; NumPy says nothing of the numbers that its kernels make."""
    import torch

    tape = function if isinstance(function, Tape) and function.running else None
    with (
        np.errstate(all="ignore"),
        warnings.catch_warnings(action="ignore"),
        poisoned(torch),
        reporting(watch, tape),
        ending_in_sentences(watch.file),
    ):
        returned = function(*given[0], **given[1])
    if not watch.launches:
        raise NotServedError(f"{function.__name__} launches no Triton kernel")
    return returned


def renamed(watch: Watch, tensor, new: str) -> None:
    """Name a tensor that was returned: found by its memory, or as the one that was written of its size."""
    region = watch.memory.region(tensor.untyped_storage().data_ptr())
    _, written = watch.moved
    sized = {name for name, each in watch.held if written[name] and each.numel() == tensor.numel()}
    name = region.views[0].name if region else next(iter(sized), None) if len(sized) == 1 else None
    if name not in (None, new):
        watch.rename(name, new)


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

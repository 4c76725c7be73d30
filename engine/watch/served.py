"""A file with a function `attention` run once, watched, and judged. torch and Triton are imported when called."""

from __future__ import annotations

import inspect
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from engine.problem.problem import Problem, Tiling
from engine.schedule.step import Tensor
from engine.watch import judge
from engine.watch.finding import Finding
from engine.watch.interpreter import reporting
from engine.watch.memory import POISON, Memory
from engine.watch.numbers import Numbers
from engine.watch.watch import Watch

ARGUMENTS = {  # what a file may call the arguments of its attention
    "q": ("q", "query", "Q"),
    "k": ("k", "key", "K"),
    "v": ("v", "value", "V"),
    "scale": ("scale", "sm_scale", "softmax_scale"),
    "block_q": ("block_q", "block_m", "BLOCK_Q", "BLOCK_M", "Br"),
    "block_kv": ("block_kv", "block_k", "block_n", "BLOCK_KV", "BLOCK_N", "Bc"),
    "causal": ("causal", "is_causal", "CAUSAL", "IS_CAUSAL"),
}


class NotServedError(Exception):
    """A file that cannot be run; the message is one sentence."""


def report(file: Path, problem: Problem, tiling: Tiling) -> dict[str, Any]:
    """Run the file's attention on one problem: plain values for JSON; raises NotServedError."""
    with prepared() as notes:
        attention = _attention(file)
        return watched(attention, problem, tiling, str(file), notes)


def watched(
    attention: Callable,
    problem: Problem,
    tiling: Tiling,
    file: str | None = None,
    notes: list[str] | None = None,
) -> dict[str, Any]:
    """Run a function as a file's attention, and judge it; see `report`."""
    numbers = Numbers.of(problem)
    watch, out, extra = run(attention, numbers, tiling, file)
    seen = judge.tiles(watch, problem, tiling)
    shape = (problem.batch * problem.heads, problem.seq_q, problem.head_dim)
    values = out.double().numpy().reshape(shape)
    bits = _bits(out).reshape(shape)
    findings = [*watch.findings]
    unwritten = judge.unwritten_finding(bits, watch.stores.get("O"))
    if unwritten and all(finding.kind != "read_before_written" for finding in findings):
        findings.append(unwritten)
    if watch.atomics:  # without, the watch has seen that no program meets another's memory, or said where
        findings += _backwards(attention, numbers, tiling, values)
    findings += judge.tile_findings(watch, problem, seen)
    known = bool({finding.kind for finding in findings} & judge.CAUSES)
    findings += judge.number_findings(watch, numbers, seen, values, known)
    findings += judge.load_findings(watch, problem, seen)
    if (np.abs(values - numbers.out) <= numbers.tolerance).all():  # else lse is wrong for the same reason
        findings += _lse(watch, numbers, extra)
    return _plain(watch, numbers, seen, values, findings, notes or [])


def run(
    attention: Callable, numbers: Numbers, tiling: Tiling, file: str | None = None, backwards: bool = False
):
    """The watch, O [batch, heads, seq_q, head_dim] on the CPU, and what else the function returned."""
    import torch

    problem = numbers.problem
    dtype = getattr(torch, problem.dtype)
    tensors = [torch.from_numpy(each).to(dtype) for each in (numbers.q, numbers.k, numbers.v)]
    known = dict(zip("QKV", (each.double().numpy() for each in tensors), strict=True))
    watch = Watch(Memory(known, problem.batch * problem.heads), problem.group, file)
    given = _arguments(attention, tensors, problem, tiling)
    with (
        _poisoned(torch, watch.unwritten),
        reporting(watch, backwards),
        np.errstate(all="ignore"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # NumPy's, of numbers that the kernel made
        returned = _call(attention, given, file)
    out, *extra = returned if isinstance(returned, tuple | list) else (returned,)
    if not watch.launches:
        raise NotServedError("attention launches no Triton kernel")
    if not isinstance(out, torch.Tensor) or out.shape != tensors[0].shape:
        shape = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
        raise NotServedError(
            f"attention returns {shape}; it must return O of the shape of q, {tuple(tensors[0].shape)}"
        )
    out = out.detach()
    _name_output(watch, out)
    return watch, out, extra


def _arguments(attention: Callable, tensors: list, problem: Problem, tiling: Tiling) -> tuple[list, dict]:
    """q, k and v by place, the rest by the names that the function has; raises NotServedError."""
    values = {
        "scale": problem.scale,
        "block_q": tiling.block_q,
        "block_kv": tiling.block_kv,
        "causal": problem.mask.causal,
    }
    try:
        parameters = list(inspect.signature(attention).parameters.values())
    except (TypeError, ValueError):
        raise NotServedError(
            "attention must be a function attention(q, k, v, scale, block_q, block_kv, causal)"
        ) from None
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return [*tensors, *values.values()], {}
    named = {}
    for parameter in parameters[3:]:
        known = next((name for name, names in ARGUMENTS.items() if parameter.name in names), None)
        if known in values:
            named[parameter.name] = values.pop(known)
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
            raise NotServedError(
                f"attention asks for {parameter.name!r}, which is none of q, k, v, scale, block_q, block_kv and causal"
            )
    if len(parameters) < 3:
        raise NotServedError("attention must take q, k and v")
    if values.get("causal"):
        raise NotServedError("attention takes no causal: it can only be asked for without --causal")
    return tensors, named


def _call(attention: Callable, given: tuple[list, dict], file: str | None):
    """What the function returns; raises NotServedError where it ends in any other way."""
    positional, named = given
    try:
        return attention(*positional, **named)
    except SystemExit as end:
        raise NotServedError(f"{_where(end, file)} ends Python with sys.exit({end.code})") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise NotServedError(f"{_where(error, file)} fails: {_said(error)}") from None


def _attention(file: Path) -> Callable:
    """The function of a file; raises NotServedError where it cannot be imported or has none."""
    space = {"__name__": file.stem, "__file__": str(file)}
    sys.path.insert(0, str(file.parent))
    try:
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location(f"watched_{file.stem}", file)
        module = module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        space = vars(module)
    except SyntaxError as error:
        raise NotServedError(f"line {error.lineno} is no Python: {error.msg}") from None
    except SystemExit as end:
        raise NotServedError(f"{_where(end, str(file))} ends Python with sys.exit({end.code})") from None
    except BaseException as error:
        raise NotServedError(f"{_where(error, str(file))} fails: {_said(error)}") from None
    if not callable(space.get("attention")):
        raise NotServedError("it defines no function attention(q, k, v, scale, block_q, block_kv, causal)")
    return space["attention"]


def _where(error: BaseException, file: str | None) -> str:
    """The innermost line of the file in which an error came up."""
    lines = []
    while error is not None:
        lines += [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file
        ]
        error = error.__cause__
    return f"line {lines[-1]}" if lines else "attention"


def _said(error: BaseException) -> str:
    """What an error says, in one line; of one that was wrapped, the first."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


@contextmanager
def prepared():
    """Autotuned kernels run in their first configuration; gives a list that a sentence is added to for each."""
    from triton.runtime.autotuner import Autotuner

    notes: list[str] = []
    tuned = Autotuner.run

    def first(self, *args, **kwargs):
        if len(self.configs) > 1:
            name = getattr(self.base_fn, "__name__", "a kernel")
            notes.append(
                f"{name} is autotuned: it runs in the first of its {len(self.configs)} configurations."
            )
            self.configs = self.configs[:1]
        return tuned(self, *args, **kwargs)

    Autotuner.run = first
    try:
        yield notes
    finally:
        Autotuner.run = tuned


def stand_in_for_driver() -> None:
    """Give Triton a driver to ask where there is no GPU, for the rest of the process."""
    import triton

    triton.runtime.driver.set_active(_Driver())


class _Driver:
    """What a file may ask Triton's driver where there is no GPU."""

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("interpreter", 0, 32)

    def get_active_torch_device(self):
        import torch

        return torch.device("cpu")

    def get_benchmarker(self):
        return lambda call, **_: call()


@contextmanager
def _poisoned(torch, unwritten: set[int]):
    """Within it, what torch allocates without writing it is filled with POISON, and its storage noted."""
    places = ((torch, "empty"), (torch, "empty_like"), (torch, "empty_strided"), (torch.Tensor, "new_empty"))
    before = [getattr(owner, name) for owner, name in places]
    kept = []  # so that no storage's address is given out again

    def poisoning(allocate):
        def allocated(*args, **kwargs):
            tensor = allocate(*args, **kwargs)
            size = tensor.element_size()
            if tensor.is_floating_point() and size in POISON and tensor.numel():
                whole = torch.tensor([], dtype=tensor.dtype).set_(tensor.untyped_storage())
                bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
                whole.view(bits).numpy().view(POISON[size].dtype)[:] = POISON[size]
                unwritten.add(tensor.untyped_storage().data_ptr())
                kept.append(tensor)
            return tensor

        return allocated

    for (owner, name), allocate in zip(places, before, strict=True):
        setattr(owner, name, poisoning(allocate))
    try:
        yield
    finally:
        for (owner, name), allocate in zip(places, before, strict=True):
            setattr(owner, name, allocate)


def _name_output(watch: Watch, out) -> None:
    """Call the tensor that was returned O, by its memory or else by its values."""
    region = watch.memory.region(out.untyped_storage().data_ptr())
    name = region.views[0].name if region else None
    if name is None:
        written = [name for name in watch.written if name not in ("Q", "K", "V")]
        name = written[0] if len(written) == 1 else None
    if name not in (None, "O"):
        watch.rename(name, "O")


def _bits(out) -> np.ndarray:
    import torch

    size = out.element_size()
    kinds = {2: (torch.int16, np.uint16), 4: (torch.int32, np.uint32), 8: (torch.int64, np.uint64)}
    signed, plain = kinds[size]
    return out.contiguous().view(signed).numpy().view(plain)


def _lse(watch: Watch, numbers: Numbers, extra: list) -> list[Finding]:
    """Of an lse that is returned beside O, or that a kernel writes under that name."""
    import torch

    found, size = [], numbers.lse.size
    tensors = [("lse", each) for each in extra[:1] if isinstance(each, torch.Tensor)]
    for name, tensor in tensors or watch.held:
        if "lse" in name.lower() and tensor.numel() == size and watch.written[name] or tensors:
            values = (
                tensor.detach().double().numpy().reshape(numbers.lse.shape)
                if tensor.numel() == size
                else None
            )
            line = watch.stores.get(name)
            found.append(values is not None and judge.lse_finding(numbers, name, values, line))
    return [each for each in found if each]


def _backwards(attention: Callable, numbers: Numbers, tiling: Tiling, values: np.ndarray) -> list[Finding]:
    """Programs that touch each other's memory are run once more, the last one first: O must be the same."""
    _, out, _ = run(attention, numbers, tiling, backwards=True)
    off = np.abs(out.double().numpy().reshape(values.shape) - values)
    if np.all(off <= numbers.tolerance):
        return []
    head, row, _ = (int(axis[0]) for axis in np.nonzero(~(off <= numbers.tolerance)))
    text = (
        f"O depends on the order in which the programs run: in reverse, row {row} of head {head} is another."
    )
    return [Finding("order", text, None, None, "O")]


def _plain(watch: Watch, numbers: Numbers, seen: judge.Tiles, values, findings, notes) -> dict[str, Any]:
    problem, expected = numbers.problem, judge.expected_bytes(numbers.problem, seen.tiling)
    error = np.abs(values - numbers.out)
    named = (Tensor.Q, Tensor.K, Tensor.V, Tensor.O)
    return {
        "right": bool((error <= numbers.tolerance).all()),
        "largest_error": float(error.max()) if np.isfinite(error).all() else None,
        "tolerance": numbers.tolerance,
        "read_bytes": {
            name: watch.read.get(name, 0) for name in dict.fromkeys(["Q", "K", "V", "O", *watch.read])
        },
        "written_bytes": {
            name: watch.written.get(name, 0) for name in dict.fromkeys(["Q", "K", "V", "O", *watch.written])
        },
        "flash2_read_bytes": {each.name: expected.read[each] for each in named},
        "flash2_written_bytes": {each.name: expected.written[each] for each in named},
        "block_q": seen.tiling.block_q,
        "block_kv": seen.tiling.block_kv,
        "head": seen.head,
        "visits": [list(tile) for tile in seen.visits],
        "extra_tiles": [list(tile) for tile in seen.extra],
        "missing_tiles": [list(tile) for tile in seen.missing] if watch.visits else [],
        "repeated_tiles": [list(tile) for tile in seen.repeated],
        "tiles_of_all_heads": len(
            {
                (v.q.head, v.q.low // seen.tiling.block_q, v.k.low // seen.tiling.block_kv)
                for v in watch.visits
            }
        ),
        "launches": watch.launches,
        "programs": len(watch.by_program),
        "heads": problem.batch * problem.heads,
        "notes": notes
        + ([] if watch.visits else ["No product of Q and K was seen, so tiles are not checked."]),
        "findings": [finding.plain() for finding in findings],
    }

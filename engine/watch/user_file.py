"""A file's function `attention`: imported, and called with the arguments that it names. torch when called."""

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from unittest.mock import patch

from engine.experiment import Experiment
from engine.problem.problem import Problem, Tiling
from engine.watch.stand_in import tensors_as_on_gpu

CONTRACTS = {  # by the function that a file defines
    "attention": "attention(q, k, v, scale, block_q, block_kv, causal)",
    "delta": "delta(out, d_out, block_q)",
    "latent": "latent(q, latents, scale, block_q, block_kv)",
    "selected": "selected(q, k, v, blocks, scale, block_q, block_kv)",
    "smoothed": "smoothed(q, k, v, scale, block_q, block_kv)",
    "linear": "linear(q, k, v, gates, scale, chunk)",
    "threshold": "threshold(q, k, v, scale, block_q, block_kv)",
}
CONTRACT = CONTRACTS["attention"]
ARGUMENTS = {  # what a file may call the arguments of its attention after q, k and v
    "scale": ("scale", "sm_scale", "softmax_scale"),
    "block_q": ("block_q", "block_m", "BLOCK_Q", "BLOCK_M", "Br"),
    "block_kv": ("block_kv", "block_k", "block_n", "BLOCK_KV", "BLOCK_N", "Bc"),
    "causal": ("causal", "is_causal", "CAUSAL", "IS_CAUSAL"),
}

NO_DISK = "it writes to the disk or to another place that a watched file may not reach"
IN_OUR_WORDS = {  # what PyTorch, Triton and the system say
    "can't allocate memory": "it needs more memory than it may use",
    "Cannot allocate memory": "it needs more memory than it may use",
    "Read-only file system": NO_DISK,
    "Permission denied": NO_DISK,
    "Operation not permitted": "it starts another process, reaches one or the network, or changes a file's "
    "mode, which a watched file may not",
    "File too large": "it writes more into one file than it may",
    "No usable temporary directory": NO_DISK,
    "arange's range must be a power of 2": "tl.arange takes only powers of two; choose a head dimension and "
    "blocks that are, or let the kernel round up and mask what is too much",
}
OF_A_GPU = re.compile(r"\bcuda|nvidia|dummy base class", re.IGNORECASE)  # PyTorch without CUDA has dummies


class NotServedError(Exception):
    """A file that cannot be run; the message is one sentence."""


def watched_by(function: str) -> Callable[..., dict[str, Any]]:
    """What runs a file's function of this name, and judges it."""
    if function == "attention":
        return import_module("engine.watch.attention").watched
    return partial(import_module("engine.watch.functions").watched, function)


def report(
    file: Path, experiment: Experiment, stretch: float = 1.0, function: str = "attention"
) -> dict[str, Any]:
    """Run a file's function on one problem, and judge it: plain values for JSON; raises NotServedError."""
    with prepared(file, experiment, function) as (own, notes):
        return watched_by(function)(own, experiment, stretch, 0, str(file), notes)


def arguments(attention: Callable, tensors: list, problem: Problem, tiling: Tiling) -> tuple[list, dict]:
    """q, k and v by place, the rest by the names that the function has; raises NotServedError."""
    asked = problem.scale, tiling.block_q, tiling.block_kv, problem.mask.causal
    values = dict(zip(ARGUMENTS, asked, strict=True))
    applied = getattr(attention, "__self__", None)  # the autograd function whose apply this is
    forward = getattr(applied, "forward", None)
    try:
        parameters = list(inspect.signature(forward or attention).parameters.values())[forward is not None :]
    except (TypeError, ValueError):
        raise NotServedError(f"attention must be a function {CONTRACT}") from None
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return [*tensors, *values.values()], {}
    named = {}
    for parameter in parameters[3:]:
        known = next((name for name, names in ARGUMENTS.items() if parameter.name in names), None)
        if known in values:
            named[parameter.name] = values.pop(known)
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
            raise NotServedError(f"attention asks for {parameter.name!r}; it must be {CONTRACT}")
    if len(parameters) < 3:
        raise NotServedError("attention must take q, k and v")
    if values.get("causal"):
        raise NotServedError("attention takes no causal, so a causal mask cannot be asked of it")
    return ([*tensors, *named.values()], {}) if forward else (tensors, named)


@contextmanager
def ending_in_sentences(file: str | None) -> Iterator[None]:
    """Within it the file's code runs: however it ends, it is a NotServedError that names the line."""
    try:
        yield
    except SyntaxError as error:
        raise NotServedError(f"line {error.lineno} is not valid Python: {error.msg}") from None
    except SystemExit as end:
        raise NotServedError(f"{_where(end, file)[0]} ends Python with sys.exit({end.code})") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        line, code = _where(error, file)
        raise NotServedError(f"{line} fails: {_said(error, code)}") from None


def function_of(file: Path, name: str = "attention") -> Callable:
    """The function of a file; raises NotServedError where it cannot be imported or has none."""
    sys.path.insert(0, str(file.parent))
    with ending_in_sentences(str(file)):
        spec = spec_from_file_location(f"watched_{file.stem}", file)
        module = module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        raise NotServedError(f"it defines no function {CONTRACTS[name]}")
    return getattr(module, name)


def _where(error: BaseException, file: str | None) -> tuple[str, str]:
    """The innermost line of the file in which an error came up, and what stands there."""
    frames = []
    while error is not None:
        frames += [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        error = error.__cause__
    return (f"line {frames[-1].lineno}", frames[-1].line or "") if frames else ("the function", "")


def _said(error: BaseException, code: str) -> str:
    """What an error says, in one line; of one that was wrapped, the first; of one without words, its code."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, NotServedError):
        return str(error)
    text = " ".join(str(error).split()) or code.strip()
    if said := next((ours for theirs, ours in IN_OUR_WORDS.items() if theirs in text), None):
        return said
    if OF_A_GPU.search(text):
        return (
            f"it asks for a GPU ({text[:120]}), but a watched file's tensors lie on the CPU, where Triton's "
            "interpreter runs: make new tensors like q, or on q.device, and leave out what only a GPU has"
        )
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


@contextmanager
def prepared(file: Path, experiment: Experiment, name: str) -> Iterator[tuple[Callable, list[str]]]:
    """A file's function, whose tensors are as on a GPU and whose autotuned kernels run as configured first.

    A sentence for each of these is added to the list that comes with it.
    """
    from triton.runtime.autotuner import Autotuner

    if not experiment.problem.mask.kinds <= {"causal"}:
        raise NotServedError(f"it is asked for {experiment.problem.mask.text}; it must be causal or no mask")
    if experiment.problem.terms or experiment.problem.head_dim_v:
        asked = sorted(experiment.problem.terms) or ["V of another head_dim"]
        raise NotServedError(f"it is asked for {' and '.join(asked)}; a file is called without")
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

    with patch.object(Autotuner, "run", first), tensors_as_on_gpu():
        yield function_of(file, name), notes

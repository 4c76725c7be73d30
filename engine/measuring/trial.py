"""One problem on this machine: its inputs, what the result must be, and the calls that were found to give it.

Imports torch when called.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from typing import Any

from engine.algorithms import FORWARD
from engine.measuring import clock
from engine.measuring.exact import Exact, exact_gradients, exact_output
from engine.measuring.machine import torch
from engine.problem.mask import MaskError
from engine.problem.problem import Mask, Problem
from engine.recordings.recording import Row
from engine.trace.memory import SramOverflow
from engine.worker.jobs import JobError, LostError


@dataclass(frozen=True)
class Checked:
    """A call whose result was found right, the greatest error on the rows compared, and what is allowed."""

    call: Callable[[], Any]
    error: float | None = None
    allowed: float | None = None


@dataclass(frozen=True)
class Trial:
    """A problem with the inputs that every call gets, and what the result must be."""

    problem: Problem
    cuda: bool
    inputs: tuple  # Q, K and V
    d_out: Any  # the gradient of O; None for the forward pass
    exact: Exact

    @classmethod
    def of(cls, problem: Problem, cuda: bool, direction: str = FORWARD) -> Trial:
        """A trial of the forward or of the backward pass."""
        if problem.unserved or problem.page_size:
            raise JobError(problem.unserved or "keys in pages are timed by record --only decoding")
        q, *_ = inputs = random_inputs(problem, cuda)
        if direction == FORWARD:
            return cls(problem, cuda, inputs, None, exact_output(*inputs, problem))
        d_out = torch.randn(*q.shape[:3], problem.v_dim, device=q.device, dtype=q.dtype)
        return cls(problem, cuda, inputs, d_out, exact_gradients(*inputs, d_out, problem))

    def checked(self, prepare: Callable, **options: Any) -> Checked | str:
        """The call that is prepared, if its result is right; else why not, in a sentence."""

        def run() -> Checked:
            call = self._call(prepare, options)
            return Checked(call, self.exact.error(call()), self.exact.allowed)

        found, sentence = attempt(run, self.cuda)
        if sentence or found.error <= found.allowed:
            return sentence or found
        off = f"it is off by {found.error:.2g}, allowed is {found.allowed:.2g}"
        return not_timed("it has NaN" if isnan(found.error) else off)

    def _call(self, prepare: Callable, options: dict[str, Any]) -> Callable[[], Any]:
        """The forward pass, or the backward pass alone, its forward pass done."""
        if self.d_out is None:
            return prepare(*self.inputs, self.problem, **options)
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in self.inputs]
            out = prepare(*leaves, self.problem, **options)()
        return lambda: torch.autograd.grad(out, leaves, self.d_out, retain_graph=True)


def in_turns(found: Mapping[Row, Checked | str], repeats: clock.Repeats, cuda: bool) -> list[Row]:
    """The rows with the times of their calls, taken in turns, and their errors; or with why there is none."""
    calls = {row: one.call for row, one in found.items() if isinstance(one, Checked)}
    times = clock.in_turns(calls, repeats, cuda)
    rows = []
    for row, one in found.items():
        if isinstance(one, str):
            rows.append(replace(row, skipped=one))
            continue
        told = {name: getattr(one, name) for name in ("error", "allowed") if hasattr(row, name)}
        if hasattr(row, "relative_error"):
            told = {"relative_error": one.error}
        rows.append(replace(row, times=times[row], **told))
    return rows


def not_timed(off: str) -> str:
    """Why a call whose result is wrong, and how, has no time."""
    return f"not timed, because its result is wrong: {off}"


def random_inputs(problem: Problem, cuda: bool) -> tuple:
    """Q, K and V of normally distributed numbers, the same for the same problem."""
    device, dtype = "cuda" if cuda else "cpu", getattr(torch, problem.dtype)
    draw = partial(torch.randn, generator=torch.Generator(device).manual_seed(0), device=device, dtype=dtype)
    q = draw(problem.batch, problem.heads, problem.seq_q, problem.head_dim)
    keys = problem.batch, problem.kv_heads, problem.seq_kv
    k, v = (draw(*keys, columns) for columns in (problem.head_dim, problem.v_dim))
    return q, k, k[..., : problem.v_dim] if problem.latent else v


def attempt(action: Callable[[], Any], cuda: bool) -> tuple[Any, str | None]:
    """What an action gives, or None and why not in a sentence; raises JobError if the GPU itself failed.

    Where it failed, the memory that it took is freed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # why a backend of PyTorch does not serve a problem
            return action(), None
    except torch.OutOfMemoryError:
        free, total = torch.cuda.mem_get_info()
        sentence = f"CUDA out of memory: the GPU has {total / 1e9:.0f} GB, {free / 1e9:.1f} GB of it free"
    except JobError as error:
        sentence = str(error)
    except (RuntimeError, ImportError, ValueError, TypeError, _triton_error()) as error:
        sentence = plain_sentence(error)
        if "CUDA error" in sentence:
            raise LostError(f"the GPU failed: {sentence}; the next job starts anew") from None
    if cuda:
        torch.cuda.empty_cache()
    return None, sentence


@contextmanager
def refusals() -> Iterator[None]:
    """Within it, what the scheduler, a kernel or a library refuses is a JobError with its sentence."""
    try:
        yield
    except SramOverflow as error:
        raise JobError(f"the scheduler stops: it {error}") from error
    except (RuntimeError, ImportError, MaskError) as error:
        raise JobError(plain_sentence(error)) from error


def plain_sentence(error: Exception) -> str:
    """The first line of a library's error, in our words where they are known."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    if "No available kernel" in text or "No viable backend" in text:
        return "this backend of PyTorch does not take such a problem on this machine"
    if "can't allocate memory" in text:
        return "out of memory on this machine"
    return text


def _triton_error() -> type[Exception]:
    """What Triton raises, if it was imported: kernels must import it first, to choose its interpreter."""
    triton = sys.modules.get("triton")
    return triton.TritonError if triton else RuntimeError


TOKENS, HIDDEN = 16384, 2048  # of a training step


def training_problem(seq: int, head_dim: int, causal: bool) -> Problem:
    """16k tokens of hidden size 2048 cut in sequences of this length; a longer sequence is one of its own."""
    heads, batch = HIDDEN // head_dim, max(1, TOKENS // seq)
    return Problem(batch, heads, heads, seq, seq, head_dim, "float16", Mask(causal))

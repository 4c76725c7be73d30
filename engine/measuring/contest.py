"""Contenders on one problem: each result held against float64, then timed in turns and alone."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isnan
from typing import Any

import numpy as np

from engine.measuring import clock
from engine.measuring.bench import plain_sentence
from engine.measuring.checking import reference
from engine.measuring.gradients import exact_gradients
from engine.measuring.peers import Contender
from engine.measuring.providers import PROVIDERS, input_bytes, working_bytes
from engine.problem.flops import field_flops
from engine.problem.problem import Mask, Problem
from engine.recordings.recording import Times, Timing
from engine.worker.jobs import JobError

TOKENS, HIDDEN = 16384, 2048  # of a training step, as the field times attention
FORWARD, BACKWARD = "forward", "backward"
BACKWARD_FLOPS = 2.5  # times the forward pass's: five matrix products for two
HEAVY = 8  # who takes more than this part of the memory is not timed in turns: allocating would be timed too
TOGETHER = clock.Repeats(4, 20, 0.06)
ALONE = clock.Repeats(4, 10, 0.04)
SLOW = 0.05  # seconds a call, from which one is not timed alone as well


def usual(seq: int, head_dim: int, causal: bool) -> Problem:
    """16k tokens of hidden size 2048 cut in sequences of this length; a longer sequence is one of its own."""
    heads, batch = HIDDEN // head_dim, max(1, TOKENS // seq)
    return Problem(batch, heads, heads, seq, seq, head_dim, "float16", Mask(causal))


def random_inputs(problem: Problem, device: str):
    """Q, K and V of normally distributed numbers, the same for the same problem."""
    import torch

    generator = torch.Generator(device).manual_seed(0)
    dtype = getattr(torch, problem.dtype)
    rows = ((problem.heads, problem.seq_q), *((problem.kv_heads, problem.seq_kv),) * 2)
    return tuple(
        torch.randn((problem.batch, *size, problem.head_dim), generator=generator, device=device, dtype=dtype)
        for size in rows
    )


def percentiles(seconds: list[float]) -> Times:
    """What is kept of the repeats, to the nanosecond."""
    p20, p50, p80 = (round(float(np.quantile(seconds, share)), 9) for share in (0.2, 0.5, 0.8))
    return Times(p20, p50, p80, len(seconds))


def attempt(action: Callable[[], Any], cuda: bool) -> tuple[Any, str | None]:
    """What an action gives, or None and why not in a sentence; raises JobError if the GPU itself failed."""
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # why a backend of PyTorch does not serve a problem
            return action(), None
    except torch.OutOfMemoryError:
        sentence = "out of memory"
    except JobError as error:
        sentence = str(error)
    except (RuntimeError, ImportError, ValueError, TypeError, _triton_error()) as error:
        sentence = plain_sentence(error)
        if "CUDA error" in sentence:
            raise JobError(f"the GPU failed: {sentence}") from None
    if cuda:
        torch.cuda.empty_cache()
    return None, sentence


@dataclass
class Contest:
    """Who competes here; remembers how long each took, so that what would take too long is left out.

    Attributes:
        longest: seconds a call, beyond which it is not made.
    """

    contenders: list[Contender]
    cuda: bool
    together: clock.Repeats = TOGETHER
    alone: clock.Repeats = ALONE
    longest: float = 0.6
    pace: dict[tuple, float] = field(default_factory=dict)

    def timings(self, problem: Problem, direction: str = FORWARD) -> list[Timing]:
        """A row for each contender, in random order among equals; why not where there is no time."""
        entered = [one for one in self.contenders if direction == FORWARD or one.backward]
        reasons = {one.name: self._beforehand(one, problem, direction) for one in entered}
        wanted = [one for one in entered if reasons[one.name] is None]
        calls, errors, allowed = self._prepared(wanted, problem, direction, reasons)
        heavy = [one.name for one in wanted if one.name in calls and self._heavy(one, problem)]
        light = {name: call for name, call in calls.items() if name not in heavy}
        times, alone = self._times([light, *({name: calls[name]} for name in heavy)], reasons)
        flops = field_flops(problem) * (BACKWARD_FLOPS if direction == BACKWARD else 1)
        rows = []
        for one in entered:
            row = Timing(one.name, one.label, direction, problem, skipped=reasons[one.name])
            if one.name in times:
                spent = times[one.name]
                row = Timing(
                    one.name, one.label, direction, problem, spent, alone.get(one.name),
                    flops / spent.p50 / 1e12, errors[one.name], allowed,
                )  # fmt: skip
                self.remember(one, problem, direction, spent.p50)
            rows.append(row)
        return rows

    def remember(self, one: Contender, problem: Problem, direction: str, seconds: float) -> None:
        """How long one took, to foresee longer sequences."""
        self.pace[one.name, direction, problem.head_dim] = seconds / self._work(one, problem)

    def _times(self, groups: list[dict[str, Callable]], reasons: dict[str, str | None]):
        """Percentiles in turns (of the first group; the others have one member) and alone, by name."""
        times: dict[str, Times] = {}
        alone: dict[str, Times] = {}
        for group in groups:
            repeats = dict.fromkeys(group, self.together)
            spent, reason = attempt(lambda g=group, r=repeats: clock.interleaved(g, r, self.cuda), self.cuda)
            if spent is None:
                reasons.update(dict.fromkeys(group, reason))
            else:
                times |= {name: percentiles(seconds) for name, seconds in spent.items()}
        for name, call in random.Random(0).sample(sorted(groups[0].items()), len(groups[0])):
            if name in times and times[name].p50 < SLOW:
                spent = clock.interleaved({name: call}, {name: self.alone}, self.cuda)
                alone[name] = percentiles(spent[name])
        return times, alone

    def _prepared(self, wanted, problem: Problem, direction: str, reasons: dict[str, str | None]):
        """Calls whose result is right, their errors, and what is allowed; why not goes into `reasons`."""
        import torch

        calls: dict[str, Callable] = {}
        errors: dict[str, float] = {}
        if not wanted:
            return calls, errors, 0.0
        inputs = random_inputs(problem, "cuda" if self.cuda else "cpu")
        if direction == FORWARD:
            exact = reference(*inputs, problem)
        else:
            d_out = torch.randn_like(inputs[0])
            exact = exact_gradients(*inputs, d_out, problem)
        for one in wanted:

            def checked(one=one):
                call = one.prepare(*inputs, problem)
                if direction == BACKWARD:
                    call = backward_call(one, inputs, d_out, problem)
                return call, exact.error(call())

            found, reasons[one.name] = attempt(checked, self.cuda)
            if found is not None:
                calls[one.name], errors[one.name] = found
                reasons[one.name] = _wrong(errors[one.name], exact.allowed)
                if reasons[one.name]:
                    del calls[one.name]
        return calls, errors, exact.allowed

    def _beforehand(self, one: Contender, problem: Problem, direction: str) -> str | None:
        """Why one is not run, where that is known without running it."""
        free = clock.available_bytes(self.cuda)
        needed = input_bytes(problem) + self._extra(one, problem)
        if free is not None and needed > free:
            return f"out of memory: needs {needed / 1e9:,.0f} GB, {free / 1e9:,.0f} GB are free"
        seconds = self.pace.get((one.name, direction, problem.head_dim), 0.0) * self._work(one, problem)
        if seconds > self.longest:
            return (
                f"would take about {seconds:,.1f} s a call; recorded is what takes up to {self.longest:g} s"
            )
        return None

    def _extra(self, one: Contender, problem: Problem) -> int:
        return working_bytes(PROVIDERS[one.name], problem) if one.name in PROVIDERS else 0

    def _heavy(self, one: Contender, problem: Problem) -> bool:
        free = clock.available_bytes(self.cuda)
        return free is not None and self._extra(one, problem) > free // HEAVY

    def _work(self, one: Contender, problem: Problem) -> float:
        """What a contender's time grows with; unfused ones compute what the mask hides, too."""
        heads = problem.batch * problem.heads
        if one.name == "flash1":  # one program a head: few heads leave the GPU idle
            heads = 100 * -(-heads // 100)
        elif one.name not in ("standard", "eager"):
            return max(field_flops(problem), 1)
        return heads * problem.seq_q * problem.seq_kv * problem.head_dim


def backward_call(one: Contender, inputs, d_out, problem: Problem) -> Callable[[], Any]:
    """The backward pass alone, its forward pass done."""
    import torch

    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in inputs]
        out = one.prepare(*leaves, problem)()
    return lambda: torch.autograd.grad(out, leaves, d_out, retain_graph=True)


def _triton_error() -> type[Exception]:
    """What Triton raises, if it was imported: kernels must import it first, to choose its interpreter."""
    triton = sys.modules.get("triton")
    return triton.TritonError if triton else RuntimeError


def _wrong(error: float, allowed: float) -> str | None:
    if error <= allowed:
        return None
    off = "it has NaN" if isnan(error) else f"it is off by {error:.2g}, allowed is {allowed:.2g}"
    return f"not timed, because its result is wrong: {off}"

"""One machine and what it can run: every provider checked against float64, then timed."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from math import isnan
from typing import Any

import numpy as np

from engine.experiment import Experiment
from engine.measuring import clock
from engine.measuring.checking import Reference, reference
from engine.measuring.providers import PROVIDERS, Provider, input_bytes, interpreter_seconds, working_bytes
from engine.model.drawable import at_length
from engine.problem.flops import field_flops
from engine.problem.problem import Problem
from engine.worker.jobs import JobError, Update

LONGEST_CALL = {"cuda": 3.0, "cpu": 2.0, "interpreter": 3.0}  # seconds; what would take longer is skipped
INTERPRETED = "interpreted: for correctness, not speed"

Row = dict[str, Any]


@dataclass(frozen=True)
class Checked:
    """A call whose result was found right, and its greatest error on the sampled rows."""

    call: Callable[[], Any]
    error: float

    def __call__(self) -> Any:
        return self.call()


@dataclass
class Bench:
    """This machine and the providers that it has; remembers how long each took, to foresee the next."""

    machine: clock.Machine
    providers: list[Provider]
    interpreted: bool
    pace: dict[str, float]

    @classmethod
    def here(cls, names: Iterable[str]) -> Bench:
        """A bench on this machine; raises JobError without PyTorch."""
        try:
            machine = clock.machine()
        except ImportError as error:
            raise JobError(f"nothing can be measured here: {error}") from None
        fitting = [PROVIDERS[name] for name in names if PROVIDERS[name].cuda in (None, machine.cuda)]
        return cls(machine, fitting, not machine.cuda, {})

    def measure(self, experiments: list[Experiment]) -> Generator[Update, None, list[Row]]:
        """Rows of every provider for every experiment, in order; experiments of growing length."""
        rows: list[Row] = []
        for index, experiment in enumerate(experiments):
            keys = f"N = {experiment.problem.seq_kv:,}"
            yield Update(index / len(experiments), f"Measuring {keys}")
            for row in self.rows(experiment):
                rows.append(row)
                yield Update((index + 1) / len(experiments), f"Measured {keys}", row)
        return rows

    def rows(self, experiment: Experiment) -> list[Row]:
        """One row a provider: checked against float64 first, then timed in turns, in random order."""
        skipped = {provider.name: self._beforehand(provider, experiment) for provider in self.providers}
        wanted = [provider for provider in self.providers if skipped[provider.name] is None]
        (calls, exact), sentence = self._guarded(
            lambda: self._prepared(experiment, wanted, skipped), ({}, None)
        )
        repeats = {provider.name: self._repeats(provider) for provider in wanted}
        if not sentence:
            times, sentence = self._guarded(lambda: clock.interleaved(calls, repeats, self.machine.cuda), {})
        rows = []
        for provider in self.providers:
            name = provider.name
            row = self._row(provider, experiment, skipped[name] or sentence)
            if row["skipped"] is None:
                row |= _figures(experiment.problem, times[name])
                row |= {"error": calls[name].error, "allowed": exact.allowed}
                self.pace[name] = row["p50"] / self._work(provider, experiment)
            rows.append(row)
        return rows

    def _prepared(self, experiment: Experiment, wanted: list[Provider], skipped: dict[str, str | None]):
        """Calls of those whose result is right (why not goes into `skipped`), and what they must give."""
        calls: dict[str, Checked] = {}
        if not wanted:
            return calls, None
        inputs = self._inputs(experiment.problem)
        exact = reference(*inputs, experiment.problem)
        for provider in wanted:
            check = partial(_checked, provider, inputs, exact, experiment)
            call, skipped[provider.name] = self._guarded(check, None)
            if call is not None:
                calls[provider.name] = call
        return calls, exact

    def _beforehand(self, provider: Provider, experiment: Experiment) -> str | None:
        """Why a provider is not run, where that can be known without running it."""
        problem, name = experiment.problem, provider.name
        if provider.triton and not self.machine.has_triton:
            return f"no triton on this platform ({sys.platform}); it needs Linux"
        if provider.triton and self.interpreted:
            return self._interpreter_limit(provider, experiment)
        free = clock.available_bytes(self.machine.cuda)
        needed = input_bytes(problem) + working_bytes(provider, problem)
        if free is not None and needed > free:
            return f"out of memory: needs about {needed / 1e9:,.1f} GB, may use {free / 1e9:.1f} GB here"
        seconds = self.pace.get(name, 0.0) * self._work(provider, experiment)
        limit = LONGEST_CALL["cuda" if self.machine.cuda else "cpu"]
        if seconds > limit:
            return f"would take about {seconds:,.0f} s a call; the limit here is {limit:g} s"
        return None

    def _interpreter_limit(self, provider: Provider, experiment: Experiment) -> str | None:
        limit = LONGEST_CALL["interpreter"]
        seconds = interpreter_seconds(experiment, provider.name)
        if seconds <= limit:
            return None
        largest = self._largest_interpreted(provider, experiment)
        here = f"largest here is N = {largest:,}" if largest else "no length is short enough here"
        return f"would take about {seconds:,.0f} s a call in the interpreter; {here}"

    def _largest_interpreted(self, provider: Provider, experiment: Experiment) -> int:
        """Largest power of two of keys that the interpreter manages in time; 0 if none."""
        keys = 1
        while (
            interpreter_seconds(at_length(experiment, 2 * keys), provider.name) <= LONGEST_CALL["interpreter"]
        ):
            keys *= 2
        return keys if keys > 1 else 0

    def _work(self, provider: Provider, experiment: Experiment) -> int:
        """What a provider's time grows with; only fused kernels skip what a mask hides."""
        problem = experiment.problem
        if provider.name in ("standard", "eager", "sdpa"):
            return problem.batch * problem.heads * problem.seq_q * problem.seq_kv * problem.head_dim
        return max(field_flops(problem), 1)

    def _repeats(self, provider: Provider) -> clock.Repeats:
        if self.machine.cuda:
            return clock.ON_GPU
        return clock.INTERPRETED if provider.triton else clock.ON_CPU

    def _inputs(self, problem: Problem):
        """Q, K and V of normally distributed numbers, always the same."""
        import torch

        device = "cuda" if self.machine.cuda else "cpu"
        generator = torch.Generator(device).manual_seed(0)
        dtype = getattr(torch, problem.dtype)

        def normal(heads: int, rows: int):
            shape = (problem.batch, heads, rows, problem.head_dim)
            return torch.randn(shape, generator=generator, device=device, dtype=dtype)

        return (
            normal(problem.heads, problem.seq_q),
            normal(problem.kv_heads, problem.seq_kv),
            normal(problem.kv_heads, problem.seq_kv),
        )

    def _guarded(self, action: Callable[[], Any], otherwise: Any) -> tuple[Any, str | None]:
        """What an action gives, or another value and why, in a sentence; memory that it took is freed."""
        import torch

        try:
            return action(), None
        except torch.OutOfMemoryError:
            sentence = self._out_of_memory()
        except JobError as error:
            sentence = str(error)
        except (RuntimeError, ImportError) as error:
            sentence = plain_sentence(error)
        if self.machine.cuda:
            torch.cuda.empty_cache()
        return otherwise, sentence

    def _out_of_memory(self) -> str:
        import torch

        free, total = torch.cuda.mem_get_info()
        return f"CUDA out of memory: the GPU has {total / 1e9:.0f} GB, {free / 1e9:.1f} GB of it free"

    def _row(self, provider: Provider, experiment: Experiment, skipped: str | None) -> Row:
        """A row without figures."""
        return {
            "provider": provider.name,
            "label": provider.label,
            "keys": experiment.problem.seq_kv,
            "queries": experiment.problem.seq_q,
            "skipped": skipped,
            "note": INTERPRETED if provider.triton and self.interpreted else "",
            "experiment": experiment.flat(),
            "device": self.machine.device,
            "cuda": self.machine.cuda,
            "l2": self.machine.l2,
            "versions": self.machine.versions,
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }


def _checked(provider: Provider, inputs, exact: Reference, experiment: Experiment) -> Checked:
    """The call to be timed; raises JobError if its result is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # PyTorch's way to say why a backend does not take a problem
        call = provider.prepare(*inputs, experiment)
        error = exact.error(call())
    if not error <= exact.allowed:
        off = "it has NaN" if isnan(error) else f"it is off by {error:.2g}, allowed is {exact.allowed:.2g}"
        raise JobError(f"not timed, because its result is wrong: {off}")
    return Checked(call, error)


def _figures(problem: Problem, times: list[float]) -> Row:
    """Percentiles of the times, seconds, and the rates of the median."""
    p20, p50, p80 = (float(np.quantile(times, share)) for share in (0.2, 0.5, 0.8))
    return {
        "repeats": len(times),
        "p20": p20,
        "p50": p50,
        "p80": p80,
        "tflops": field_flops(problem) / p50 / 1e12,
        "tokens_per_second": problem.batch * problem.seq_q / p50,
    }


def plain_sentence(error: Exception) -> str:
    """The first line of a library's error, in our words where they are known."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    if "No available kernel" in text or "No viable backend" in text:
        return "this backend of PyTorch does not take such a problem on this machine"
    if "can't allocate memory" in text:
        return "out of memory on this machine"
    return text

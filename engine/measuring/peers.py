"""Who competes on a GPU: this project's kernels at their own settings, PyTorch's attention, and what else is
importable. Imports torch and kernels when called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from engine.experiment import Experiment
from engine.measuring.providers import PROVIDERS
from engine.problem.problem import Problem
from engine.worker.jobs import JobError

TUTORIAL = "fused_attention"  # what Triton calls its tutorial 06


@dataclass(frozen=True)
class Contender:
    """One implementation of attention, as it is when nobody chooses blocks for it.

    Attributes:
        name: key in rows.
        label: name on a page.
        prepare: (q, k, v, problem) -> the call to be timed, which returns O like q; raises JobError with a
            sentence where it cannot serve the problem.
        ours: whether it is a kernel of this project.
        backward: whether its backward pass is measured too.
        module: the package it needs besides torch and triton, if any.
    """

    name: str
    label: str
    prepare: Callable[..., Callable[[], Any]]
    ours: bool = False
    backward: bool = False
    module: str | None = None

    @property
    def installed(self) -> bool:
        """Whether its package is there."""
        try:
            return self.module is None or find_spec(self.module) is not None
        except ModuleNotFoundError:  # not even the package around it
            return False


def contenders(tutorial: str = TUTORIAL) -> list[Contender]:
    """All of them; `tutorial` names a module that holds Triton's tutorial 06."""
    ours = (
        Contender("standard", "Triton, unfused", _attention("standard"), ours=True),
        Contender("flash1", "Triton, FlashAttention-1", _attention("flash1"), ours=True),
        Contender("flash2", "Triton, FlashAttention-2", _attention("flash2"), ours=True, backward=True),
        Contender("flash3", "Gluon, FlashAttention-3", _flash3, ours=True, backward=True),
    )
    backward = ("sdpa_flash", "sdpa_cudnn", "sdpa_efficient")
    torchs = [
        Contender(name, PROVIDERS[name].label, _pytorch(name), backward=name in backward)
        for name in ("eager", *backward)
    ]
    return [
        *ours,
        *torchs,
        _dao("fa3", "FlashAttention-3 (Dao-AILab)", "flash_attn_interface"),
        _dao("fa4", "FlashAttention-4 (CuTe)", "flash_attn.cute"),
        Contender("tutorial06", "Triton tutorial 06", _tutorial(tutorial), module=tutorial),
    ]


def split_keys(splits: int | None = None) -> Contender:
    """split_kv, for decoding, with so many splits or its own choice."""
    return Contender("split_kv", "Triton, split keys", _attention("split_kv", splits=splits), ours=True)


def _attention(algorithm: str, **options) -> Callable[..., Callable[[], Any]]:
    def prepare(q, k, v, problem: Problem):
        from kernels import attention

        mask = {"causal": problem.mask.causal, "window": problem.mask.window}
        return lambda: attention(q, k, v, algorithm=algorithm, **mask, **options)

    return prepare


def _flash3(q, k, v, problem: Problem):
    """Its backward pass is its own too, but for a head_dim of 256: there it is flash2's."""
    from kernels.flash3 import unsupported

    if reason := unsupported(q, k, v):
        raise JobError(reason)
    return _attention("flash3")(q, k, v, problem)


def _pytorch(name: str) -> Callable[..., Callable[[], Any]]:
    def prepare(q, k, v, problem: Problem):
        return PROVIDERS[name].prepare(q, k, v, Experiment(problem=problem))

    return prepare


def _dao(name: str, label: str, module: str) -> Contender:
    """`flash_attn_func` of Dao-AILab's packages, which takes [batch, sequence, heads, head_dim]."""

    def prepare(q, k, v, problem: Problem):
        function = _imported(module, "flash_attn_func")
        if problem.mask.window is not None:
            raise JobError(f"{module} is timed without windows only")
        turned = [tensor.transpose(1, 2) for tensor in (q, k, v)]

        def call():
            out = function(*turned, causal=problem.mask.causal)
            return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

        return call

    return Contender(name, label, prepare, backward=True, module=module)


def _tutorial(module: str) -> Callable[..., Callable[[], Any]]:
    def prepare(q, k, v, problem: Problem):
        function = _imported(module, "attention")
        if problem.mask.window is not None or problem.seq_q != problem.seq_kv or problem.seq_q % 128:
            raise JobError("Triton's tutorial 06 takes square problems of whole tiles, without windows")
        return lambda: function(q, k, v, problem.mask.causal, problem.scale)

    return prepare


def _imported(module: str, name: str):
    try:
        return getattr(import_module(module), name)
    except ImportError:
        raise JobError(f"{module} is not installed") from None
    except AttributeError:
        raise JobError(f"{module} has no {name}") from None

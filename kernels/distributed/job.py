"""What a call comes to once the ranks have agreed on it: a method, how it moves bytes, and a plan."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernels.call.arguments import check_options, check_tensors
from kernels.call.call import Call
from kernels.call.device import device_of
from kernels.call.value_checks import remember
from kernels.dispatch.dispatch import algorithms, chosen
from kernels.distributed import all_to_all, ring
from kernels.distributed.choice import fastest, group_count, unserved
from kernels.distributed.layout import Layout, Plan, planned
from kernels.distributed.movers import CopyEngines, SendReceive, copying
from kernels.distributed.team import Team
from kernels.launch.launch import interpreted

METHODS = ("auto", "ring", "ring_send", "all_gather", "all_to_all")


def described(q, k, v, causal, window, scale, method, gradient: bool) -> dict[str, Any] | Exception:
    """This rank's call for the others to compare; the error of one that no ranks could make."""
    try:
        check_tensors(q, k, v, interpreted())
        if (found := device_of(q.device)).amd:
            raise ValueError(
                f"q is on an AMD GPU ({found.architecture}), over several GPUs it must be NVIDIA's"
            )
        check_options(window, scale, "auto", None, None, None, algorithms())
        if isinstance(window, tuple | list):
            raise ValueError(f"window is {window!r}, over GPUs it must be None or a number of keys")
        if q.shape[2] != k.shape[2]:
            raise ValueError(f"k has {k.shape[2]} tokens and q {q.shape[2]}, they must be the same tokens")
        if v.shape[3] != q.shape[3]:
            raise ValueError(f"v has head_dim {v.shape[3]} and q {q.shape[3]}, over GPUs they must be alike")
        if method not in METHODS:
            raise ValueError(f"method is {method!r}, it must be one of {', '.join(METHODS)}")
    except (TypeError, ValueError) as error:
        return error
    return {
        "device": q.device.type,
        "batch": q.shape[0],
        "heads": q.shape[1],
        "kv_heads": k.shape[1],
        "head_dim": q.shape[3],
        "tokens": q.shape[2],
        "dtype": str(q.dtype).removeprefix("torch."),
        "causal": bool(causal),
        "window": window,
        "scale": scale,
        "method": method,
        "whether a gradient is asked for": gradient,
    }


def agreed(team: Team, own: dict | Exception) -> Layout:
    """The layout that all ranks' calls make; on every rank the same ValueError or TypeError if none."""
    every = team.exchange(own)
    for rank, said in enumerate(every):
        if isinstance(said, Exception):
            raise type(said)(str(said) if team.size == 1 else f"rank {rank}: {said}")
    for name in own:
        if name != "tokens" and any(said[name] != every[0][name] for said in every):
            values = "; ".join(f"{said[name]} on rank {rank}" for rank, said in enumerate(every))
            raise ValueError(f"the ranks differ in {name}: {values}; it must be the same on all")
    layout = Layout(sum(said["tokens"] for said in every), team.size, own["causal"])
    for rank, said in enumerate(every):
        if layout.tokens < layout.chunks or said["tokens"] != layout.rows(rank):
            raise ValueError(_uneven(layout, rank, said["tokens"]))
    return layout


def _uneven(layout: Layout, rank: int, tokens: int) -> str:
    order = f"{'zigzag' if layout.zigzag else 'plain'} order on {layout.ranks} ranks"
    if layout.tokens < layout.chunks:
        return f"the ranks hold {layout.tokens} tokens together, {order} needs at least {layout.chunks}"
    return (
        f"rank {rank} holds {tokens} of {layout.tokens} tokens, it must hold {layout.rows(rank)} in {order},"
        f" as shard(t, causal={layout.zigzag}) gives them"
    )


def differentiated(*tensors: torch.Tensor) -> bool:
    """Whether a gradient is asked for."""
    return torch.is_grad_enabled() and any(getattr(each, "requires_grad", False) for each in tensors)


@dataclass(frozen=True)
class Job:
    """An agreed call; `reason` is why its method was taken."""

    method: str
    mover: CopyEngines | SendReceive
    layout: Layout
    plan: Plan | None
    call: Call
    reason: str

    def forward(self, q, k, v) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        """O like q, lse, and what `backward` needs."""
        if self.plan is None:
            return all_to_all.attend(self.mover.team, self.layout, self.call, q, k, v)
        out, lse = ring.attend(self.mover, self.plan, self.call, q, k, v)
        return out, lse, [q, k, v, out, lse]

    def backward(self, saved, d_out, d_lse) -> tuple[torch.Tensor, ...]:
        """dQ, dK and dV."""
        if self.plan is None:
            return all_to_all.differentiate(self.mover.team, self.layout, self.call, saved, d_out, d_lse)
        return ring.differentiate(self.mover, self.plan, self.call, *saved, d_out, d_lse)


def job_of(team: Team, q, k, v, causal, window, scale, method, gradient: bool) -> Job:
    """The job of a call; every rank asks, and the ranks talk before the first of each kind alone.

    ValueError or TypeError, on all ranks, where there is none.
    """
    if q.is_cuda and torch.cuda.is_current_stream_capturing():
        raise RuntimeError("a CUDA graph takes no ring_attention, whose ranks must meet at every replay")
    tensors = ((type(each), getattr(each, "shape", None), getattr(each, "dtype", None)) for each in (q, k, v))
    known = (*tensors, bool(causal), repr(window), repr(scale), repr(method), gradient)
    if known not in team.jobs:
        own = described(q, k, v, causal, window, scale, method, gradient)
        remember(team.jobs, known, _agree(team, q, k, v, own))
    return team.jobs[known]


def _agree(team: Team, q, k, v, own: dict | Exception) -> Job:
    layout = agreed(team, own)
    causal, window, method = own["causal"], own["window"], own["method"]
    call, _ = chosen(q, k, v, causal, window, own["scale"])
    window = None if window is None else min(window, layout.tokens)
    call = replace(call, causal=causal or window is not None, window=window)
    if sentence := unserved(method, layout, call):
        raise ValueError(f"method is {method!r}: {sentence}")
    mover, why_not = SendReceive(team), None
    if method not in ("ring_send", "all_to_all") and team.size > 1:
        found = copying(team)
        mover, why_not = (mover, found) if isinstance(found, str) else (found, None)
    if why_not and method == "ring":
        warnings.warn(f"ring runs as ring_send: {why_not}", stacklevel=6)
    reason = "it was asked for"
    if method == "auto":
        method, reason = fastest(layout, call, q.element_size(), why_not is None)
        reason = f"{reason}; {why_not}" if why_not else reason
    plan = None
    if method != "all_to_all":
        groups = group_count(method, layout, call, q.element_size())
        plan = planned(layout, team.rank, causal, window, method != "all_gather", groups)
    return Job(method, mover, layout, plan, call, reason)

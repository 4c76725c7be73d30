"""Attention over a sequence that several GPUs share: ring attention and its relatives, on torch.distributed.

Each rank holds a part of the tokens, `shard(t, causal=...)`, and gets its part of the output. Every rank of
the group makes the same calls, in the same order.
"""

from contextlib import nullcontext

import torch
import torch.distributed as dist

from kernels.call.value_checks import (
    as_autocast,
    check_is_tensor,
    check_layout,
    check_untransformed,
    resolved,
)
from kernels.distributed.job import METHODS, Job, differentiated, job_of
from kernels.distributed.layout import Layout
from kernels.distributed.team import team_of

LAYOUT = "[batch, heads, tokens, head_dim]"

__all__ = ["METHODS", "explain", "ring_attention", "shard", "unshard"]


def shard(t: torch.Tensor, *, causal: bool, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """This rank's part of a [batch, heads, tokens, head_dim] tensor that every rank has; differentiable.

    Zigzag where causal: of 2 G chunks rank r holds r and 2 G - 1 - r, so that all ranks have the same work.
    Else rank r holds chunk r of G. Any number of tokens that gives every chunk one is served.
    """
    check_layout("t", t, LAYOUT)
    team = team_of(group, t.device)
    layout = Layout(t.shape[2], team.size, bool(causal))
    if layout.tokens < layout.chunks:
        raise ValueError(
            f"t has {layout.tokens} tokens, it must have at least {layout.chunks} for {team.size} ranks"
        )
    parts = [t[:, :, each.start : each.stop] for each in layout.spans[team.rank]]
    return torch.cat(parts, 2)


def unshard(t: torch.Tensor, *, causal: bool, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """The whole [batch, heads, tokens, head_dim] tensor, on every rank, of which each has its part.

    Has no gradient: ValueError for a tensor that asks for one.
    """
    check_layout("t", t, LAYOUT)
    if differentiated(t):
        raise ValueError("t requires grad, which unshard does not give: call it with t.detach()")
    check_untransformed(t)
    team = team_of(group, t.device)
    said = team.exchange((t.shape, t.dtype))
    rows = [shape[2] for shape, _ in said]
    layout = Layout(sum(rows), team.size, bool(causal))
    alike = {(*shape[:2], shape[3], dtype) for shape, dtype in said}
    if len(alike) > 1 or rows != [layout.rows(rank) for rank in range(team.size)]:
        shapes = ", ".join(f"{tuple(shape)} {dtype}" for shape, dtype in said)
        raise ValueError(f"t is {shapes} on the ranks, it must be what shard(t, causal={bool(causal)}) gives")
    (t,) = resolved(t)
    own = t.new_zeros(*t.shape[:2], layout.most_rows, t.shape[3])  # padded to the longest on its way
    own[:, :, : t.shape[2]] = t.detach()
    parts = [torch.empty_like(own) for _ in range(team.size)]
    dist.all_gather([each.view(torch.uint8) for each in parts], own.view(torch.uint8), team.transfers)
    return torch.cat([parts[rank][:, :, span.row : span.row + span.rows] for span, rank in layout.owners], 2)


def ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    group: dist.ProcessGroup | None = None,
    method: str = "auto",
    return_lse: bool = False,
    scale: float | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale q k^T) v of this rank's tokens over the keys of all ranks; differentiable.

    q is [batch, heads, tokens, head_dim], k and v [batch, kv_heads, tokens, head_dim], this rank's part as
    `shard` gives it with the same `causal`. causal, window and scale are those of `kernels.attention`, over
    the whole sequence. group is a process group, a DeviceMesh of one dimension, or all ranks. With return_lse
    also the natural log-sum-exp, float32 [batch, heads, tokens].

    method is ring (K and V pulled from their owners by copy engines, step by step; where the GPUs cannot map
    each other's memory a warning says so and ring_send runs), ring_send (the same by send and receive),
    all_gather (keys in the order of the sequence, a group of heads at a time), all_to_all (Ulysses: tokens
    exchanged for heads) or auto, see `explain`: ring, with few tokens all_gather; where the GPUs cannot map
    each other's memory all_to_all if the ranks divide the heads. With a window ring fetches the keys that the
    rank's queries see, and no others.

    The ranks compare their calls before the first transfer of a new one: ValueError or TypeError, the same on
    all ranks, where they differ. Where a rank has ended, PyTorch ends the others' wait for it with its own
    error, after `kernels.distributed.team.PATIENCE` seconds at the latest. torch.compile leaves the call as
    it is; a CUDA graph takes none.
    """
    run = torch.compiler.disable(_run) if torch.compiler.is_compiling() else _run
    return run(q, k, v, causal, window, group, method, return_lse, scale)


def explain(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    group: dist.ProcessGroup | None = None,
    method: str = "auto",
    scale: float | None = None,
) -> str:
    """Which method `ring_attention` takes for these arguments and why, in one sentence; every rank asks."""
    job = _job(*as_autocast(q, k, v), causal, window, group, method, scale)
    return f"{job.method} runs by {job.mover.name}: {job.reason}"


class RingAttention(torch.autograd.Function):
    """O and lse of a job, and their gradients."""

    @staticmethod
    def forward(ctx, q, k, v, job: Job):
        """O and lse."""
        out, lse, saved = job.forward(q, k, v)
        ctx.save_for_backward(*saved)
        ctx.job = job
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_out, d_lse):
        """dQ, dK and dV, and nothing for the job."""
        saved = ctx.saved_tensors
        with _on(saved[0]):
            return *ctx.job.backward(saved, *resolved(d_out, d_lse)), None


def _run(q, k, v, causal, window, group, method, return_lse, scale):
    check_untransformed(q, k, v)
    q, k, v = resolved(*as_autocast(q, k, v))
    job = _job(q, k, v, causal, window, group, method, scale)
    with _on(q):
        if differentiated(q, k, v):
            out, lse = RingAttention.apply(q, k, v, job)
        else:
            out, lse, _ = job.forward(q, k, v)
    return (out, lse) if return_lse else out


def _job(q, k, v, causal, window, group, method, scale) -> Job:
    """What the ranks have agreed on."""
    check_is_tensor("q", q)
    team = team_of(group, q.device)
    return job_of(team, q, k, v, causal, window, scale, method, differentiated(q, k, v))


def _on(tensor: torch.Tensor):
    """A context in which a tensor's GPU is the current one."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()

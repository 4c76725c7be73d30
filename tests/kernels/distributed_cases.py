"""Calls of ring attention for the tests, and what they must give."""

import contextlib
import functools
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import torch

from kernels.call.options import Options
from kernels.distributed import all_to_all, combine, movers, ring, ring_attention, shard, team
from kernels.distributed import layout as plan
from kernels.reference import reference_attention, visible_mask


@dataclass(frozen=True)
class Case:
    name: str
    method: str = "ring_send"
    tokens: int = 41
    causal: bool = True
    window: int | None = None
    heads: int = 4
    kv_heads: int = 4
    head_dim: int = 8
    batch: int = 1
    dtype: str = "float32"
    scale: float | None = None
    copying: bool = False  # by copy engines, whose shared memory is files mapped by all ranks
    kernels: bool = False


BASE = [
    Case("causal"),
    Case("plain", causal=False),
    Case("grouped-heads-batch", heads=8, kv_heads=4, batch=2, scale=0.3),
    Case("fewest-tokens", tokens=8),
    Case("window-near", window=5, kv_heads=2),
    Case("window-far-plain-order", window=30, causal=False),
    Case("window-far", window=30, kv_heads=4, batch=2),
]
METHODS = (
    ("ring_send", False),
    ("ring", True),
    ("all_gather", False),
    ("all_gather", True),
    ("all_to_all", False),
)
IN_TURN = {  # the rest: by all
    "plain": (0, 3, 4),
    "fewest-tokens": (1, 2, 4),
    "window-far-plain-order": (1, 2, 4),
}
EVERY = [
    replace(case, name=f"{case.name}-{method}{'-copied' if copying else ''}", method=method, copying=copying)
    for case in BASE
    for m, (method, copying) in enumerate(METHODS)
    if method != "all_to_all" or case.kv_heads == 4
    if m in IN_TURN.get(case.name, range(len(METHODS)))
]
INTERPRETED = [
    Case("kernels-causal-ring", kernels=True, dtype="float16", heads=2, kv_heads=1, head_dim=16, tokens=19),
    Case("kernels-window", kernels=True, heads=1, kv_heads=1, window=9, tokens=21, method="all_gather"),
]
EXACT = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def dense_forward(q, k, v, causal, window, scale, *_):
    out, lse = reference_attention(q, k, v, causal=causal, window=window, scale=scale)
    return out.to(q.dtype), lse.float()


def dense_gradients(q, k, v, out, lse, d_out, d_lse, causal, window, scale, *_):
    """From any lse and out, also those over more keys than are here."""
    group = q.shape[1] // k.shape[1]
    keys, values = (each.double().repeat_interleave(group, 1) for each in (k, v))
    seen = visible_mask(q.shape[2], k.shape[2], Options(causal, window))
    weights = (scale * (q.double() @ keys.mT) - lse.double()[..., None]).exp().masked_fill(~seen, 0.0)
    delta = (d_out.double() * out.double()).sum(-1) - (0.0 if d_lse is None else d_lse.double())
    d_scores = weights * (d_out.double() @ values.mT - delta[..., None]) * scale
    shape = (k.shape[0], k.shape[1], group, *k.shape[2:])
    d_k = (d_scores.mT @ q.double()).reshape(shape).sum(2)
    d_v = (weights.mT @ d_out.double()).reshape(shape).sum(2)
    return (d_scores @ keys).to(q.dtype), d_k.to(k.dtype), d_v.to(v.dtype)


def dense_combine(pieces, call, out, lse=None):
    """As the kernel, the interpreter of which takes longer than all else here."""
    tensors, logs = [], []
    for piece in pieces:
        rows = slice(piece.row, piece.row + piece.tensor.shape[2])
        tensors.append(torch.zeros(out.shape, dtype=torch.float64))
        tensors[-1][:, :, rows] = piece.tensor.double()
        logs.append(torch.full(out.shape[:3], -torch.inf, dtype=torch.float64))
        if lse is not None:
            logs[-1][:, :, rows] = piece.lse.double()
    together = torch.logsumexp(torch.stack(logs), 0)
    if lse is None:
        out.copy_(sum(tensors))
    else:
        weights = [(each - together).exp().nan_to_num() for each in logs]
        out.copy_(sum(weight[..., None] * each for weight, each in zip(weights, tensors, strict=True)))
        lse.copy_(together)


class Files:
    """Stands in for symmetric memory: a file a rank, mapped by all."""

    def __init__(self, folder: str):
        self.folder, self.count = folder, 0

    def rendezvous(self, ranks, size):
        self.count += 1
        names = [f"{self.folder}/{self.count}-{rank}" for rank in range(ranks.size)]
        Path(names[ranks.rank]).write_bytes(bytes(size))
        ranks.exchange(None)
        buffers = [torch.from_file(name, True, size, dtype=torch.uint8) for name in names]
        return buffers, lambda channel: ranks.exchange(None)


def poisoned(allocate):
    """What is left unwritten shows as NaN."""

    @torch.no_grad()  # a leaf may be asked for that requires a gradient
    def fill(tensor):
        return tensor.fill_(torch.nan if tensor.is_floating_point() else 255)

    def allocate_poisoned(*args, **kwargs):
        return fill(allocate(*args, **kwargs))

    return allocate_poisoned


def forgotten() -> None:
    """What the ranks agreed on."""
    movers.copying.cache_clear()
    for each in team._teams.values():
        each.jobs.clear()


@contextlib.contextmanager
def arranged(case: Case, files: Files):
    """The kernels or their twins, and memory that the ranks map or do not."""
    forgotten()
    with contextlib.ExitStack() as stack:
        for name in ("empty", "empty_like"):
            stack.enter_context(mock.patch.object(torch, name, poisoned(getattr(torch, name))))
        if not case.kernels:
            for module in (ring, all_to_all):
                stack.enter_context(mock.patch.object(module, "forward", dense_forward))
                stack.enter_context(mock.patch.object(module, "gradients", dense_gradients))
            for module in (ring, combine):
                stack.enter_context(mock.patch.object(module, "combine", dense_combine))
        if case.copying:
            stack.enter_context(mock.patch.object(movers, "unavailable", return_value=None))
            stack.enter_context(mock.patch.object(movers, "rendezvous", files.rendezvous))
            stack.enter_context(mock.patch.object(movers, "GRAIN", 64))
            # as many groups as there may be
            stack.enter_context(mock.patch("kernels.tilings.methods.GROUP_BYTES", 1))
            stack.enter_context(mock.patch.object(ring, "MOST_PARTS", 2))
            for module in (plan, ring):
                stack.enter_context(mock.patch.object(module, "EPOCH", 2))
        yield


def drawn(case: Case) -> list[torch.Tensor]:
    """Whole q, k, v and the gradients of O and lse."""
    generator = torch.Generator().manual_seed(case.tokens + case.heads)
    heads = (case.heads, case.kv_heads, case.kv_heads, case.heads)
    shapes = [(case.batch, count, case.tokens, case.head_dim) for count in heads]
    shapes.append((case.batch, case.heads, case.tokens, 1))
    dtype = getattr(torch, case.dtype)
    tensors = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    return [*tensors[:4], tensors[4].float()]


@functools.lru_cache(maxsize=2)
def exact_of(problem: Case) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What is drawn, and O, lse, dQ, dK and dV of it in float64; the same for every method."""
    q, k, v, d_out, d_lse = tensors = drawn(problem)
    mask = {"causal": problem.causal, "window": problem.window, "scale": problem.scale}
    wide = [each.double().requires_grad_() for each in (q, k, v)]
    out, lse = reference_attention(*wide, **mask)
    gradients = torch.autograd.grad((out, lse), wide, (d_out.double(), d_lse[..., 0].double()))
    return tensors, [each.detach() for each in (out, lse[..., None], *gradients)]


def checked(case: Case, turns: int) -> dict:
    """The largest relative error of each result on this rank, against float64 on the whole sequence."""
    mask = {"causal": case.causal, "window": case.window, "scale": case.scale}
    tensors, exact = exact_of(replace(case, name="", method="", copying=False))
    own = [shard(each, causal=case.causal) for each in tensors]
    leaves = [each.requires_grad_() for each in own[:3]]
    errors = {}
    for turn in range(turns):  # the second time nothing is worked out anew, and memory is used again
        out, lse = ring_attention(*leaves, **mask, method=case.method, return_lse=True)
        found = torch.autograd.grad((out, lse), leaves, (own[3], own[4][..., 0]))
        with torch.no_grad():
            if turn and not torch.equal(ring_attention(*leaves, **mask, method=case.method), out):
                errors["without gradient"] = 1.0
        for name, ours, right in zip(
            ("O", "lse", "dQ", "dK", "dV"), (out, lse[..., None], *found), exact, strict=True
        ):
            right = shard(right, causal=case.causal)
            error = ((ours.double() - right).norm() / right.norm()).item()
            errors[name] = max(errors.get(name, 0.0), error if error == error else 1e9)
    return errors


def ran(case: Case, files: Files, turns: int) -> dict:
    """What came of a case on this rank: its worst error, as a share of what the dtype allows."""
    with arranged(case, files), warnings.catch_warnings():
        warnings.simplefilter("error")
        errors = checked(case, turns)
    return {name: error / EXACT[case.dtype] for name, error in errors.items()}

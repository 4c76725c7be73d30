"""What is timed: the Triton kernels, and PyTorch's own attention, unfused and fused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.experiment import Experiment
from engine.problem.bounds import key_bounds
from engine.problem.problem import Problem
from engine.worker.jobs import JobError

# milliseconds that Triton's interpreter takes for one tile, and for each 1000 scores of it (float16, one core
# of an x86 server, measured): enough to say beforehand what would take too long
INTERPRETER_MS = {
    "standard": (10.0, 1.6),
    "flash1": (8.0, 0.1),
    "flash2": (6.0, 0.1),
    "backward": (10.0, 8.0),
}


@dataclass(frozen=True)
class Provider:
    """One implementation of attention.

    Attributes:
        name: key in rows and on the command line.
        label: name on a page.
        prepare: (q, k, v, experiment) -> the call to be timed, which returns O like q.
        triton: whether it is a kernel of this project, interpreted where there is no GPU.
        cuda: whether it exists on a GPU only (True), on a CPU only (False), or on both (None).
    """

    name: str
    label: str
    prepare: Callable[..., Callable[[], Any]]
    triton: bool = False
    cuda: bool | None = None


def visible_mask(problem: Problem, device):
    """[seq_q, seq_kv] bool tensor of the keys that each query sees; None where it sees all."""
    import torch

    if problem.mask.looks_ahead:
        return None
    position = torch.arange(problem.seq_q, device=device)[:, None] + problem.offset
    key = torch.arange(problem.seq_kv, device=device)[None, :]
    seen = key <= position
    return seen if problem.mask.window is None else seen & (key > position - problem.mask.window)


def _kernel(algorithm: str) -> Callable[..., Callable[[], Any]]:
    def prepare(q, k, v, experiment: Experiment):
        from kernels import attention

        mask, tiling = experiment.problem.mask, experiment.tiling
        return lambda: attention(
            q,
            k,
            v,
            causal=mask.causal,
            window=mask.window,
            algorithm=algorithm,
            block_q=tiling.block_q,
            block_kv=tiling.block_kv,
        )

    return prepare


def _unfused(q, k, v, experiment: Experiment):
    """Matmul, scale, mask, softmax, matmul; the query heads of one key head share its matrix products."""
    import torch

    problem = experiment.problem
    seen = visible_mask(problem, q.device)
    hidden = None if seen is None else ~seen
    blind = hidden is not None and bool(hidden.all(1).any())
    group = problem.heads // problem.kv_heads
    rows = (problem.batch, problem.kv_heads, group * problem.seq_q)
    split = (problem.batch, problem.kv_heads, group, problem.seq_q, problem.seq_kv)
    scale = problem.head_dim**-0.5

    def call():
        scores = (q.reshape(*rows, -1) @ k.mT) * scale
        if hidden is not None:
            scores.view(split).masked_fill_(hidden, -torch.inf)
        weights = torch.softmax(scores, -1)
        if blind:
            weights.nan_to_num_(0.0)
        return (weights @ v).view(q.shape)

    return call


def _fused(backend: str | None) -> Callable[..., Callable[[], Any]]:
    def prepare(q, k, v, experiment: Experiment):
        from contextlib import nullcontext

        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        problem = experiment.problem
        square = problem.mask.window is None and problem.seq_q == problem.seq_kv
        arguments = {"enable_gqa": problem.heads != problem.kv_heads}
        if problem.mask.causal and square:
            arguments["is_causal"] = True  # PyTorch aligns the first query with the first key
        elif not (problem.mask.window is None and problem.seq_q == 1):  # one query, the last, sees every key
            arguments["attn_mask"] = visible_mask(problem, q.device)

        def call():
            chosen = nullcontext() if backend is None else sdpa_kernel(getattr(SDPBackend, backend))
            with chosen:
                return scaled_dot_product_attention(q, k, v, **arguments)

        return call

    return prepare


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider("standard", "Triton, unfused", _kernel("standard"), triton=True),
        Provider("flash1", "Triton, FlashAttention-1", _kernel("flash1"), triton=True),
        Provider("flash2", "Triton, FlashAttention-2", _kernel("flash2"), triton=True),
        Provider("eager", "PyTorch, unfused", _unfused),
        Provider("sdpa", "PyTorch, fused", _fused(None), cuda=False),
        Provider("sdpa_flash", "PyTorch, flash backend", _fused("FLASH_ATTENTION"), cuda=True),
        Provider("sdpa_cudnn", "PyTorch, cuDNN backend", _fused("CUDNN_ATTENTION"), cuda=True),
        Provider("sdpa_efficient", "PyTorch, memory-efficient", _fused("EFFICIENT_ATTENTION"), cuda=True),
    )
}


def refuse_documents(experiment: Experiment) -> None:
    """JobError where there is more than one document: no kernel here takes that mask, nor another instead."""
    documents = experiment.problem.mask.documents
    if documents > 1:
        raise JobError(f"documents is {documents}; it must be 1 to run the kernels, which take no such mask")


def interpreter_seconds(experiment: Experiment, algorithm: str) -> float:
    """What one call would take in Triton's interpreter, roughly."""
    problem, tiling = experiment.problem, experiment.tiling
    bounds = key_bounds(problem, tiling)
    visits = np.maximum(bounds.stop - bounds.first, 0).sum()
    if algorithm == "standard":
        visits = len(bounds.first) * -(-problem.seq_kv // tiling.block_kv)
    fixed, scores = INTERPRETER_MS[algorithm]
    tile = fixed + scores * tiling.block_q * tiling.block_kv / 1e3
    return float(problem.batch * problem.heads * visits * tile / 1e3)


def working_bytes(provider: Provider, problem: Problem) -> int:
    """Memory that a call takes beside Q, K, V and O, bytes, about: scores, weights and the mask."""
    scores = problem.batch * problem.heads * problem.seq_q * problem.seq_kv
    mask = 0 if problem.mask.looks_ahead or provider.triton else problem.seq_q * problem.seq_kv
    unfused = {"standard": 2, "eager": 3}.get(provider.name, 0)
    return unfused * scores * problem.itemsize + mask


def input_bytes(problem: Problem) -> int:
    """Q, K, V and O, bytes."""
    rows = problem.heads * problem.seq_q * 2 + problem.kv_heads * problem.seq_kv * 2
    return problem.batch * rows * problem.head_dim * problem.itemsize

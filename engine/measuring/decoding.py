"""Few queries against many keys: bytes of K and V over time, by the number of splits and by contender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.measuring import clock
from engine.measuring.implementations import implementations
from engine.measuring.trial import Trial
from engine.problem.problem import Mask, Problem
from engine.recordings.recording import Decoding

SPLITS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
KEYS = (1024, 8192, 65536, 131072)
HEADS, HEAD_DIM = 32, 128
KV_HEADS = (8, 32)  # grouped, and each head with keys of its own
COPIED = 2**30  # bytes
REPEATS = clock.Repeats(10, 30, 0.03)
PEERS = ("flash2", "sdpa_flash", "sdpa_cudnn", "sdpa_efficient", "fa3", "fa4")
COPY, SPLIT = "copy", "split_kv"


def plan() -> list[Problem]:
    """One query of a model with grouped heads, then with plain ones, at each length."""
    return [
        Problem(1, HEADS, kv_heads, 1, keys, HEAD_DIM, "float16", Mask(True))
        for kv_heads in KV_HEADS
        for keys in KEYS
    ]


def key_bytes(problem: Problem) -> int:
    """Bytes of K and V, which decoding has to read."""
    return 2 * problem.batch * problem.kv_heads * problem.seq_kv * problem.head_dim * problem.itemsize


def own_blocks(problem: Problem) -> tuple[int, int]:
    """(block_q, block_kv) that split_kv takes for a problem."""
    import torch

    from kernels import split_blocks

    rows = problem.group * problem.seq_q
    return split_blocks(rows, problem.head_dim, getattr(torch, problem.dtype))


def rows_of(problem: Problem, cuda: bool) -> list[Decoding]:
    """Every split count, split_kv's own choice, the peers, and a copy in the same run; checked first."""
    blocks = dict(zip(("block_q", "block_kv"), own_blocks(problem), strict=True))
    known, trial = implementations(), Trial.of(problem, cuda)
    entered = [(known[SPLIT], splits) for splits in (None, *SPLITS)]
    entered += [(known[name], None) for name in PEERS if known[name].installed]
    rows: dict[tuple[str, int | None], Decoding] = {}
    calls: dict[tuple[str, int | None], Callable] = {}
    for one, splits in entered:
        key, own = (one.name, splits), one.name == SPLIT
        found = trial.checked(one.prepare, **({"splits": splits} if own else {}))
        row = Decoding(one.name, one.label, problem, splits, **(blocks if own else {}))
        rows[key] = replace(row, skipped=found) if isinstance(found, str) else row
        if not isinstance(found, str):
            calls[key] = found.call
    rows[COPY, None] = Decoding(COPY, "device copy, read plus written", problem)
    calls[COPY, None] = _copy(cuda)
    moved = dict.fromkeys(calls, key_bytes(problem)) | {(COPY, None): COPIED if cuda else COPIED // 64}
    for key, seconds in clock.interleaved(calls, dict.fromkeys(calls, REPEATS), cuda).items():
        times = clock.percentiles(seconds)
        rows[key] = replace(rows[key], times=times, bytes_per_second=moved[key] / times.p50)
    return list(rows.values())


def _copy(cuda: bool) -> Callable:
    """A copy that reads half of COPIED bytes and writes as much."""
    import torch

    size = (COPIED if cuda else COPIED // 64) // 2
    source = torch.ones(size, dtype=torch.uint8, device="cuda" if cuda else "cpu")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)

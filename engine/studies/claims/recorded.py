"""What claims ask of a recording; None wherever it has no such row."""

from __future__ import annotations

import numpy as np

from engine.recordings.recording import Counters, Recording

UNFUSED, FUSED = "eager", "sdpa_flash"  # PyTorch's own, both


def speedup(recording: Recording | None, keys: int, head_dim: int, causal: bool = False) -> float | None:
    """Forward time of unfused PyTorch over its FlashAttention's at a length."""
    times = [seconds(recording, name, keys, head_dim, causal) for name in (UNFUSED, FUSED)]
    return None if None in times else times[0] / times[1]


def seconds(
    recording: Recording | None, provider: str, keys: int, head_dim: int, causal: bool = False
) -> float | None:
    """Recorded median of a forward pass."""
    if recording is None:
        return None
    series = recording.series(provider, head_dim, causal)
    times = series.p50[series.lengths == keys]
    return float(times[0]) if len(times) and np.isfinite(times[0]) else None


def rates(recording: Recording | None, provider: str, head_dim: int) -> dict[int, float]:
    """FLOP/s of a provider's forward pass by length."""
    if recording is None:
        return {}
    series = recording.series(provider, head_dim, False)
    known = np.isfinite(series.tflops)
    return dict(zip(series.lengths[known].tolist(), (series.tflops[known] * 1e12).tolist(), strict=True))


def counters(recording: Recording | None, provider: str, keys: int, head_dim: int) -> Counters | None:
    """The counters of a forward pass of one batch without a mask, if it was counted."""
    rows = () if recording is None else recording.counters
    for row in rows:
        problem, mask = row.problem, row.problem.mask
        shape = (problem.batch, problem.seq_q, problem.seq_kv, problem.head_dim)
        plain = not mask.causal and mask.window is None
        alike = (row.provider, row.direction) == (provider, "forward") and shape == (1, keys, keys, head_dim)
        if alike and plain and row.kernels:
            return row
    return None


def origin(recording: Recording | None) -> str:
    """Where its numbers come from."""
    return "not recorded" if recording is None else recording.origin

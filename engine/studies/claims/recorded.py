"""What claims ask of a recording; None wherever it has no such row."""

from __future__ import annotations

from engine.problem.problem import Problem
from engine.recordings.recording import Counters, Recording
from engine.recordings.rows import timings_of
from engine.recordings.timing import TilingTiming, Timing

UNFUSED, FUSED = "eager", "sdpa_flash"  # PyTorch's own, both
BACKENDS = (FUSED, "sdpa_cudnn", "sdpa_efficient")  # of PyTorch's scaled_dot_product_attention
FUSED_KERNELS = (FUSED, "sdpa_cudnn", "flash2", "flash3", "fa4")


def speedup(
    recording: Recording | None, keys: int, head_dim: int, causal: bool = False, fused: str = FUSED
) -> float | None:
    """Forward time of unfused PyTorch over a fused kernel's, its own flash unless said, at a length."""
    times = [seconds(recording, name, keys, head_dim, causal) for name in (UNFUSED, fused)]
    return None if None in times else times[0] / times[1]


def seconds(
    recording: Recording | None, provider: str, keys: int, head_dim: int, causal: bool = False
) -> float | None:
    """Recorded median of a forward pass."""
    rows = _timings(recording, provider, head_dim, causal)
    return next((row.times and row.times.p50 for row in rows if row.problem.seq_kv == keys), None)


def copied(recording: Recording | None) -> float | None:
    """Bytes/s of the fastest recorded copy, read and written."""
    rows = () if recording is None else recording.decoding
    return max((row.bytes_per_second for row in rows if row.provider == "copy" and row.times), default=None)


def waiting_cost(recording: Recording | None, head_dim: int) -> float | None:
    """How many times as long version 2's fastest recorded tiling takes with one stage, no copy ahead."""
    rows = () if recording is None else recording.sweep
    timed = [
        row for row in rows if row.algorithm == "flash2" and row.problem.head_dim == head_dim and row.times
    ]
    waiting = [row.times.p50 for row in timed if row.stages == 1]
    return min(waiting) / min(row.times.p50 for row in timed) if waiting else None


def rates(recording: Recording | None, provider: str, head_dim: int) -> dict[int, float]:
    """FLOP/s of a provider's forward pass by length."""
    rows = _timings(recording, provider, head_dim, False)
    return {row.problem.seq_kv: row.tflops * 1e12 for row in rows if row.times}


def _timings(recording: Recording | None, provider: str, head_dim: int, causal: bool) -> list[Timing]:
    """Forward passes of a provider, shortest first."""
    rows = () if recording is None else timings_of(recording, head_dim, causal)
    return [row for row in rows if row.provider == provider]


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


def unmasked(recording: Recording | None, provider: str, head_dim: int) -> list[Counters]:
    """Counted forward passes of as many queries as keys, without a mask, each length once."""
    rows = () if recording is None else recording.counters
    found: dict[int, Counters] = {}
    for row in rows:
        problem, mask = row.problem, row.problem.mask
        plain = mask.looks_ahead and mask.window is None and problem.group == 1
        alike = (row.provider, row.direction, problem.head_dim) == (provider, "forward", head_dim)
        if plain and alike and row.kernels and problem.seq_q == problem.seq_kv:
            found.setdefault(problem.seq_kv, row)
    return list(found.values())


def dram_reads(recording: Recording | None, provider: str) -> dict[Problem, list[float]]:
    """Bytes that DRAM delivered in a forward pass, by problem, in each of the recorded blocks."""
    found: dict[Problem, list[float]] = {}
    for row in () if recording is None else recording.counters:
        if (row.provider, row.direction) == (provider, "forward") and row.kernels:
            found.setdefault(row.problem, []).append(row.total("dram_read"))
    return found


def active(row: Counters) -> float | None:
    """Per cent of a call's time in which an SM had work, all SMs on average; None where not recorded."""
    parts = [(kernel.sm_percent, kernel.seconds) for kernel in row.kernels]
    if any(percent is None for percent, _ in parts):
        return None
    return sum(percent * seconds for percent, seconds in parts) / sum(seconds for _, seconds in parts)


def best_tiling(recording: Recording | None, algorithm: str, head_dim: int) -> tuple[int, int] | None:
    """(query rows, keys) of the fastest recorded blocks."""
    rows = _swept(recording, algorithm, head_dim)
    best = min(rows, key=lambda row: row.times.p50, default=None)
    return None if best is None else (best.block_q, best.block_kv)


def usual_over_best(
    recording: Recording | None, algorithm: str, head_dim: int, usual: tuple[int, int]
) -> float | None:
    """The least time of blocks whose sizes are within `usual`, over the least of all."""
    rows = _swept(recording, algorithm, head_dim)
    low, high = usual
    within = [
        row for row in rows if low <= min(row.block_q, row.block_kv) <= max(row.block_q, row.block_kv) <= high
    ]
    return min(row.times.p50 for row in within) / min(row.times.p50 for row in rows) if within else None


def _swept(recording: Recording | None, algorithm: str, head_dim: int) -> list[TilingTiming]:
    rows = () if recording is None else recording.sweep
    return [
        row for row in rows if row.algorithm == algorithm and row.problem.head_dim == head_dim and row.times
    ]


def fastest_backend(recording: Recording | None) -> float | None:
    """Per cent of recorded forward problems in which flash is the fastest of PyTorch's fused backends."""
    times: dict[Problem, dict[str, float]] = {}
    for row in () if recording is None else recording.timings:
        if row.direction == "forward" and row.provider in BACKENDS and row.times:
            times.setdefault(row.problem, {})[row.provider] = row.times.p50
    every = [found for found in times.values() if len(found) == len(BACKENDS)]
    won = sum(min(found, key=found.get) == FUSED for found in every)
    return 100 * won / len(every) if every else None


def origin(recording: Recording | None) -> str:
    """Where its numbers come from."""
    return "not recorded" if recording is None else recording.origin

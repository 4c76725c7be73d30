"""What is run under the profiler: lengths, masks, heads and tilings that show where bytes come from."""

from __future__ import annotations

from typing import Any

from engine.algorithms import BACKWARD, FORWARD
from engine.measuring.implementations import Prepare, implementations
from engine.measuring.precompile import Kernel
from engine.problem.problem import Mask, Problem
from engine.recordings.recording import Counters


def call(
    provider: str,
    seq: int,
    head_dim: int = 128,
    heads: int = 16,
    kv_heads: int | None = None,
    batch: int = 1,
    causal: bool = False,
    window: int | None = None,
    queries: int | None = None,
    direction: str = FORWARD,
    **blocks: int | None,
) -> Counters:
    """The row of a call in float16, before it is recorded; blocks and splits where it is given some."""
    mask = Mask(causal, window)
    problem = Problem(batch, heads, kv_heads or heads, queries or seq, seq, head_dim, "float16", mask)
    return Counters(provider, direction, problem, **blocks)


def kernel_of(row: Counters) -> Kernel:
    """What is to be compiled for a call."""
    return Kernel(row.provider, row.problem, row.direction, row.block_q, row.block_kv)


def prepared(row: Counters) -> tuple[Prepare, dict[str, int]]:
    """How a call is prepared, and what its kernel does not choose for itself.

    flash3 keeps its tiles whole, as the model has them: with pieces of the last it reads and writes more.
    """
    splits = 1 if row.provider == "flash3" else row.splits
    options = {"block_q": row.block_q, "block_kv": row.block_kv, "splits": splits}
    given = {name: value for name, value in options.items() if value is not None}
    return implementations()[row.provider].prepare, given


def plan() -> list[Counters]:
    """All of them, the most telling first: a recording that runs out of time has those."""
    return [
        *(*_of_flash2(), *_of_unfused(), *_of_flash1(), *_of_others(), *_of_backward()),
        *(*_beside_the_cache(), *_over_the_end()),
    ]


def _of(provider: str, **common: Any):
    return lambda seq, **values: call(provider, seq, **{**common, **values})


def _of_flash2() -> list[Counters]:
    wide = _of("flash2", block_q=128, block_kv=64)
    narrow = _of("flash2", head_dim=64, block_q=64, block_kv=64)
    return [
        *(wide(seq) for seq in (512, 1024, 2048, 4096, 8192, 16384)),
        *(wide(seq, heads=1) for seq in (32768, 65536, 131072)),
        *(narrow(seq) for seq in (1024, 4096, 16384)),
        *(narrow(seq, heads=1) for seq in (65536, 131072)),
        *(wide(seq, causal=True) for seq in (1024, 4096, 16384)),
        wide(65536, heads=1, causal=True),
        narrow(4096, causal=True),
        wide(8192, window=1024),
        narrow(4096, window=512),
        wide(65536, heads=2, window=4096),
        wide(32768, heads=8, block_kv=32),  # two heads in flight straddle the cache
        wide(32768, heads=4, causal=True),
        wide(2048, heads=64),
        wide(4096, heads=64, kv_heads=8),
        wide(4096, batch=4, heads=4),
        *(
            wide(4096, block_q=rows, block_kv=keys)
            for rows, keys in ((64, 32), (64, 64), (128, 128), (32, 64))
        ),
        narrow(1000, causal=True),
        narrow(4095),
        narrow(2048, heads=64),
    ]


def _of_unfused() -> list[Counters]:
    wide = _of("standard", block_q=128, block_kv=64)
    return [
        *(wide(seq) for seq in (512, 2048, 4096, 8192)),
        wide(16384, heads=2),
        wide(16384, heads=1),
        wide(4096, causal=True),
        wide(2048, window=256),
        *(wide(seq, head_dim=64, block_q=64) for seq in (1024, 4096)),
        wide(1024, heads=64, head_dim=64, block_q=64),
    ]


def _of_flash1() -> list[Counters]:
    narrow = _of("flash1", head_dim=64, block_q=64, block_kv=64)
    return [
        *(narrow(seq) for seq in (512, 1024, 4096)),
        narrow(1024, heads=64),
        narrow(2048, heads=64, causal=True),
        narrow(2048, window=256),
        narrow(2048, heads=8, head_dim=128, batch=8),
        narrow(2048, block_q=32, block_kv=32),
        narrow(16384, heads=4),
    ]


def _of_others() -> list[Counters]:
    rows = []
    for provider in ("flash3", "sdpa_flash", "sdpa_cudnn"):
        rows += [
            call(provider, 4096),
            call(provider, 4096, causal=True),
            call(provider, 16384),
            call(provider, 65536, heads=1),
            call(provider, 4096, head_dim=64),
        ]
    rows += [
        call("flash3", 1024),
        call("flash3", 131072, heads=1),
        call("flash3", 16384, causal=True),
        call("flash3", 16384, window=1024),
        call("flash3", 65536, heads=1, causal=True),
        call("flash3", 16384, head_dim=64, heads=32, causal=True),
    ]
    decoding = _of("split_kv", heads=32, kv_heads=8, queries=1, causal=True)
    rows += [decoding(seq) for seq in (8192, 65536, 131072)]
    return [*rows, decoding(65536, splits=8), decoding(65536, splits=64, head_dim=64)]


def _of_backward() -> list[Counters]:
    backward = _of("flash2", direction=BACKWARD)
    return [
        *(backward(seq) for seq in (1024, 4096, 16384)),
        backward(4096, causal=True),
        backward(4096, head_dim=64),
        *(call(provider, 4096, direction=BACKWARD) for provider in ("sdpa_flash", "sdpa_cudnn")),
    ]


def _beside_the_cache() -> list[Counters]:
    """K and V of a head, or of those that run together, near L2's share of what all SMs use, and above."""
    flash3, flash2 = _of("flash3"), _of("flash2", block_q=128, block_kv=64)
    causal = ((16384, 8), (32768, 1), (32768, 2), (8192, 8), (65536, 1), (16384, 2), (65536, 2), (24576, 4))
    full = ((8192, 8), (16384, 8), (16384, 2), (32768, 1), (32768, 2), (65536, 1))
    narrow = ((131072, 1, False), (131072, 1, True), (65536, 4, False), (65536, 4, True), (98304, 2, False))
    return [
        *(flash3(seq, head_dim=256, heads=heads, causal=True) for seq, heads in causal),
        *(flash3(seq, head_dim=256, heads=heads) for seq, heads in full),
        *(flash3(seq, head_dim=64, heads=heads, causal=masked) for seq, heads, masked in narrow),
        flash3(49152, heads=32, kv_heads=8, causal=True),
        flash3(49152, heads=8, kv_heads=2),
        flash3(16384, heads=32, kv_heads=8, causal=True),
        flash3(32768, heads=8, causal=True),
        flash3(65536, heads=2, causal=True),
        flash3(32768, heads=4),
        flash3(49152, heads=2),
        flash3(98304, heads=1, causal=True),
        flash2(49152, heads=8, kv_heads=2),
        flash2(49152, heads=2, causal=True),
        flash2(65536, head_dim=64, heads=4, causal=True),
        flash2(98304, head_dim=64, heads=2, block_q=64),
        flash2(32768, head_dim=256, heads=2),
        flash2(16384, head_dim=256, heads=4, causal=True, block_kv=32),
        flash2(131072, head_dim=64, heads=1),
    ]


def _over_the_end() -> list[Counters]:
    """flash3 where boxes of its copies hang over the last key, over the last query, or over both."""
    many = _of("flash3", batch=64)
    return [
        *(many(seq, queries=128) for seq in (1, 8, 9, 33, 65, 100, 128, 129, 200, 1000, 1100)),
        *(many(128, queries=queries) for queries in (1, 33, 64, 65, 100, 129, 200)),
        *(many(seq, queries=128, head_dim=64) for seq in (65, 1000)),
        *(many(1024, queries=queries, head_dim=64) for queries in (65, 129, 193)),
        many(100, queries=128, head_dim=256),
        many(128, queries=65, head_dim=256),
        *(many(seq, causal=True) for seq in (200, 1000)),
        many(1000, queries=300, window=100, causal=True),
    ]

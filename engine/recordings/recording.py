"""Recordings: what a GPU was measured to do, used by pages wherever there is no such GPU."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from engine.problem.problem import Problem
from engine.recordings.cluster import ClusterTimeline, ClusterTiming
from engine.recordings.samples import Samples
from engine.recordings.timing import (
    Decoding,
    Fp8Timing,
    LayerTiming,
    TilingTiming,
    Times,
    Timing,
    VariantTiming,
)


@dataclass(frozen=True)
class Device:
    """What was measured, with what, and when."""

    gpu: str  # its name, as the driver gives it
    driver: str  # version of the driver
    versions: Mapping[str, str]  # of Python, torch, triton, CUDA and cuDNN
    # as nvidia-smi reads them before measuring, by its name of the field: MHz, W or degrees
    clocks: Mapping[str, float]
    memory_bytes: int  # device memory, bytes
    commit: str  # of this project
    date: str  # ISO 8601, UTC


@dataclass(frozen=True)
class KernelCounters:
    """One kernel under the profiler, caches emptied before; percentages 0 to 100, None where not recorded."""

    name: str
    grid: str
    seconds: float
    dram_read: float
    dram_written: float
    # tile_read, tile_written: bytes between L2 and the SMs, which samples do not tell
    tile_read: float | None = None
    tile_written: float | None = None
    # loaded, copied: bytes that warps request of global memory, L1 before L2, to have them in registers or in
    # shared memory (cp.async); by_tma: those that TMA brings
    loaded: float | None = None
    copied: float | None = None
    by_tma: float | None = None
    l2_bytes: float | None = None  # all that passes the L2's lookup
    l2_hit_percent: float | None = None
    tensor_percent: float | None = None
    exponential_percent: float | None = None
    issue_percent: float | None = None
    sm_percent: float | None = None
    # passes of shared memory by loads and stores, up to 128 bytes each
    shared_wavefronts: float | None = None
    sm_clock: float | None = None  # achieved, Hz
    waves: float | None = None  # programs over how many the SMs hold at once

    @property
    def dram_bytes(self) -> float:
        """Bytes from DRAM and to it."""
        return self.dram_read + self.dram_written


@dataclass(frozen=True)
class Counters:
    """The hardware's counters for one call: `kernels` of the attention, `others` that prepare or finish."""

    provider: str
    direction: str
    problem: Problem
    block_q: int | None = None
    block_kv: int | None = None
    splits: int | None = None
    kernels: tuple[KernelCounters, ...] = ()
    others: tuple[KernelCounters, ...] = ()
    # whether the chip sampled itself, where there is no ncu: the whole call as one kernel, after which L2 was
    # emptied, its seconds those without a profiler
    sampled: bool = False
    commit: str | None = None  # of this project, where it is not the recording's
    skipped: str | None = None

    def total(self, name: str) -> float:
        """Sum of what can be counted over the attention's kernels; NaN if one has none."""
        values = [getattr(kernel, name) for kernel in self.kernels]
        return math.nan if None in values else float(sum(values))


@dataclass(frozen=True)
class TracedKernel:
    """Its blocks of threads (flash3's tiles) in launch order."""

    name: str
    sm: tuple[int, ...]  # which ran it
    # ticks since the block before started, of the first since the call's first; may be negative
    start: tuple[int, ...]
    length: tuple[int, ...]  # ticks that it ran


@dataclass(frozen=True)
class TracedCall:
    """One forward call with every block written down; either `kernels` or the sentence why it has none."""

    provider: str
    order: str  # of a head's blocks, see `engine.model.timeline.ORDERS`
    problem: Problem
    # block_q, block_kv: None where the kernel has its own
    block_q: int | None = None
    block_kv: int | None = None
    sms: int = 0  # of the GPU
    tick: float = 0.0  # seconds of a tick of its clock
    times: Times | None = None  # of the same call without the trace; None in an order that only a trace has
    kernels: tuple[TracedKernel, ...] = ()
    commit: str | None = None  # of this project, where it is not the recording's
    skipped: str | None = None


Row = (
    Timing | TilingTiming | Decoding | Counters | TracedCall | ClusterTiming | ClusterTimeline | Samples
    | LayerTiming
)  # fmt: skip


@dataclass(frozen=True)
class Recording:
    """A file of measurements of one GPU; more kinds of rows may join with a later version.

    >>> from engine.recordings.file import recording_of
    >>> recording_of("h200").device.gpu
    'NVIDIA H200'
    """

    device: Device
    timings: tuple[Timing, ...] = ()
    sweep: tuple[TilingTiming, ...] = ()
    decoding: tuple[Decoding, ...] = ()
    counters: tuple[Counters, ...] = ()
    timelines: tuple[TracedCall, ...] = ()
    cluster: tuple[ClusterTiming, ...] = ()
    cluster_timelines: tuple[ClusterTimeline, ...] = ()
    fp8: tuple[Fp8Timing, ...] = ()
    variants: tuple[VariantTiming, ...] = ()
    samples: tuple[Samples, ...] = ()
    layers: tuple[LayerTiming, ...] = ()

    def __hash__(self) -> int:
        """By where and when it was made, as results are looked up by a recording of thousands of rows."""
        return hash((self.device.gpu, self.device.date))

    @property
    def origin(self) -> str:
        """Where its numbers come from, as a page says it."""
        return f"recorded on {self.device.gpu}, {self.device.date[:10]}"

    @property
    def heading(self) -> str:
        """The origin as a sentence or a heading begins with it."""
        return self.origin[:1].upper() + self.origin[1:]


IDENTITY = (  # what a row may have that says what it is about
    "provider", "algorithm", "direction", "order", "problem", "block_q", "block_kv", "splits", "page_size",
    "warps", "stages", "gpus", "numbers", "inputs", "prefix", "term", "v_dim", "cold", "model", "kind",
    "phase", "tokens", "batch",
)  # fmt: skip


def identity(row: Row) -> tuple:
    """What a row is about, without what was measured: two runs of the same thing have the same."""
    return (type(row).__name__, *(getattr(row, part, None) for part in IDENTITY))


def unmeasured(row: Row) -> Row:
    """A row without what was measured: a call as a plan has it."""
    kept = [field.name for field in fields(row) if field.name in (*IDENTITY, "label")]
    return type(row)(**{name: getattr(row, name) for name in kept})

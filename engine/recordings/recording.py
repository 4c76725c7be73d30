"""Recordings: what a GPU was measured to do, used by pages wherever there is no such GPU."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from engine.problem.problem import Problem
from engine.recordings.cluster import ClusterTimeline, ClusterTiming
from engine.recordings.layers import LayerTiming, PieceTiming
from engine.recordings.samples import Samples
from engine.recordings.timing import Decoding, Fp8Timing, TilingTiming, Times, Timing, VariantTiming


@dataclass(frozen=True)
class Device:
    """What was measured, with what, and when.

    Attributes:
        gpu: its name, as the driver gives it.
        driver: version of the driver.
        versions: of Python, torch, triton, CUDA and cuDNN.
        clocks: as nvidia-smi reads them before measuring, by its name of the field: MHz, W or degrees.
        memory_bytes: device memory, bytes.
        commit: of this project.
        date: ISO 8601, UTC.
    """

    gpu: str
    driver: str
    versions: Mapping[str, str]
    clocks: Mapping[str, float]
    memory_bytes: int
    commit: str
    date: str


@dataclass(frozen=True)
class KernelCounters:
    """One kernel under the profiler, caches emptied before; percentages 0 to 100, None where not recorded.

    Attributes:
        tile_read, tile_written: bytes between L2 and the SMs, which samples do not tell.
        loaded, copied: bytes that warps request of global memory, L1 before L2, to have them in registers or
            in shared memory (cp.async); by_tma: those that TMA brings.
        l2_bytes: all that passes the L2's lookup.
        shared_wavefronts: passes of shared memory by loads and stores, up to 128 bytes each.
        sm_clock: achieved, Hz.
        waves: programs over how many the SMs hold at once.
    """

    name: str
    grid: str
    seconds: float
    dram_read: float
    dram_written: float
    tile_read: float | None = None
    tile_written: float | None = None
    loaded: float | None = None
    copied: float | None = None
    by_tma: float | None = None
    l2_bytes: float | None = None
    l2_hit_percent: float | None = None
    tensor_percent: float | None = None
    exponential_percent: float | None = None
    issue_percent: float | None = None
    sm_percent: float | None = None
    shared_wavefronts: float | None = None
    sm_clock: float | None = None
    waves: float | None = None

    @property
    def dram_bytes(self) -> float:
        """Bytes from DRAM and to it."""
        return self.dram_read + self.dram_written


@dataclass(frozen=True)
class Counters:
    """The hardware's counters for one call: `kernels` of the attention, `others` that prepare or finish.

    Attributes:
        sampled: whether the chip sampled itself, where there is no ncu: the whole call as one kernel, after
            which L2 was emptied, its seconds those without a profiler.
        commit: of this project, where it is not the recording's.
    """

    provider: str
    direction: str
    problem: Problem
    block_q: int | None = None
    block_kv: int | None = None
    splits: int | None = None
    kernels: tuple[KernelCounters, ...] = ()
    others: tuple[KernelCounters, ...] = ()
    sampled: bool = False
    commit: str | None = None
    skipped: str | None = None

    def total(self, name: str) -> float:
        """Sum of what can be counted over the attention's kernels; NaN if one has none."""
        values = [getattr(kernel, name) for kernel in self.kernels]
        return math.nan if None in values else float(sum(values))


@dataclass(frozen=True)
class TracedKernel:
    """Its blocks of threads (flash3's tiles) in launch order.

    Attributes:
        sm: which ran it.
        start: ticks since the block before started, of the first since the call's first; may be negative.
        length: ticks that it ran.
    """

    name: str
    sm: tuple[int, ...]
    start: tuple[int, ...]
    length: tuple[int, ...]


@dataclass(frozen=True)
class TracedCall:
    """One forward call with every block written down; either `kernels` or the sentence why it has none.

    Attributes:
        order: of a head's blocks, see `engine.model.timeline.ORDERS`.
        block_q, block_kv: None where the kernel has its own.
        sms: of the GPU.
        tick: seconds of a tick of its clock.
        times: of the same call without the trace; None in an order that only a trace has.
        commit: of this project, where it is not the recording's.
    """

    provider: str
    order: str
    problem: Problem
    block_q: int | None = None
    block_kv: int | None = None
    sms: int = 0
    tick: float = 0.0
    times: Times | None = None
    kernels: tuple[TracedKernel, ...] = ()
    commit: str | None = None
    skipped: str | None = None


Row = (
    Timing | TilingTiming | Decoding | Counters | TracedCall | ClusterTiming | ClusterTimeline | Samples
    | LayerTiming | PieceTiming
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
    pieces: tuple[PieceTiming, ...] = ()

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
    "phase", "tokens", "batch", "piece", "rows", "columns", "copies", "active",
)  # fmt: skip


def identity(row: Row) -> tuple:
    """What a row is about, without what was measured: two runs of the same thing have the same."""
    return (type(row).__name__, *(getattr(row, part, None) for part in IDENTITY))


def unmeasured(row: Row) -> Row:
    """A row without what was measured: a call as a plan has it."""
    kept = [field.name for field in fields(row) if field.name in (*IDENTITY, "label")]
    return type(row)(**{name: getattr(row, name) for name in kept})

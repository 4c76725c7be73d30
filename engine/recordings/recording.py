"""Recordings: what a GPU was measured to do, used by pages wherever there is no such GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

from engine.algorithms import BACKWARD
from engine.problem.flops import BACKWARD_FLOPS, field_flops, pair_flops
from engine.problem.problem import Mask, Problem
from engine.recordings.cluster import ClusterTimeline, ClusterTiming

# as they are, or e4m3 with one scale per tensor, with one per block, or per block with Q and K rotated before
NUMBERS = ("float16", "tensor", "block", "rotated")
# N(0, 1), or as in FlashAttention-3's paper N(0, 1) + N(0, 100) * Bernoulli(0.001): arXiv 2407.08608, 4.3
INPUTS = ("normal", "outliers")
TERMS = ("softcap", "sinks", "alibi")  # what may become of a score beside the mask


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
class Times:
    """Percentiles over the repeats, seconds; a GPU's L2 is emptied before each."""

    p20: float
    p50: float
    p80: float
    repeats: int

    def tflops(self, flops: float) -> float:
        """10^12 FLOPs per second of the median."""
        return flops / self.p50 / 1e12


@dataclass(frozen=True)
class Timing:
    """One implementation on one problem; either `times` or the sentence why it has none.

    Attributes:
        direction: forward or backward (the backward pass alone).
        times: in turns with the others, in random order.
        alone: repeats of this one only.
        error: greatest difference to float64 on the rows compared.
        allowed: greatest difference that is no bug.
        commit: of this project, where it is not the recording's; rows of one commit were timed in turns.
    """

    provider: str
    label: str
    direction: str
    problem: Problem
    times: Times | None = None
    alone: Times | None = None
    error: float | None = None
    allowed: float | None = None
    commit: str | None = None
    skipped: str | None = None

    @property
    def flops(self) -> float:
        """FLOPs as the field counts them."""
        return self.over_forward * field_flops(self.problem)

    @property
    def over_forward(self) -> float:
        """Its FLOPs over those of the forward pass."""
        return BACKWARD_FLOPS if self.direction == BACKWARD else 1.0

    @property
    def tflops(self) -> float | None:
        """10^12 of these FLOPs per second."""
        return self.times and self.times.tflops(self.flops)


@dataclass(frozen=True)
class Fp8Timing(Timing):
    """Attention in float16 or in FP8 (e4m3), quantising included; rows of a problem were timed in turns.

    Attributes:
        numbers: what Q, K and V are rounded to, one of NUMBERS.
        inputs: how Q, K and V are distributed, one of INPUTS.
        relative_error: root mean square of the difference to float64 over that of O, on the heads compared.
    """

    numbers: str = "float16"
    inputs: str = "normal"
    relative_error: float | None = None


@dataclass(frozen=True)
class VariantTiming(Timing):
    """flash2 under one of many masks, with a term of the scores, or V of another head dim; or plain, beside.

    All of a direction and a commit were timed in turns with the plain ones.

    Attributes:
        prefix: so many first keys every query sees.
        term: one of TERMS.
        v_dim: head dim of V and O, where it is another than the problem's.
    """

    prefix: int | None = None
    term: str | None = None
    v_dim: int | None = None

    @property
    def flops(self) -> float:
        """FLOPs of the pairs of a query and a key that the mask leaves."""
        return self.over_forward * pair_flops(self.problem, self.prefix or 0, self.v_dim)

    @property
    def plain(self) -> bool:
        """Whether it is the kernel without mask or causal, which the others stand beside."""
        mask = self.problem.mask
        return mask in (Mask(), Mask(causal=True)) and self.prefix is self.term is self.v_dim is None


@dataclass(frozen=True)
class TilingTiming:
    """One tiling of one kernel: its time, or why it failed."""

    algorithm: str
    problem: Problem
    block_q: int
    block_kv: int
    warps: int
    stages: int
    times: Times | None = None
    skipped: str | None = None

    @property
    def tflops(self) -> float | None:
        """10^12 FLOPs per second, as the field counts them."""
        return self.times and self.times.tflops(field_flops(self.problem))


@dataclass(frozen=True)
class Decoding:
    """Attention of few queries; provider "copy" is a copy.

    Attributes:
        splits: None where the implementation chooses.
        bytes_per_second: bytes of K and V (of a copy: read and written) over the median time.
        block_q, block_kv: of split_kv: rows (of all heads that share a key head) and keys of its blocks.
        page_size: keys of a page, where the cache lies in pages; None for one in one piece.
        commit: of this project, where it is not the recording's; rows of one commit were timed in turns.
    """

    provider: str
    label: str
    problem: Problem
    splits: int | None = None
    times: Times | None = None
    bytes_per_second: float | None = None
    skipped: str | None = None
    block_q: int | None = None
    block_kv: int | None = None
    page_size: int | None = None
    commit: str | None = None


@dataclass(frozen=True)
class KernelCounters:
    """One kernel under the profiler, caches emptied before; percentages 0 to 100, None where not recorded.

    Attributes:
        tile_read, tile_written: bytes between L2 and the SMs: what the tiles ask for.
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
    tile_read: float
    tile_written: float
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


Row = Union[Timing, TilingTiming, Decoding, Counters, TracedCall, ClusterTiming, ClusterTimeline]  # noqa: UP007 (an alias evaluated on Python 3.10)


@dataclass(frozen=True)
class Recording:
    """A file of measurements of one GPU; more kinds of rows may join with a later version."""

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

    @property
    def origin(self) -> str:
        """Where its numbers come from, as a page says it."""
        return f"recorded on {self.device.gpu}, {self.device.date[:10]}"


IDENTITY = (
    "provider",
    "algorithm",
    "direction",
    "order",
    "problem",
    "block_q",
    "block_kv",
    "splits",
    "page_size",
    "warps",
    "stages",
    "gpus",
    "numbers",
    "inputs",
    "prefix",
    "term",
    "v_dim",
)


def identity(row: Row) -> tuple:
    """What a row is about, without what was measured: two runs of the same thing have the same."""
    return (type(row).__name__, *(getattr(row, part, None) for part in IDENTITY))

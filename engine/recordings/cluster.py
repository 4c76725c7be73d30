"""Rows of a recording that are of several GPUs at once."""

from dataclasses import dataclass

from engine.model.cluster.seconds import KINDS
from engine.problem.problem import Problem
from engine.recordings.samples import SECTOR

ONE, BOTH = "one", "both"  # the provider on one GPU; the direction of forward and backward together


@dataclass(frozen=True)
class Extent:
    """Seconds over the repeats: the least, the median and the most."""

    least: float
    median: float
    most: float
    repeats: int


@dataclass(frozen=True)
class ClusterTiming:
    """One way to compute a problem on several GPUs; either `times` or the sentence why it has none."""

    # a method of `kernels.distributed`; "one" where each GPU computes the whole by itself;
    # "context_parallel_flash" and "_cudnn" are PyTorch's
    provider: str
    label: str
    direction: str  # forward, or "both" for forward and backward
    problem: Problem  # the whole of it, of all GPUs
    gpus: int
    times: Extent | None = None  # of the slowest GPU; on one GPU the mean of all
    host: float | None = None  # seconds that the host takes to launch it
    error: float | None = None
    allowed: float | None = None
    commit: str | None = None
    skipped: str | None = None


@dataclass(frozen=True)
class GpuMarks:
    """What a GPU did in a call: kinds as `engine.model.cluster.lanes.KINDS` has them, by their number."""

    kind: tuple[int, ...]
    start: tuple[int, ...]  # of each, nanoseconds since the call's first mark on any GPU
    length: tuple[int, ...]  # nanoseconds
    # sectors of 32 bytes that left the GPU over NVLink in each interval of another run of the same call, from
    # when this GPU began; empty where the chip was not sampled
    sent: tuple[int, ...] = ()

    @property
    def sent_bytes(self) -> int:
        """All that left the GPU over NVLink."""
        return SECTOR * sum(self.sent)

    @property
    def possible(self) -> bool:
        """Whether every mark has a known kind, a start and a length."""
        alike = len(self.kind) == len(self.start) == len(self.length)
        known = all(0 <= kind < len(KINDS) for kind in self.kind)
        return alike and known and all(value >= 0 for value in (*self.start, *self.length, *self.sent))


@dataclass(frozen=True)
class ClusterTimeline:
    """One call on several GPUs as their profiler saw it; either marks by GPU or why there are none.

    interval: seconds of each number in what the GPUs sent.
    """

    provider: str
    direction: str
    problem: Problem
    gpus: int
    marks: tuple[GpuMarks, ...] = ()
    interval: float = 0.0
    commit: str | None = None
    skipped: str | None = None

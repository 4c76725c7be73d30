"""Rows of a recording that say how long something took: a call, or a layer of a model."""

from dataclasses import dataclass, replace
from typing import Any

from engine.algorithms import BACKWARD
from engine.problem.bounds import BACKWARD_FLOPS, field_flops, pair_flops
from engine.problem.problem import Problem

# as they are, or e4m3 with one scale per tensor, with one per block, or per block with Q and K rotated before
NUMBERS = ("float16", "tensor", "block", "rotated")
# N(0, 1), or as in FlashAttention-3's paper N(0, 1) + N(0, 100) * Bernoulli(0.001): arXiv 2407.08608, 4.3
INPUTS = ("normal", "outliers")
SOFTCAP = 30.0  # of rows with one
TERMS = ("softcap", "sinks", "alibi")  # what may become of a score beside the mask


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
    """One implementation on one problem; either `times` or the sentence why it has none."""

    provider: str
    label: str
    direction: str  # forward or backward (the backward pass alone)
    problem: Problem
    times: Times | None = None  # in turns with the others, in random order
    alone: Times | None = None  # repeats of this one only, as earlier files have them
    error: float | None = None  # greatest difference to float64 on the rows compared
    allowed: float | None = None  # greatest difference that is no bug
    # of this project, where it is not the recording's; rows of one commit were timed in turns
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

    @property
    def figures(self) -> dict[str, Any]:
        """What a page or a table shows of its times, by name."""
        times, tokens = self.times, self.problem.batch * self.problem.seq_q
        rates = {"tflops": self.tflops, "tokens_per_second": tokens / times.p50}
        return {"p20": times.p20, "p50": times.p50, "p80": times.p80, **rates}


@dataclass(frozen=True)
class Fp8Timing(Timing):
    """Attention in float16 or in FP8 (e4m3), quantising included; rows of a problem were timed in turns."""

    numbers: str = "float16"  # what Q, K and V are rounded to, one of NUMBERS
    inputs: str = "normal"  # how Q, K and V are distributed, one of INPUTS
    # root mean square of the difference to float64 over that of O, on the heads compared
    relative_error: float | None = None


@dataclass(frozen=True)
class VariantTiming(Timing):
    """flash2 under one of many masks, with a term of the scores, or V of another head dim; or plain, beside.

    All of a direction and a commit were timed in turns with the plain ones.
    """

    prefix: int | None = None  # so many first keys every query sees
    term: str | None = None  # one of TERMS
    v_dim: int | None = None  # head dim of V and O, where it is another than the problem's

    @property
    def flops(self) -> float:
        """FLOPs of the pairs of a query and a key that the mask leaves."""
        return self.over_forward * pair_flops(self.whole)

    @property
    def whole(self) -> Problem:
        """The problem with all that the row has beside it."""
        mask = replace(self.problem.mask, prefix=self.prefix or 0)
        term = {"softcap": {"softcap": SOFTCAP}, "sinks": {"sinks": True}, "alibi": {"slopes": True}}
        return replace(self.problem, mask=mask, head_dim_v=self.v_dim, **term.get(self.term, {}))

    @property
    def plain(self) -> bool:
        """Whether it is the kernel without mask or causal, which the others stand beside."""
        return self.problem.mask.kinds <= {"causal"} and self.prefix is self.term is self.v_dim is None


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
    """Attention of few queries; provider "copy" is a copy."""

    provider: str
    label: str
    problem: Problem
    splits: int | None = None  # None where the implementation chooses
    times: Times | None = None
    # bytes of K and V (of a copy: read and written) over the median time
    bytes_per_second: float | None = None
    skipped: str | None = None
    # block_q, block_kv: of split_kv: rows (of all heads that share a key head) and keys of its blocks
    block_q: int | None = None
    block_kv: int | None = None
    page_size: int | None = None  # keys of a page, where the cache lies in pages; None for one in one piece
    # of this project, where it is not the recording's; rows of one commit were timed in turns
    commit: str | None = None


@dataclass(frozen=True)
class LayerTiming:
    """One layer of a model with random weights of 16 bits, by what runs by itself."""

    # model, kind: a shipped model's name, and the kind of its layer in words
    model: str
    kind: str
    # phase, tokens, batch: as in `engine.layers.phase.Phase`
    phase: str
    tokens: int
    batch: int
    # of the whole layer, in a graph of several alike; or the reason why it has none
    times: Times | None = None
    rest: Times | None = None  # the same without attention's kernels
    pytorch: Times | None = None  # of the whole layer with PyTorch's own attention in it
    refused: str | None = None  # why PyTorch's own has no times
    skipped: str | None = None

    @property
    def attention_seconds(self) -> float:
        """What attention adds to the rest, of medians."""
        return self.times.p50 - self.rest.p50

    @property
    def attention_share(self) -> float:
        """Of the layer's time."""
        return self.attention_seconds / self.times.p50

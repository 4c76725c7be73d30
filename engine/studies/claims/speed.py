"""Claims about speed, and about what a GPU can do and hold."""

from __future__ import annotations

from math import inf

from engine.experiment import Experiment
from engine.model.footprint import largest_context
from engine.recordings.recording import Recording
from engine.studies.claims import recorded, sources
from engine.studies.claims.bytes_moved import memory_saved
from engine.studies.claims.verdict import (
    COMPUTED,
    DEPENDS,
    MODELLED,
    OFF,
    PARTLY,
    RIGHT,
    WRONG,
    Claim,
    Finding,
    over,
    said,
)
from engine.studies.techniques import ALL, BY_KEY, variant, without

SCENARIO = Experiment.of(algorithm="flash2", seq=2048, batch=8, heads=16, head_dim=128, block_q=128)
SHAPES = ((64, False), (64, True), (128, False), (128, True))  # head dimension, causal


def _crossover(recording: Recording | None) -> tuple[Finding, ...]:
    """Over every recorded shape and fused kernel; 16k tokens in all, so short ones have large batches."""
    return tuple(
        over(
            f"unfused over fused time, N = {keys}",
            "×",
            (0.0, 1.0),
            (
                recorded.speedup(recording, keys, head_dim, causal, fused)
                for head_dim in (64, 128, 256)
                for causal in (False, True)
                for fused in recorded.FUSED_KERNELS
            ),
            "d of 64 to 256, masks, and 5 fused kernels",
            recorded.origin(recording),
            decides=True,
        )
        for keys in (128, 256)
    )


def _constant(recording: Recording | None) -> tuple[Finding, ...]:
    rates = recorded.rates(recording, recorded.FUSED, 128)
    long = [rate for keys, rate in rates.items() if keys >= 4096]
    origin = recorded.origin(recording)
    # FLOPs per token grow with N: so many tokens per second
    tokens = [rate / keys for keys, rate in rates.items()]
    return (
        Finding(
            "PyTorch's flash, d = 128: fastest over slowest FLOP/s, N from 4,096 on",
            "×",
            (1, 1.2),
            _spread(long),
            origin,
        ),
        Finding("the same over all N", "×", (1, 1.2), _spread(list(rates.values())), origin),
        Finding("most over fewest tokens per second, all N", "×", (1, 1.2), _spread(tokens), origin),
    )


def _spread(values: list[float]) -> float | None:
    return max(values) / min(values) if values else None


def _faster(recording: Recording | None) -> tuple[Finding, ...]:
    ranges = {2048: (2, 4), 16_384: (5, 7)}
    return tuple(
        Finding(
            f"N = {keys:,}, d = {head_dim}{', causal' * causal}",
            "×",
            ranges[keys],
            recorded.speedup(recording, keys, head_dim, causal),
            recorded.origin(recording),
        )
        for keys in ranges
        for head_dim, causal in SHAPES
    )


def _techniques(recording: Recording | None) -> tuple[Finding, ...]:
    full = variant(SCENARIO, ALL)
    findings = []
    for key in ("fusion", "tiling", "online", "asynchronous"):
        left = variant(SCENARIO, without(key))
        worth = inf if left.seconds is None else left.seconds / full.seconds
        findings.append(
            Finding(f"time without {BY_KEY[key].name.lower()}", "×", (1.01, inf), worth, MODELLED)
        )
    ahead = over(
        "what copying ahead gains version 2: 1 stage over the best",
        "×",
        (1.0, 1.01),
        (recorded.waiting_cost(recording, head_dim) for head_dim in (64, 128)),
        "d of 64 and 128",
        recorded.origin(recording),
        decides=True,
    )
    return (*findings, ahead)


def _single_operations(recording: Recording | None) -> tuple[Finding, ...]:
    origin = recorded.origin(recording)
    pairs = [(keys, *shape) for keys in (1024, 2048, 4096, 8192, 16_384) for shape in SHAPES]
    found = [ratio for pair in pairs if (ratio := recorded.speedup(recording, *pair))]
    context = largest_context(Experiment.of(heads=16, seq=2**18, head_dim=128, hardware="h100"))
    return (
        Finding("inference, N = 2,048, d = 128", "×", (2, 4), recorded.speedup(recording, 2048, 128), origin),
        Finding("training: no unfused backward pass was recorded", "×", (2, 4), None, origin),
        said("the most of all recorded shapes", "×", 9, max(found, default=None), origin, tolerance=0.25),
        Finding("longest context, 16 heads, 80 GB", "tokens", (2**18, inf), context, COMPUTED),
    )


def _worth_it(recording: Recording | None) -> tuple[Finding, ...]:
    origin = recorded.origin(recording)
    saved = (
        Finding(
            f"less memory for attention's tensors, N = {seq:,}, d = 64",
            "%",
            (50, 70),
            memory_saved(seq),
            COMPUTED,
        )
        for seq in (256, 1024, 4096)
    )
    early = recorded.speedup(recording, 512, 128)
    return (
        *saved,
        Finding(
            "speed-up at N = 1,024, d = 128", "×", (1, inf), recorded.speedup(recording, 1024, 128), origin
        ),
        Finding("speed-up at N = 512, d = 128: not yet worth it", "×", (0, 1), early, origin),
    )


CLAIMS = (
    Claim(
        5,
        sources.CODE,
        "Below 512 tokens unfused attention is often faster; below 256 tiling costs more than it saves.",
        r"\frac{t_\text{unfused}}{t_\text{flash}} < 1",
        "time",
        Experiment.of(algorithm="flash2", seq=256, batch=64, heads=16, head_dim=128, block_q=128),
        _crossover,
        {
            WRONG: "With 16k tokens in all, PyTorch's unfused attention is slower than its flash and cuDNN "
            "kernels, FlashAttention-4 and this project's versions 2 and 3 at every recorded shape, because "
            "it launches several kernels and stores S. Fewer tokens, which leave the GPU idle either way, "
            "were not recorded.",
            DEPENDS: "It depends on the shape and on the fused kernel.",
            RIGHT: "This is how it was recorded.",
        },
    ),
    Claim(
        10,
        sources.CONTEXT,
        "Flash attention keeps a nearly constant throughput whatever the length.",
        r"\text{tokens/s} \propto \frac{\text{FLOP/s}}{4 N d}",
        "time",
        SCENARIO,
        _constant,
        {
            PARTLY: "This is right for FLOP/s of long sequences. Short ones do not fill the GPU, and tokens "
            "per second fall as 1 / N, because every token looks at N others.",
            OFF: "Short sequences do not fill the GPU, and tokens per second fall as 1 / N.",
            WRONG: "Tokens per second fall as 1 / N, because every token looks at N others.",
        },
    ),
    Claim(
        14,
        sources.AWARE,
        "Flash attention is 2 to 4 times faster at 2,048 tokens and 5 to 7 times at 16k.",
        r"\frac{t_\text{unfused}(N)}{t_\text{flash}(N)}",
        "time",
        SCENARIO,
        _faster,
        {
            PARTLY: "This is right without a mask for d = 128 at 2,048 tokens and, within 10%, for d = 64 at "
            "16k, where d = 128 gains less. A causal mask makes unfused attention slower still. The times "
            "are those of PyTorch's unfused attention over its flash kernel.",
            WRONG: "PyTorch's flash kernel over its unfused attention gives other factors.",
            OFF: "PyTorch's flash kernel over its unfused attention gives other factors.",
        },
    ),
    Claim(
        17,
        sources.TECHNIQUES,
        "Tiling, kernel fusion, online softmax and recomputation are the four techniques; version 3 adds "
        "asynchronous copies.",
        r"\frac{t(\text{all but one})}{t(\text{all})} > 1",
        "overlap",
        SCENARIO,
        _techniques,
        {
            PARTLY: "This is right for the techniques, as each is worth something; recomputation is claim "
            "16. Version 2 already copies ahead of use, and gains by it; version 3 adds a warp that only "
            "copies, and the softmax of one warp group under the products of others.",
        },
    ),
    Claim(
        18,
        sources.TECHNIQUES,
        "2 to 4 times faster training and inference, up to 9 times for single operations; 256k tokens on one "
        "GPU.",
        r"\frac{t_\text{unfused}}{t_\text{flash}}, \qquad H \cdot 2 \cdot 4Nd \le \text{memory}",
        "time",
        Experiment.of(algorithm="flash2", seq=2**18, heads=16, head_dim=128, block_q=128, hardware="h100"),
        _single_operations,
        {
            RIGHT: "This holds for the forward pass; nothing is recorded of training to compare with.",
            PARTLY: "This is right for inference at 2,048 tokens without a mask, and for 256k tokens. Single "
            "shapes were recorded far beyond 9 times. Of training there is no unfused time to compare with.",
        },
    ),
    Claim(
        20,
        sources.LENGTHS,
        "50 to 70% less memory, 2 to 4 times faster training, worth it from 1K tokens.",
        r"1 - \frac{4Nd}{2N^2 + 4Nd}",
        "bytes",
        Experiment.of(algorithm="flash2", seq=1024, head_dim=64, block_q=128),
        _worth_it,
        {
            PARTLY: "This is right for short sequences only, because the saving grows with N / d and is far "
            "above 70% at 1K tokens. Flash is worth it long before 1K. No unfused backward pass was timed.",
        },
    ),
)

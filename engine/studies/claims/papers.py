"""Claims of papers, and of their authors' own texts."""

from __future__ import annotations

from math import log2

from engine.experiment import Experiment
from engine.model.footprint import memory_bytes
from engine.model.simulation import simulate
from engine.problem.hardware import GPUS
from engine.recordings.file import is_of
from engine.recordings.recording import Recording
from engine.recordings.rows import timings_of
from engine.studies.by_hand import online_weights, passes
from engine.studies.claims.verdict import (
    COMPUTED,
    COUNTED,
    DATASHEET,
    DEPENDS,
    MODELLED,
    RIGHT,
    Claim,
    Finding,
    Source,
    finding,
)
from engine.studies.recomputation import ONE_KERNEL, PRODUCTS, STORED, TWO_KERNELS, recomputation

FLASH1 = Source("FlashAttention, 2022", "https://arxiv.org/abs/2205.14135")
FLASH2 = Source("FlashAttention-2, 2023", "https://arxiv.org/abs/2307.08691")
FLASH3 = Source("FlashAttention-3, 2024", "https://arxiv.org/abs/2407.08608")
ONLINE = Source("Online normalizer calculation for softmax, 2018", "https://arxiv.org/abs/1805.02867")
DECODING = Source("Flash-Decoding, 2023", "https://pytorch.org/blog/flash-decoding/")

GPT2 = Experiment.of(
    algorithm="flash2", batch=64, heads=16, seq=1024, head_dim=64, block_q=128, hardware="a100-40gb"
)
LONG = Experiment.of(algorithm="flash2", heads=1, seq=2**14, head_dim=64, block_q=128)
SHORT = Experiment.of(algorithm="flash2", batch=8, heads=16, seq=2048, head_dim=128, block_q=128)
SMALL = Experiment.of(algorithm="flash2", heads=1, seq=256, head_dim=64)
DECODE = Experiment.of(algorithm="flash2", heads=1, seq=1, seq_kv=65_536, head_dim=128, hardware="a100")
ON_H100 = Experiment.of(algorithm="flash3", batch=4, heads=16, seq=4096, head_dim=128, hardware="h100")
MEMORIES = tuple(2**power for power in (14, 15, 16))  # M, elements
UNFUSED, FUSED = "eager", "sdpa_flash"  # PyTorch's own, both


def origin(*used: Recording) -> str:
    """Where recorded numbers come from."""
    return ", and ".join(each.origin for each in used) or "not recorded"


def seconds(recording: Recording, provider: str, keys: int, head_dim: int, causal: bool) -> float | None:
    """Recorded median of a forward pass."""
    rows = timings_of(recording, head_dim, causal)
    alike = (row for row in rows if (row.provider, row.problem.seq_kv) == (provider, keys))
    return next((row.times.p50 for row in alike if row.times), None)


def speedup(recording: Recording, keys: int, head_dim: int, causal: bool, fused: str = FUSED) -> float | None:
    """Forward time of unfused PyTorch over that of a fused kernel."""
    times = [seconds(recording, name, keys, head_dim, causal) for name in (UNFUSED, fused)]
    return None if None in times else times[0] / times[1]


def _bytes(_) -> Finding:
    forward = [simulate(GPT2.changed(algorithm=name)).traffic.dram.total for name in ("standard", "flash2")]
    backward = recomputation(GPT2).moved
    ratio = (forward[0] + backward[STORED]) / (forward[1] + backward[TWO_KERNELS])
    what = "bytes across HBM, unfused over FlashAttention, both passes"
    return finding(what, "×", (9.2, 9.2), [ratio], MODELLED, tolerance=0.25)


def _order(_) -> Finding:
    """Of d, from doubling it at several M, in the paper's blocks."""

    def requested(version: str, head_dim: int, elements: int) -> int:
        """M / 4 d rows of what stays, and of what passes as many, at most d: the paper's rule."""
        stay = elements // (4 * head_dim)
        passes_by = min(stay, head_dim)
        rows, keys = {"flash1": (passes_by, stay), "flash2": (stay, passes_by)}[version]
        sized = LONG.changed(algorithm=version, head_dim=head_dim, block_q=rows, block_kv=keys)
        return simulate(sized).traffic.requested.total

    exponents = (
        log2(requested(version, 128, elements) / requested(version, 64, elements))
        for version in ("flash1", "flash2")
        for elements in MEMORIES
    )
    varied = "versions 1 and 2, M of 32 to 128 KiB"
    return finding("exponent of d in the requested bytes", "", (2, 2), exponents, COUNTED, varied=varied)


def _memories(_) -> Finding:
    ratios = [gpu.shared_bytes_per_second / gpu.memory_bytes_per_second for gpu in GPUS.values()]
    what = "shared memory of all SMs over HBM, bytes per second"
    return finding(what, "×", (10, 10), ratios, DATASHEET, varied=f"{len(ratios)} GPUs")


def _memory(_) -> Finding:
    def exponent(head_dim: int, heads: int) -> float:
        sized = LONG.changed(head_dim=head_dim, heads=heads, kv_heads=heads)
        return log2(memory_bytes(sized.changed(seq=2**15, seq_kv=2**15)) / memory_bytes(sized))

    values = [exponent(head_dim, heads) for head_dim in (64, 128) for heads in (1, 32)]
    what = "exponent of N in the memory of attention's tensors"
    return finding(what, "", (1, 1), values, COMPUTED, varied="d and heads")


def _flops(_) -> Finding:
    both = {way: 2 + PRODUCTS[way] for way in (STORED, ONE_KERNEL, TWO_KERNELS)}  # forward, then backward
    ratios = [both[way] / both[STORED] for way in (ONE_KERNEL, TWO_KERNELS)]
    what = "FLOPs of both passes, FlashAttention over unfused"
    return finding(what, "×", (1.13, 1.13), ratios, COUNTED, varied="one backward kernel or two")


def _faster(shelf: tuple[Recording, ...]) -> Finding:
    ratios = (
        speedup(shelf[0], keys, head_dim, causal)
        for keys in (128, 256, 512, 1024, 2048)
        for head_dim in (64, 128)
        for causal in (False, True)
        if shelf
    )
    what = "unfused over fused forward time, PyTorch's own"
    varied = "N of 128 to 2,048, d of 64 and 128, with and without a mask"
    return finding(what, "×", (0, 3), ratios, origin(*shelf[:1]), varied=varied)


def _passes(_) -> Finding:
    return finding("passes of online softmax over a row", "", (2, 2), [passes(online_weights)], COUNTED)


def _blocks(shelf: tuple[Recording, ...]) -> Finding:
    def fastest(recording: Recording, head_dim: int) -> int | None:
        rows = [row for row in recording.sweep if row.algorithm == "flash2" and row.times]
        rows = [row for row in rows if row.problem.head_dim == head_dim]
        best = min(rows, key=lambda row: row.times.p50, default=None)
        return best and max(best.block_q, best.block_kv)

    sides = (fastest(each, head_dim) for each in shelf for head_dim in (64, 128))
    what, varied = "larger side of the fastest blocks", "H100 and H200, d of 64 and 128"
    return finding(what, "", (64, 128), sides, origin(*shelf), varied=varied, tolerance=0.0)


def _utilisation(shelf: tuple[Recording, ...]) -> Finding:
    peak = GPUS["h100"].matrix_flops["float16"]
    own = tuple(each for each in shelf if is_of(each, "h100"))
    rates = (
        100 * row.tflops * 1e12 / peak
        for recording in own[:1]
        for head_dim in (64, 128)
        for causal in (False, True)
        for row in timings_of(recording, head_dim, causal)
        if row.provider == FUSED and row.times and row.problem.seq_kv >= 4096
    )
    what, varied = "share of an H100's peak in PyTorch's kernel", "N from 4,096, d of 64 and 128, masks"
    return finding(what, "%", (35, 35), rates, origin(*own[:1]), varied=varied)


def _exponentials(_) -> Finding:
    gpu = ON_H100.gpu
    exponentials = 1 / (gpu.sms * gpu.exponentials_per_clock * gpu.clock_hz)  # s, of one score
    products = 4 * ON_H100.problem.head_dim / gpu.matrix_flops["float16"]
    what = "time of exponentials over that of products, d = 128"
    return finding(what, "%", (50, 50), [100 * exponentials / products], COMPUTED)


def _idle(_) -> Finding:
    def busy(heads: int) -> float:
        blocks = simulate(DECODE.changed(heads=heads, kv_heads=heads)).footprint.blocks
        return 100 * min(1.0, blocks / DECODE.gpu.sms)

    what = "SMs of an A100 with a block, one query and batch 1"
    varied = "1 to 64 heads"
    return finding(what, "%", (0, 1), map(busy, (1, 8, 32, 64)), COUNTED, varied=varied, tolerance=0.0)


CLAIMS = (
    Claim(
        FLASH1,
        "GPT-2's attention (N = 1,024, d = 64) moves 40.3 GB across HBM unfused, and 4.4 GB, 9.2 times fewer "
        "bytes, as FlashAttention, in both passes together.",
        "traffic",
        GPT2,
        _bytes,
        RIGHT,
        "The model comes within a quarter of what the paper profiled, without its dropout. "
        "Unfused attention writes and reads the N × N matrices; FlashAttention does neither.",
    ),
    Claim(
        FLASH1,
        "FlashAttention needs Θ(N² d² / M) accesses to HBM, M being the size of the memory on the chip.",
        "traffic",
        LONG,
        _order,
        RIGHT,
        "Articles often write N² d / M and lose a d. Rows twice as long are also moved twice as "
        "often, because only half as many of them fit on the chip.",
    ),
    Claim(
        FLASH1,
        "On-chip SRAM is an order of magnitude faster than HBM.",
        "traffic",
        LONG.changed(hardware="a100"),
        _memories,
        DEPENDS,
        "It is right for the A100 that the paper used: 9.6 times, if the shared memory of all "
        "SMs works at its peak. The other GPUs that this program knows lie on both sides of that.",
    ),
    Claim(
        FLASH1,
        "FlashAttention's memory grows linearly with the sequence length.",
        "traffic",
        LONG,
        _memory,
        RIGHT,
        "Q, K, V and O have N rows each, and nothing larger is stored. Articles that call it "
        "sublinear forget the inputs.",
    ),
    Claim(
        FLASH1,
        "It recomputes scores in the backward pass, so that it needs 13% more FLOPs than unfused attention, "
        "and is faster nevertheless.",
        "backward",
        GPT2.changed(algorithm="backward", batch=1),
        _flops,
        DEPENDS,
        "It is right for the paper's single backward kernel, which does one more product per "
        "tile. This project divides the backward pass between two kernels, which both compute S and dP.",
    ),
    Claim(
        FLASH1,
        "FlashAttention is up to 3 times faster than the standard implementation at common lengths, from 128 "
        "to 2,048 tokens.",
        "speed",
        SHORT,
        _faster,
        DEPENDS,
        "It is right for a head dimension of 128 without a mask. A causal mask adds more, "
        "as unfused attention computes and stores the hidden half too. The paper timed an A100.",
    ),
    Claim(
        ONLINE,
        "Safe softmax passes over a row three times. Online softmax needs two, because it finds the maximum "
        "and the sum in one.",
        "softmax",
        SMALL,
        _passes,
        RIGHT,
        "A running sum is corrected whenever the maximum rises. FlashAttention needs one pass "
        "only, because it corrects O in the same way and stores no weights.",
    ),
    Claim(
        FLASH2,
        "Blocks of 64 to 128 rows and keys are chosen, by head dimension and shared memory.",
        "speed",
        SHORT.changed(block_kv=128),
        _blocks,
        DEPENDS,
        "It is right for d = 64. For d = 128 an H100 was fastest with 256 query rows, and an "
        "H200 with 128, by one per cent at most. These are times of this project's own kernel.",
    ),
    Claim(
        FLASH3,
        "FlashAttention-2 uses only 35% of an H100's peak.",
        "speed",
        ON_H100.changed(algorithm="flash2"),
        _utilisation,
        DEPENDS,
        "It is right for d = 128 without a mask. With a causal mask or d = 64 the kernel, which "
        "was written for the A100, mostly reaches less.",
    ),
    Claim(
        FLASH3,
        "With d = 128 the exponentials can take half as long as the matrix products, although there are 512 "
        "times fewer of them.",
        "flash3",
        ON_H100,
        _exponentials,
        RIGHT,
        "In a clock an SM computes 16 exponentials and 4,096 FLOPs on its tensor cores. That is "
        "why FlashAttention-3 runs the softmax of one warp group under the products of another.",
    ),
    Claim(
        DECODING,
        "At batch size 1, FlashAttention uses less than 1% of the GPU while it generates text.",
        "decoding",
        DECODE,
        _idle,
        DEPENDS,
        "It is right for one head. Each head has a thread block of its own, so that 32 heads "
        "give work to a third of the SMs. Splitting the keys gives work to all.",
    ),
)

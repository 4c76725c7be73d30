"""Claims of popular articles, which no paper makes."""

from __future__ import annotations

from itertools import pairwise, product
from math import log2

import numpy as np

from engine.problem.hardware import GPUS
from engine.problem.inputs import make_inputs
from engine.recordings.recording import Recording
from engine.studies.claims.broken import rising
from engine.studies.claims.papers import FUSED, LONG, SHORT, SMALL, origin, speedup
from engine.studies.claims.verdict import COMPUTED, DATASHEET, DEPENDS, WRONG, Claim, Finding, Source, finding
from engine.trace.forward import execute

CODE = Source("a popular article with code for FlashAttention-2")
AWARE = Source("a popular article on IO-aware attention")
FUSED_KERNELS = (FUSED, "sdpa_cudnn", "flash2", "flash3", "fa4")


def _m(_) -> Finding:
    gpu = GPUS["a100"]
    return finding("shared memory of one block, A100", "B", (20e6, 20e6), [gpu.shared_bytes_block], DATASHEET)


def _broken(_) -> Finding:
    what = "error of O after a row of rising maxima"
    return finding(what, "error", (0, 1e-12), [float(rising().broken[-1])], COMPUTED, decides=True)


def _identical(_) -> Finding:
    def apart(dtype: str) -> float:
        sized = SMALL.changed(dtype=dtype)
        inputs = [array[0] for array in make_inputs(sized.problem)]
        unfused, flash = (
            execute(sized.changed(algorithm=name), *inputs).out for name in ("standard", "flash2")
        )
        return float(np.abs(unfused - flash).max())

    values = map(apart, ("float16", "bfloat16", "float32"))
    what = "largest difference of O, unfused and flash"
    return finding(what, "error", (0, 0), values, COMPUTED, varied="three data types", decides=True)


def _accesses(shelf: tuple[Recording, ...]) -> Finding:
    """Of neighbouring lengths: log of the bytes of a head that DRAM gave, over log of the length."""
    read: dict[int, float] = {}
    for row in shelf[0].counters if shelf else ():
        problem, mask = row.problem, row.problem.mask
        plain = mask.looks_ahead and mask.window is None and problem.group == 1
        alike = (row.provider, row.direction, problem.head_dim) == ("flash2", "forward", 128)
        if plain and alike and row.kernels and problem.seq_q == problem.seq_kv:
            read.setdefault(problem.seq_kv, row.total("dram_read") / problem.heads)
    exponents = [log2(read[b] / read[a]) / log2(b / a) for a, b in pairwise(sorted(read))]
    varied = f"N of {min(read):,} to {max(read):,}" if read else "N"
    return finding("exponent of N in DRAM reads", "", (1, 1), exponents, origin(*shelf[:1]), varied=varied)


def _crossover(shelf: tuple[Recording, ...]) -> Finding:
    """Over every recorded shape and fused kernel; 16k tokens in all, so that short ones have many rows."""
    shapes = product((128, 256), (64, 128, 256), (False, True), FUSED_KERNELS)
    ratios = (speedup(shelf[0], *shape) for shape in shapes if shelf)
    what, varied = "unfused over fused forward time", "N of 128 and 256, d, masks, and 5 fused kernels"
    deciding = {"tolerance": 0.0, "decides": True}
    return finding(what, "×", (0, 1), ratios, origin(*shelf[:1]), varied=varied, **deciding)


CLAIMS = (
    Claim(
        AWARE,
        "M, the fast memory in the bound N² d² / M, is about 20 MB.",
        "traffic",
        LONG.changed(hardware="a100"),
        _m,
        WRONG,
        "M is what one thread block has, because its tiles decide how often K and V pass by. "
        "20 MB is the shared memory of all SMs together.",
    ),
    Claim(
        CODE,
        "To bring in a block, add P V exp(m_block − m_new) to O, and leave as it is what was accumulated "
        "before.",
        "softmax",
        SMALL,
        _broken,
        WRONG,
        "Without the factor exp(m − m_new) the earlier blocks keep weights that were relative to "
        "a smaller maximum, so they count too much whenever the maximum rises.",
    ),
    Claim(
        AWARE,
        "FlashAttention's outputs are bit-identical to standard attention's.",
        "agreement",
        SMALL,
        _identical,
        WRONG,
        "It computes the same function, but sums in another order round differently. In 16 bits "
        "it is even nearer to float64, because unfused attention stores S and P rounded.",
    ),
    Claim(
        CODE,
        "FlashAttention accesses HBM O(N) times.",
        "traffic",
        LONG.changed(seq=65_536, seq_kv=65_536, head_dim=128),
        _accesses,
        DEPENDS,
        "It is right as long as K and V of the heads at work fit in L2, because each byte then "
        "comes once. Beyond that every wave of blocks fetches them again, and the bytes grow with N².",
    ),
    Claim(
        CODE,
        "Below 512 tokens unfused attention is often faster, and below 256 tiling costs more than it saves.",
        "speed",
        SHORT.changed(seq=256, seq_kv=256, batch=64),
        _crossover,
        WRONG,
        "Every fused kernel was faster at every recorded shape of 128 and 256 tokens, 16k tokens "
        "in all, because unfused attention launches several kernels and stores S. Smaller batches were "
        "not recorded.",
    ),
)
BROKEN = next(claim for claim in CLAIMS if claim.check is _broken)  # whose update a picture shows

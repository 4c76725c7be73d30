"""Claims of popular articles, which no paper makes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from math import log2

import numpy as np

from engine.problem.hardware import GPUS
from engine.problem.inputs import make_inputs
from engine.recordings.recording import Recording
from engine.studies.claims.broken import rising
from engine.studies.claims.papers import FUSED, LONG, MASKS, SHORT, SMALL, speedup
from engine.studies.claims.verdict import COMPUTED, DATASHEET, DEPENDS, WRONG, Claim
from engine.trace.forward import execute

CODE = ("a popular article with code for FlashAttention-2", "")
AWARE = ("a popular article on IO-aware attention", "")
FUSED_KERNELS = (FUSED, "sdpa_cudnn", "flash2", "flash3", "fa4")


def _broken() -> list[float]:
    return [float(rising().broken[-1])]


def _identical() -> Iterator[float]:
    for dtype in ("float16", "bfloat16", "float32"):
        sized = SMALL.changed(dtype=dtype)
        inputs = [array[0] for array in make_inputs(sized.problem)]
        unfused, flash = (execute(sized.changed(algorithm=each), *inputs) for each in ("standard", "flash2"))
        yield float(np.abs(unfused.out - flash.out).max())


def _accesses(h200: Recording) -> Iterator[float]:
    """Of neighbouring lengths: log of the bytes of a head that DRAM gave, over log of the length."""
    read: dict[int, float] = {}
    for row in h200.counters:
        problem, mask = row.problem, row.problem.mask
        plain = mask.looks_ahead and mask.window is None and problem.group == 1
        alike = (row.provider, row.direction, problem.head_dim) == ("flash2", "forward", 128)
        if plain and alike and row.kernels and problem.seq_q == problem.seq_kv:
            read.setdefault(problem.seq_kv, row.total("dram_read") / problem.heads)
    return (log2(read[b] / read[a]) / log2(b / a) for a, b in pairwise(sorted(read)))


def _crossover(h200: Recording) -> Iterator[float | None]:
    """Over every recorded shape and fused kernel; 16k tokens in all, so that short ones have many rows."""
    shapes = product(FUSED_KERNELS, (128, 256), (64, 128, 256), MASKS)
    return (speedup(h200, *shape) for shape in shapes)


BROKEN = Claim(  # whose update a picture shows
    CODE,
    "To bring in a block, add P V exp(m_block − m_new) to O, and leave as it is what was accumulated before.",
    *("softmax", SMALL, "error of O after a row of rising maxima", "error", (0, 1e-12), _broken, WRONG),
    "Without the factor exp(m − m_new) the earlier blocks keep weights that were relative to a smaller "
    "maximum, so they count too much whenever the maximum rises.",
    COMPUTED,
    decides=True,
)
CLAIMS = (
    Claim(
        AWARE,
        "M, the fast memory in the bound N² d² / M, is about 20 MB.",
        *("traffic", LONG.changed(hardware="a100"), "shared memory of one block, A100", "B", (20e6, 20e6)),
        *(lambda: [GPUS["a100"].shared_bytes_block], WRONG),
        "M is what one thread block has, because its tiles decide how often K and V pass by. 20 MB is the "
        "shared memory of all SMs together.",
        DATASHEET,
    ),
    BROKEN,
    Claim(
        AWARE,
        "FlashAttention's outputs are bit-identical to standard attention's.",
        *("agreement", SMALL, "largest difference of O, unfused and flash"),
        *("error", (0, 0), _identical, WRONG),
        "It computes the same function, but sums in another order round differently. In 16 bits it is even "
        "nearer to float64, because unfused attention stores S and P rounded.",
        COMPUTED,
        varied="three data types",
        decides=True,
    ),
    Claim(
        CODE,
        "FlashAttention accesses HBM O(N) times.",
        *("traffic", LONG.changed(seq=65_536, seq_kv=65_536, head_dim=128)),
        *("exponent of N in DRAM reads", "", (1, 1), _accesses, DEPENDS),
        "It is right as long as K and V of the heads at work fit in L2, because each byte then comes once. "
        "Beyond that every wave of blocks fetches them again, and the bytes grow with N².",
        gpus=("h200",),
        varied="N of 512 to 131,072",
    ),
    Claim(
        CODE,
        "Below 512 tokens unfused attention is often faster, and below 256 tiling costs more than it saves.",
        *("speed", SHORT.changed(seq=256, seq_kv=256, batch=64), "unfused over fused forward time"),
        *("×", (0, 1), _crossover, WRONG),
        "Every fused kernel was faster at every recorded shape of 128 and 256 tokens, 16k tokens in all, "
        "because unfused attention launches several kernels and stores S. Smaller batches were not recorded.",
        gpus=("h200",),
        varied="N of 128 and 256, d, masks, and 5 fused kernels",
        tolerance=0.0,
        decides=True,
    ),
)

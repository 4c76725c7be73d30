"""What papers, their authors' own texts and popular articles claim about attention on GPUs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from math import log2
from typing import NamedTuple

import numpy as np

from engine.experiment import Experiment
from engine.model.device_memory import memory_bytes
from engine.model.simulation import simulate
from engine.problem.hardware import GPUS
from engine.problem.inputs import make_inputs
from engine.problem.problem import Problem
from engine.recordings.file import is_of, recordings
from engine.recordings.recording import Recording
from engine.recordings.rows import timings_of
from engine.studies.by_hand import online_softmax
from engine.studies.gains import MOVED, ONE_KERNEL, PRODUCTS, STORED, TWO_KERNELS, recomputation
from engine.trace.execute import execute
from engine.trace.softmax import PRESETS, falling, online_steps

VERDICTS = RIGHT, DEPENDS, WRONG = "right", "right for some choices", "wrong"
ABOUT = 0.1  # texts round: a number is right within this share, unless a claim says otherwise
COUNTED, MODELLED, COMPUTED, DATASHEET = "counted", "modelled", "computed", "datasheet"


@dataclass(frozen=True)
class Claim:
    # who says it: a paper or an author's own text with its address, or an article without one
    source: tuple[str, str]
    says: str  # the claim in our words
    # page, experiment: where its scenario is seen
    page: str
    experiment: Experiment
    # what, unit: which number, in "B", "×", "%", "error", or "" for plain numbers
    what: str
    unit: str
    claimed: tuple[float, float]  # (low, high) of what is said, from 0 up
    # ours, one or over all choices, from the recordings of `gpus`; None is not recorded
    values: Callable[..., Iterable[float | None]]
    why: str  # what the verdict rests on, in words
    origin: str = ""  # counted, modelled, computed or datasheet; of what is recorded, when and where follows
    gpus: tuple[str, ...] = ()
    varied: str = ""  # the choices, in words
    tolerance: float = ABOUT  # relative


class Checked(NamedTuple):
    """A claim with its number in the list, the least and the most of ours, where from, and what follows."""

    number: int
    claim: Claim
    found: tuple[float, float]
    origin: str

    @property
    def verdict(self) -> str:
        return verdict(self.claim.claimed, self.found, self.claim.tolerance)


def verdict(claimed: tuple[float, float], found: tuple[float, float], tolerance: float) -> str:
    """What follows from what is said, and from the least and the most of ours."""
    low, high = claimed[0] * (1 - tolerance), claimed[1] * (1 + tolerance)
    if low <= found[0] and found[1] <= high:
        return RIGHT
    return DEPENDS if found[0] <= high and low <= found[1] else WRONG


FLASH1 = ("FlashAttention, 2022", "https://arxiv.org/abs/2205.14135")
FLASH2 = ("FlashAttention-2, 2023", "https://arxiv.org/abs/2307.08691")
FLASH3 = ("FlashAttention-3, 2024", "https://arxiv.org/abs/2407.08608")
ONLINE = ("Online normalizer calculation for softmax, 2018", "https://arxiv.org/abs/1805.02867")
DECODING = ("Flash-Decoding, 2023", "https://pytorch.org/blog/flash-decoding/")
CODE = ("a popular article with code for FlashAttention-2", "")
AWARE = ("a popular article on IO-aware attention", "")

GPT2 = Experiment.of(
    algorithm="flash2", batch=64, heads=16, seq=1024, head_dim=64, block_q=128, hardware="a100-40gb"
)
LONG = Experiment.of(algorithm="flash2", heads=1, seq=2**14, head_dim=64, block_q=128)
SHORT = Experiment.of(algorithm="flash2", batch=8, heads=16, seq=2048, head_dim=128, block_q=128)
SMALL = Experiment.of(algorithm="flash2", heads=1, seq=256, head_dim=64)
DECODE = Experiment.of(algorithm="flash2", heads=1, seq=1, seq_kv=65_536, head_dim=128, hardware="a100")
ON_H100 = Experiment.of(algorithm="flash3", batch=4, heads=16, seq=4096, head_dim=128, hardware="h100")
UNFUSED, FUSED = "eager", "sdpa_flash"  # PyTorch's own, both
MASKS = (False, True)  # causal
FUSED_KERNELS = (FUSED, "sdpa_cudnn", "flash2", "flash3", "fa4")


def speedup(recording: Recording, fused: str, keys: int, head_dim: int, causal: bool) -> float | None:
    """Recorded forward time of unfused PyTorch over that of a fused kernel; None where one is missing."""
    rows = timings_of(recording, head_dim, causal)
    times = {row.provider: row.times.p50 for row in rows if row.times and row.problem.seq_kv == keys}
    return times[UNFUSED] / times[fused] if {UNFUSED, fused} <= times.keys() else None


def _bytes() -> Iterator[float]:
    forward = [simulate(GPT2.changed(algorithm=name)).traffic.dram.total for name in ("standard", "flash2")]
    backward = recomputation(GPT2)[MOVED]
    yield (forward[0] + backward[STORED]) / (forward[1] + backward[TWO_KERNELS])


def _order() -> Iterator[float]:
    """From doubling d, in the paper's blocks."""

    def requested(version: str, head_dim: int, elements: int) -> int:
        """M / 4 d rows of what stays, and of what passes as many, at most d: the paper's rule."""
        stay = elements // (4 * head_dim)
        passes_by = min(stay, head_dim)
        rows, keys = {"flash1": (passes_by, stay), "flash2": (stay, passes_by)}[version]
        sized = LONG.changed(algorithm=version, head_dim=head_dim, block_q=rows, block_kv=keys)
        return simulate(sized).traffic.requested.total

    for version, elements in product(("flash1", "flash2"), (2**14, 2**15, 2**16)):
        yield log2(requested(version, 128, elements) / requested(version, 64, elements))


def _memory() -> Iterator[float]:
    for head_dim, heads in product((64, 128), (1, 32)):
        sized = LONG.changed(head_dim=head_dim, heads=heads, kv_heads=heads)
        yield log2(memory_bytes(sized.changed(seq=2**15, seq_kv=2**15)) / memory_bytes(sized))


def _speedups(*choices: tuple) -> Callable[[Recording], Iterator[float | None]]:
    """Over fused kernels, lengths, head dims and masks; short ones have many rows, 16k tokens in all."""
    return lambda h200: (speedup(h200, *shape) for shape in product(*choices, MASKS))


def _blocks(*both: Recording) -> Iterator[int]:
    for recording, head_dim in product(both, (64, 128)):
        rows = [row for row in recording.sweep if row.algorithm == "flash2" and row.times]
        own = [row for row in rows if row.problem.head_dim == head_dim]
        best = min(own, key=lambda row: row.times.p50)
        yield max(best.block_q, best.block_kv)


def _utilisation(h100: Recording) -> Iterator[float]:
    for shape in product((64, 128), MASKS):
        for row in timings_of(h100, *shape):
            if row.provider == FUSED and row.times and row.problem.seq_kv >= 4096:
                yield 100 * row.tflops * 1e12 / GPUS["h100"].matrix_flops["float16"]


def _exponentials() -> Iterator[float]:
    gpu = ON_H100.gpu
    exponential = 1 / (gpu.sms * gpu.exponentials_per_clock * gpu.clock_hz)  # s, of one score
    yield 100 * exponential / (4 * ON_H100.problem.head_dim / gpu.matrix_flops["float16"])


def _busy() -> Iterator[float]:
    for heads in (1, 8, 32, 64):
        blocks = simulate(DECODE.changed(heads=heads, kv_heads=heads)).footprint.blocks
        yield 100 * min(1.0, blocks / DECODE.gpu.sms)


def _broken(block: int = 2) -> Iterator[float]:
    """Of the softmax page's row of rising maxima: O is never rescaled, l is."""
    scores = np.array(PRESETS["rising"].scores)
    _, _, values = make_inputs(Problem(seq_q=1, seq_kv=len(scores), head_dim=16, dtype="float32"))
    steps = online_steps(scores, block)
    kept = falling(scores, np.repeat(steps.m, block)[: len(scores)]) / steps.l[-1]
    exact, found = (weights @ values[0].astype(np.float64) for weights in (steps.final, kept))
    yield float(np.abs(found - exact).max() / np.abs(exact).max())


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


CLAIMS = (
    Claim(
        FLASH1,
        "GPT-2's attention (N = 1,024, d = 64) moves 40.3 GB across HBM unfused, and 4.4 GB, 9.2 times fewer "
        "bytes, as FlashAttention, in both passes together.",
        *("traffic", GPT2, "bytes across HBM, unfused over FlashAttention, both passes"),
        *("×", (9.2, 9.2), _bytes),
        "The model comes within a quarter of what the paper profiled, without its dropout. Unfused attention "
        "writes and reads the N × N matrices; FlashAttention does neither.",
        MODELLED,
        tolerance=0.25,
    ),
    Claim(
        FLASH1,
        "FlashAttention needs Θ(N² d² / M) accesses to HBM, M being the size of the memory on the chip.",
        *("traffic", LONG, "exponent of d in the requested bytes", "", (2, 2), _order),
        "Articles often write N² d / M and lose a d. Rows twice as long are also moved twice as often, "
        "because only half as many of them fit on the chip.",
        COUNTED,
        varied="versions 1 and 2, M of 32 to 128 KiB",
    ),
    Claim(
        FLASH1,
        "On-chip SRAM is an order of magnitude faster than HBM.",
        *("traffic", LONG.changed(hardware="a100"), "shared memory of all SMs over HBM, bytes per second"),
        *("×", (10, 10)),
        lambda: (gpu.shared_bytes_per_second / gpu.memory_bytes_per_second for gpu in GPUS.values()),
        "It is right for the A100 that the paper used: 9.6 times, if the shared memory of all SMs works at "
        "its peak. The other GPUs that this program knows lie on both sides of that.",
        DATASHEET,
        varied=f"{len(GPUS)} GPUs",
    ),
    Claim(
        FLASH1,
        "FlashAttention's memory grows linearly with the sequence length.",
        *("traffic", LONG, "exponent of N in the memory of attention's tensors", "", (1, 1), _memory),
        "Q, K, V and O have N rows each, and nothing larger is stored. Articles that call it sublinear "
        "forget the inputs.",
        COMPUTED,
        varied="d and heads",
    ),
    Claim(
        FLASH1,
        "It recomputes scores in the backward pass, so that it needs 13% more FLOPs than unfused attention, "
        "and is faster nevertheless.",
        *("backward", GPT2.changed(algorithm="backward", batch=1)),
        *("FLOPs of both passes, FlashAttention over unfused", "×", (1.13, 1.13)),
        # 2 products a tile forward, and those of the backward pass
        lambda: ((2 + PRODUCTS[way]) / (2 + PRODUCTS[STORED]) for way in (ONE_KERNEL, TWO_KERNELS)),
        "It is right for the paper's single backward kernel, which does one more product per tile. This "
        "project divides the backward pass between two kernels, which both compute S and dP.",
        COUNTED,
        varied="one backward kernel or two",
    ),
    Claim(
        FLASH1,
        "FlashAttention is up to 3 times faster than the standard implementation at common lengths, from 128 "
        "to 2,048 tokens.",
        *("speed", SHORT, "unfused over fused forward time, PyTorch's own", "×", (0, 3)),
        _speedups((FUSED,), (128, 256, 512, 1024, 2048), (64, 128)),
        "It is right for a head dimension of 128 without a mask. A causal mask adds more, as unfused "
        "attention computes and stores the hidden half too. The paper timed an A100.",
        gpus=("h200",),
        varied="N of 128 to 2,048, d of 64 and 128, with and without a mask",
    ),
    Claim(
        ONLINE,
        "Safe softmax passes over a row three times. Online softmax needs two, because it finds the maximum "
        "and the sum in one.",
        *("softmax", SMALL, "passes of online softmax over a row", "", (2, 2)),
        lambda: [online_softmax()[1]],
        "A running sum is corrected whenever the maximum rises. FlashAttention needs one pass only, because "
        "it corrects O in the same way and stores no weights.",
        COUNTED,
    ),
    Claim(
        FLASH2,
        "Blocks of 64 to 128 rows and keys are chosen, by head dimension and shared memory.",
        *("speed", SHORT.changed(block_kv=128), "larger side of the fastest blocks", "", (64, 128), _blocks),
        "It is right for d = 64. For d = 128 an H100 was fastest with 256 query rows, and an H200 with 128, "
        "by one per cent at most. These are times of this project's own kernel.",
        gpus=("h200", "h100"),
        varied="H100 and H200, d of 64 and 128",
        tolerance=0.0,
    ),
    Claim(
        FLASH3,
        "FlashAttention-2 uses only 35% of an H100's peak.",
        *("speed", ON_H100.changed(algorithm="flash2"), "share of an H100's peak in PyTorch's kernel"),
        *("%", (35, 35), _utilisation),
        "It is right for d = 128 without a mask. With a causal mask or d = 64 the kernel, which was written "
        "for the A100, mostly reaches less.",
        gpus=("h100",),
        varied="N from 4,096, d of 64 and 128, masks",
    ),
    Claim(
        FLASH3,
        "With d = 128 the exponentials can take half as long as the matrix products, although there are 512 "
        "times fewer of them.",
        *("flash3", ON_H100, "time of exponentials over that of products, d = 128"),
        *("%", (50, 50), _exponentials),
        "In a clock an SM computes 16 exponentials and 4,096 FLOPs on its tensor cores. That is why "
        "FlashAttention-3 runs the softmax of one warp group under the products of another.",
        COMPUTED,
    ),
    Claim(
        DECODING,
        "At batch size 1, FlashAttention uses less than 1% of the GPU while it generates text.",
        *("decoding", DECODE, "SMs of an A100 with a block, one query and batch 1"),
        *("%", (0, 1), _busy),
        "It is right for one head. Each head has a thread block of its own, so that 32 heads give work to a "
        "third of the SMs. Splitting the keys gives work to all.",
        COUNTED,
        varied="1 to 64 heads",
        tolerance=0.0,
    ),
    Claim(
        AWARE,
        "M, the fast memory in the bound N² d² / M, is about 20 MB.",
        *("traffic", LONG.changed(hardware="a100"), "shared memory of one block, A100", "B", (20e6, 20e6)),
        lambda: [GPUS["a100"].shared_bytes_block],
        "M is what one thread block has, because its tiles decide how often K and V pass by. 20 MB is the "
        "shared memory of all SMs together.",
        DATASHEET,
    ),
    Claim(
        CODE,
        "To bring in a block, add P V exp(m_block − m_new) to O, and leave as it is what was accumulated "
        "before.",
        *("softmax", SMALL, "error of O after a row of rising maxima", "error", (0, 1e-12), _broken),
        "Without the factor exp(m − m_new) the earlier blocks keep weights that were relative to a smaller "
        "maximum, so they count too much whenever the maximum rises.",
        COMPUTED,
    ),
    Claim(
        AWARE,
        "FlashAttention's outputs are bit-identical to standard attention's.",
        *("agreement", SMALL, "largest difference of O, unfused and flash"),
        *("error", (0, 0), _identical),
        "It computes the same function, but sums in another order round differently. In 16 bits it is even "
        "nearer to float64, because unfused attention stores S and P rounded.",
        COMPUTED,
        varied="three data types",
    ),
    Claim(
        CODE,
        "FlashAttention accesses HBM O(N) times.",
        *("traffic", LONG.changed(seq=65_536, seq_kv=65_536, head_dim=128)),
        *("exponent of N in DRAM reads", "", (1, 1), _accesses),
        "It is right as long as K and V of the heads at work fit in L2, because each byte then comes once. "
        "Beyond that every wave of blocks fetches them again, and the bytes grow with N².",
        gpus=("h200",),
        varied="N of 512 to 131,072",
    ),
    Claim(
        CODE,
        "Below 512 tokens unfused attention is often faster, and below 256 tiling costs more than it saves.",
        *("speed", SHORT.changed(seq=256, seq_kv=256, batch=64), "unfused over fused forward time"),
        *("×", (0, 1), _speedups(FUSED_KERNELS, (128, 256), (64, 128, 256))),
        "Every fused kernel was faster at every recorded shape of 128 and 256 tokens, 16k tokens in all, "
        "because unfused attention launches several kernels and stores S. Smaller batches were not recorded.",
        gpus=("h200",),
        varied="N of 128 and 256, d, masks, and 5 fused kernels",
        tolerance=0.0,
    ),
)


@lru_cache(maxsize=1)
def checked() -> tuple[Checked, ...]:
    """What every claim says, computed from the recordings of its GPUs."""
    found = []
    for number, claim in enumerate(CLAIMS, 1):
        own = [next(each for each in recordings() if is_of(each, key)) for key in claim.gpus]
        values = [each for each in claim.values(*own) if each is not None]
        origin = claim.origin or ", and ".join(each.origin for each in own)
        found.append(Checked(number, claim, (min(values), max(values)), origin))
    return tuple(found)

"""Eight and four bits with a scale for each block: how numbers are rounded, and what attention loses by it.

MXFP8 and MXFP4: the OCP Microscaling specification 1.0, sections 5 and 6.3: blocks of 32, whose scale is a
power of two (E8M0): the largest's exponent less that of the format's largest. NVFP4: blocks of 16, whose
scale is an E4M3 number, times one float32 for the tensor, such that the largest scale is 448. INT8: as
SageAttention has it (arXiv 2410.02367), a float32 scale for 64 tokens; K less its mean over all tokens, which
adds the same to all scores of a query and so leaves its softmax as it was; P and V stay in 16 bits.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.experiment import Experiment
from engine.problem.gpu import Gpu
from engine.problem.inputs import make_inputs
from engine.recordings.nearest import WIDTH, differing, doublings, length, masked, nearest
from engine.recordings.recording import Recording
from engine.recordings.timing import Fp8Timing
from engine.studies.beyond import text_heads
from engine.trace.memory import streamed
from engine.trace.rows import masked_scores

MANTISSA = 23  # bits of a float32's fraction
ROWS, KEYS = 64, 512  # queries that are looked at, and the most keys
SAMPLE = 32  # numbers of a row of K that are drawn
SIZES = (8, 16, 32, 64, 128)
MAGNITUDES = tuple(10.0**power for power in range(-6, 7))
DRAWN, SHIFTED, OUTLIERS, TEXT = "drawn", "shifted", "outliers", "text"
KINDS = (DRAWN, SHIFTED, OUTLIERS, TEXT)
SHIFT, RARE, WIDE = 12.0, 1000, 10.0  # of a column of K; one number in so many, so many times as wide


@dataclass(frozen=True)
class Format:
    """A small floating-point format, without infinity: what is larger than its largest becomes that."""

    digits: int  # bits of the fraction
    lowest: int  # the exponent of its smallest normal number
    largest: float  # its largest number
    bits: int  # of a number

    def rounded(self, numbers: np.ndarray) -> np.ndarray:
        """float32 numbers to the nearest that there are, ties to even: added to their bits, and masked."""
        bits = np.abs(numbers).view(np.uint32)
        shift = np.uint32(MANTISSA - self.digits)
        half = (np.uint32(1) << (shift - np.uint32(1))) - np.uint32(1)
        up = bits + half + ((bits >> shift) & np.uint32(1))
        normal = (up >> shift << shift).view(np.float32)
        step = np.float32(2.0 ** (self.lowest - self.digits))  # of those below the smallest normal
        below = np.rint(np.abs(numbers) / step) * step
        size = np.where(bits < np.float32(2.0**self.lowest).view(np.uint32), below, normal)
        return np.copysign(np.minimum(size, np.float32(self.largest)), numbers)


E4M3, E2M1 = Format(3, -6, 448.0, 8), Format(1, 0, 6.0, 4)


def power_scale(largest: np.ndarray, of: Format) -> np.ndarray:
    """The E8M0 scale of blocks: a power of two, exact in float32."""
    exponent = np.frexp(np.where(largest > 0, largest, 1))[1] - 1 - (np.frexp(of.largest)[1] - 1)
    return np.exp2(np.clip(exponent, -127, 127)).astype(np.float32)


@dataclass(frozen=True)
class Scheme:
    name: str  # as pages say it
    block: int  # numbers along a row that share a scale; 0: the whole tensor's; -1: all of 64 rows
    of: Format | None  # their format; None: INT8
    scale: str  # of blocks: "float32", "e8m0", "e4m3", or "two levels", which is e4m3 times a float32
    smooth: bool = False  # whether K is taken less its mean
    # how many times as fast as 16 bits a B200 multiplies it, by NVIDIA's data sheet (dense)
    products: int = 2
    all: bool = True  # whether P and V are rounded too

    @property
    def bits(self) -> float:
        """Of a number, with its share of the scale; d 128."""
        own = 8 if self.of is None else self.of.bits
        scale = 32 if self.scale == "float32" else 8
        return own + (scale / self.block if self.block > 0 else scale / (64 * 128) * (self.block < 0))

    def scales(self, blocks: np.ndarray) -> np.ndarray:
        """[..., 1] float32 of blocks, the last axis."""
        across = np.ascontiguousarray(np.moveaxis(np.abs(blocks), -1, 0))  # of which maxima take a tenth
        largest = across.max(0)[..., None]
        if self.scale == "e8m0":
            return power_scale(largest, self.of)
        most = np.float32(127.0 if self.of is None else self.of.largest)
        if self.scale == "float32":
            return np.where(largest > 0, largest / most, np.float32(1))
        tensor = np.float32(1)
        if self.scale == "two levels":
            tensor = largest.max() / np.float32(most * E4M3.largest) or np.float32(1)
        return E4M3.rounded(largest / most / tensor) * tensor

    def rounded(self, tensor: np.ndarray) -> np.ndarray:
        """[rows, d] float32 as it comes back: each number rounded in its block's scale, times that."""
        return np.multiply(*self.kept(tensor))

    def kept(self, tensor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[rows, d] float32: what is kept of each number, and the scale that it is to be multiplied by."""
        (rows, wide), size = tensor.shape, self.block
        more = (0, -rows % 64 * (size < 0)), (0, -wide % size if size > 0 else 0)
        whole = np.pad(tensor, more)
        blocks = whole.reshape(-1, size if size > 0 else 64 * wide if size else tensor.size)
        scales = np.broadcast_to(self.scales(blocks), blocks.shape)
        scaled = np.divide(blocks, scales, out=np.zeros_like(blocks), where=scales > 0)  # one may round to 0
        kept = np.clip(np.rint(scaled), -127, 127) if self.of is None else self.of.rounded(scaled)
        return tuple(each.reshape(whole.shape)[:rows, :wide] for each in (kept, scales))


ONE, MXFP8, INT8, SMOOTH, MXFP4, SINGLE, NVFP4 = SCHEMES = (
    Scheme("E4M3, one scale", 0, E4M3, "float32"),
    Scheme("MXFP8", 32, E4M3, "e8m0"),
    Scheme("INT8 of Q and K", -1, None, "float32", all=False),
    Scheme("INT8, K smoothed", -1, None, "float32", smooth=True, all=False),
    Scheme("MXFP4", 32, E2M1, "e8m0", products=4),
    Scheme("NVFP4, one level", 16, E2M1, "e4m3", products=4),
    Scheme("NVFP4", 16, E2M1, "two levels", products=4),
)


def numbers(experiment: Experiment, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, scaled, of ROWS queries, K and V of the first head: as drawn, or with a far column, or outliers."""
    keys = min(experiment.problem.seq_kv, KEYS)
    one = experiment.changed(batch=1, seq=min(keys, ROWS), seq_kv=keys, dtype="float32")
    q, k, v = (each[0].copy() for each in make_inputs(one.problem))
    if kind == SHIFTED:
        k[:, k.shape[1] // 3] += SHIFT
    if kind == OUTLIERS:
        draw = np.random.Generator(np.random.PCG64(5))
        for each in (q, k, v):
            each[draw.random(each.shape) < 1 / RARE] *= WIDE
    return q * np.float32(one.problem.scale), k, v


def attention(
    scheme: Scheme | None, q: np.ndarray, k: np.ndarray, v: np.ndarray, block: int = 128
) -> np.ndarray:
    """[rows, d of V] float64 O, a block of keys at a time, each operand of a product rounded before it.

    Products and sums of rounded numbers are exact in float64; P is rounded along its keys, V along its
    columns' keys. None rounds nothing.
    """
    if scheme is not None:
        k = k - k.mean(0, dtype=np.float32) if scheme.smooth else k
        q, k = scheme.rounded(q), scheme.rounded(k)
    tiles = ((each[at : at + block] for each in (k, v)) for at in range(0, len(k), block))
    tiles = ((keys.astype(np.float64), values) for keys, values in tiles)

    def weighed(p: np.ndarray, values: np.ndarray) -> np.ndarray:
        if scheme is not None and scheme.all:
            p, values = scheme.rounded(p.astype(np.float32)), scheme.rounded(np.ascontiguousarray(values.T)).T
        return p.astype(np.float64) @ values.astype(np.float64)

    return streamed(q.astype(np.float64), tiles, v.shape[1], weighed)[0]


@lru_cache(maxsize=64)
def error(experiment: Experiment, scheme: Scheme, kind: str) -> float:
    """Root mean square error of O beside its root mean square; of TEXT in the mean over key heads."""
    if kind == TEXT:
        given = [(q[0, -ROWS:], k[-KEYS:], v[-KEYS:]) for q, k, v in text_heads()]
    else:
        given = [numbers(experiment, kind)]
    return float(np.mean([apart(attention(scheme, *each), attention(None, *each)) for each in given]))


def apart(found: np.ndarray, exact: np.ndarray) -> float:
    """Root mean square of a difference, over that of what is exact."""
    return float(np.sqrt(((found - exact) ** 2).mean() / (exact**2).mean()))


@lru_cache(maxsize=8)
def by_size(experiment: Experiment, scale: str) -> dict[int, float]:
    """The error of K itself, with outliers, in four bits, by the numbers that share a scale."""
    _, k, _ = numbers(experiment, OUTLIERS)
    return {size: apart(Scheme("", size, E2M1, scale).rounded(k), k) for size in SIZES}


@lru_cache(maxsize=8)
def by_magnitude(experiment: Experiment, scheme: Scheme) -> dict[float, float]:
    """The error of K itself, by what it is multiplied by."""
    _, k, _ = numbers(experiment, DRAWN)
    larger = {times: k * np.float32(times) for times in MAGNITUDES}
    return {times: apart(scheme.rounded(each), each) for times, each in larger.items()}


def tile_clocks(gpu: Gpu, times: int) -> tuple[float, float]:
    """Clocks of an SM for 128 x 128 scores, d 128: products, `times` as fast as 16 bits, exponentials."""
    rate = times * gpu.matrix_flops["bfloat16"] / gpu.sms / gpu.clock_hz
    return 4 * 128**3 / rate, 128**2 / gpu.exponentials_per_clock


def tile_gain(gpu: Gpu, times: int) -> float:
    """How many times as fast a tile is than in 16 bits where its products and exponentials overlap wholly."""
    return max(tile_clocks(gpu, 1)) / max(tile_clocks(gpu, times))


@lru_cache(maxsize=8)
def sample(experiment: Experiment) -> tuple[np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """SAMPLE numbers of a row of K that has an outlier; by scheme as they come back, and their scales."""
    _, k, _ = numbers(experiment, OUTLIERS)
    some = k[:, : min(SAMPLE, k.shape[1])]
    row = int(np.argmax(np.abs(some).max(1)))
    found = {scheme.name: scheme.kept(k) for scheme in SCHEMES}
    cut = {name: (kept * scales, scales) for name, (kept, scales) in found.items()}
    return some[row], {name: tuple(each[row, : some.shape[1]] for each in both) for name, both in cut.items()}


FP8_ROWS = 256
ROTATED = "scales by block, rotated"
SCALED = {  # of how many numbers each has its scale
    "one scale per tensor": Scheme("", 0, E4M3, "float32"),
    "scales by block": Scheme("", -1, E4M3, "float32"),
    ROTATED: Scheme("", -1, E4M3, "float32"),
}


def head_errors(experiment: Experiment) -> dict[str, dict[str, float]]:
    """By whose numbers, and by how they are scaled: the error of O over O, both root mean squares.

    Of the last rows of the scenario's first head under its mask, and of normal numbers of its shape, without
    and with one in a thousand that is ten times as wide; Q, K, V and the weights rounded, and nothing else.
    """
    keys = min(experiment.problem.seq_kv, KEYS)
    one = experiment.changed(
        batch=1, heads=1, kv_heads=1, seq=min(experiment.problem.seq_q, keys), seq_kv=keys
    )
    head = [array[0] for array in make_inputs(one.problem)]
    draw = np.random.Generator(np.random.PCG64(2))
    normal = [draw.standard_normal(array.shape, np.float32) for array in head]
    outliers = [np.where(draw.random(array.shape) < 1 / RARE, WIDE * array, array) for array in normal]
    turn = np.linalg.qr(draw.standard_normal((one.problem.head_dim,) * 2))[0].astype(np.float32)
    rows = np.arange(one.problem.seq_q)[-FP8_ROWS:]
    return {
        name: {scaled: _head_error(one, numbers, rows, scheme, turn if scaled == ROTATED else None)
               for scaled, scheme in SCALED.items()}
        for name, numbers in (("this head", head), ("normal", normal), ("with outliers", outliers))
    }  # fmt: skip


def _head_error(one: Experiment, numbers: list, rows: np.ndarray, scheme: Scheme, turn) -> float:
    q, k, v = numbers
    turned = (q, k) if turn is None else (q @ turn, k @ turn)
    small = [scheme.rounded(np.ascontiguousarray(each)) for each in (*turned, v)]
    exact, found = (
        _over(masked_scores(one, a, b, rows), c, of) for a, b, c, of in ((q, k, v, None), (*small, E4M3))
    )
    return apart(found, exact)


def _over(scores: np.ndarray, v: np.ndarray, of: Format | None) -> np.ndarray:
    """[rows, d of V] O of rows of scores that see a key, their weights rounded relative to the largest."""
    scores = scores[np.isfinite(scores).any(1), : len(v)].astype(np.float64)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    rounded = weights if of is None else of.rounded((weights * of.largest).astype(np.float32)) / of.largest
    return rounded @ v / weights.sum(1, keepdims=True)


def recorded_fp8(recording: Recording | None, experiment: Experiment) -> tuple[Fp8Timing, ...]:
    """Recorded attention in float16 and FP8, of the timed problem nearest to the scenario; empty if none."""
    rows = [row for row in recording.fp8 if row.times] if recording else []
    row = nearest(rows, experiment, differing(masked), WIDTH, doublings(length))
    return tuple(each for each in rows if each.problem == row.problem)

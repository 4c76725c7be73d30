"""Claims about what grows with the length, and how fast."""

from __future__ import annotations

from itertools import pairwise
from math import log2

from engine.experiment import Experiment
from engine.model.footprint import memory_bytes
from engine.model.simulation import simulate
from engine.problem.hardware import GPUS
from engine.recordings.recording import Counters, Recording
from engine.schedule.step import Tensor
from engine.studies.claims import recorded, sources
from engine.studies.claims.verdict import (
    COMPUTED,
    COUNTED,
    DATASHEET,
    DEPENDS,
    PARTLY,
    RIGHT,
    WRONG,
    Claim,
    Finding,
    over,
    said,
)

LONG = Experiment.of(algorithm="flash2", heads=1, seq=65_536, head_dim=128, block_q=128, block_kv=64)
UNFUSED = Experiment.of(algorithm="standard", seq=2048, batch=8, heads=16, head_dim=128, block_q=128)
BLOCK_OF = {"flash1": "version 1", "flash2": "version 2"}
MATRIX_TOKENS = 131_072


def _exponent(values: dict[int, float]) -> list[float]:
    """Of each pair of neighbouring lengths: log of what grows over log of the length."""
    return [log2(values[b] / values[a]) / log2(b / a) for a, b in pairwise(sorted(values))]


def _hbm(recording: Recording | None) -> tuple[Finding, ...]:
    """Of version 2's DRAM reads for one head without a mask, by how much of L2 its K and V take."""
    room = GPUS["h200"].l2_effective_bytes
    below, above = {}, {}
    for row in recorded.unmasked(recording, "flash2", 128):
        taken = 2 * row.problem.seq_kv * 128 * row.problem.itemsize
        (below if taken < room / 2 else above)[row.problem.seq_kv] = _dram_of_a_head(row)
    asked = [simulate(LONG.changed(seq=n, seq_kv=n)).traffic.requested.total for n in (32_768, 65_536)]
    said_of = recorded.origin(recording)
    return (
        over(
            "exponent of N of DRAM reads, K and V in L2",
            "",
            (1, 1),
            _exponent(below),
            _lengths(below),
            said_of,
        ),
        over(
            "exponent of N of DRAM reads, beyond L2", "", (1, 1), _exponent(above), _lengths(above), said_of
        ),
        Finding("exponent of what the tiles request from L2", "", None, log2(asked[1] / asked[0]), COUNTED),
    )


def _lengths(values: dict[int, float]) -> str:
    return f"N of {min(values):,} to {max(values):,}" if values else "N"


def _dram_of_a_head(row: Counters) -> float:
    return row.total("dram_read") / row.problem.heads


def _output(_: Recording | None) -> tuple[Finding, ...]:
    def written(version: str, length: int) -> int:
        sized = LONG.changed(algorithm=version, seq=length, seq_kv=length)
        return simulate(sized).traffic.requested.written[Tensor.O]

    return tuple(
        said(
            f"exponent of N of the bytes of O that {label} writes",
            "",
            2,
            log2(written(version, 2**14) / written(version, 2**13)),
            COUNTED,
            decides=True,
        )
        for version, label in BLOCK_OF.items()
    )


def _memory(_: Recording | None) -> tuple[Finding, ...]:
    def exponent(head_dim: int, heads: int) -> float:
        sized = [
            LONG.changed(seq=n, seq_kv=n, head_dim=head_dim, heads=heads, kv_heads=heads)
            for n in (2**13, 2**14)
        ]
        return log2(memory_bytes(sized[1]) / memory_bytes(sized[0]))

    values = [exponent(head_dim, heads) for head_dim in (64, 128) for heads in (1, 32)]
    what = "exponent of N of the memory that attention's tensors take"
    return (over(what, "", (0, 0.9), values, "d and heads", COMPUTED, decides=True),)


def _slower(recording: Recording | None) -> tuple[Finding, ...]:
    def exponents(head_dim: int) -> list[float]:
        rates = recorded.rates(recording, recorded.UNFUSED, head_dim)
        return [-each for each in _exponent({keys: rate / keys for keys, rate in rates.items()})]

    values = [each for head_dim in (64, 128, 256) for each in exponents(head_dim)]
    what = "exponent of 1 / N of unfused tokens per second"
    shapes = "neighbouring lengths, d of 64 to 256"
    return (over(what, "", (1, 1), values, shapes, recorded.origin(recording)),)


def _larger(_: Recording | None) -> tuple[Finding, ...]:
    def share(itemsize: int) -> float:
        need = MATRIX_TOKENS**2 * itemsize
        return 100 * sum(gpu.memory_bytes < need for gpu in GPUS.values()) / len(GPUS)

    size = MATRIX_TOKENS**2 * 4 / 2**30
    return (
        said("N² × 4 bytes, N = 131,072", "GiB", 64, size, COMPUTED),
        over(
            "GPUs here that have less memory",
            "%",
            (50, 100),
            (share(4), share(2)),
            "4 or 2 bytes per number",
            DATASHEET,
            tolerance=0.0,
        ),
    )


def _room(_: Recording | None) -> tuple[Finding, ...]:
    gpus = [gpu for gpu in GPUS.values() if gpu.name.startswith("A100")]
    sizes = [gpu.memory_bytes for gpu in gpus]
    return (over("memory of an A100", "B", (40e9, 40e9), sizes, "its two versions", DATASHEET),)


def _throughput_of_small(recording: Recording | None) -> tuple[Finding, ...]:
    rows = [row for row in recorded.unmasked(recording, "flash2", 128) if row.problem.batch == 1]
    busy = [recorded.active(row) for row in rows]
    first = Experiment.of(heads=1, seq=1024, head_dim=128, block_q=128)
    blocks = simulate(first).footprint.blocks
    return (
        over(
            "time in which SMs work, batch 1",
            "%",
            (0, 90),
            busy,
            "1 to 64 heads, N of 512 to 128k",
            recorded.origin(recording),
            tolerance=0.0,
        ),
        Finding("SMs with a block, 1 head of N = 1,024", "%", None, 100 * blocks / first.gpu.sms, COUNTED),
    )


CLAIMS = (
    Claim(
        22,
        sources.CODE,
        "Flash attention accesses HBM O(N) times.",
        r"\text{DRAM bytes} \propto N^{\,x}",
        "bytes",
        LONG,
        _hbm,
        {
            PARTLY: "This is right as long as K and V of the heads in flight fit L2: then each byte comes "
            "once. Beyond, every wave of blocks fetches them again, and the bytes grow faster; what the "
            "tiles request of L2 grows with N² at any length.",
            RIGHT: "This is how it was recorded.",
        },
    ),
    Claim(
        31,
        sources.CODE,
        "Very small batches cannot keep the SMs busy.",
        r"\left\lceil N / B_r \right\rceil \cdot \text{heads} \cdot \text{batch} \ \text{against}\ 132",
        "time",
        Experiment.of(algorithm="flash2", heads=16, seq=512, head_dim=128, block_q=128),
        _throughput_of_small,
        {
            DEPENDS: "It depends on heads times length, not on the batch: since version 2 every query block "
            "has a thread block of its own. One sequence of one head fills 132 SMs from some 17,000 tokens "
            "on.",
        },
    ),
    Claim(
        33,
        sources.CONTEXT,
        "Standard attention's throughput falls linearly with the length.",
        r"\text{tokens/s} \propto \frac{1}{N^{\,x}}",
        "time",
        UNFUSED,
        _slower,
        {
            DEPENDS: "On the whole tokens per second fall as 1 / N, because each looks at N others; from one "
            "length to the next it was recorded slower and faster than that, as S leaves the caches and as "
            "PyTorch takes other kernels.",
            RIGHT: "This is how it was recorded.",
        },
    ),
    Claim(
        37,
        sources.AWARE,
        "Writing the output costs O(N²).",
        r"\text{bytes of } O \propto N^{\,x}",
        "bytes",
        LONG.changed(seq=2**14, seq_kv=2**14),
        _output,
        {
            PARTLY: "This is so in version 1 alone, whose loop writes O once per key block. In version 2 O "
            "is written once, N d numbers.",
        },
    ),
    Claim(
        38,
        sources.AWARE,
        "Flash attention's memory is sublinear in the length.",
        r"\text{bytes} \propto N^{\,x}, \quad x < 1",
        "bytes",
        LONG,
        _memory,
        {
            WRONG: "It is linear: Q, K, V and O have N rows each. What is smaller than the matrix is not "
            "smaller than the input.",
        },
    ),
    Claim(
        39,
        sources.AWARE,
        "A GPU's HBM has 40 GB.",
        r"40\ \text{GB}",
        "bytes",
        LONG.changed(hardware="a100-40gb"),
        _room,
        {
            PARTLY: "An A100 has it in its first version.",
            DEPENDS: "An A100 has 40 GB or 80 GB; later ones more.",
        },
    ),
    Claim(
        44,
        sources.LENGTHS,
        "The matrix of 128K tokens takes 64 GB, more memory than most GPUs have.",
        r"N^2 \cdot 4\ \text{bytes}",
        "bytes",
        Experiment.of(algorithm="standard", heads=1, seq=MATRIX_TOKENS, head_dim=128, dtype="float32"),
        _larger,
        {
            RIGHT: "This holds for more than half of the GPUs that this program knows.",
            DEPENDS: "It depends on the bytes per number: with 4 it is larger than the memory of most GPUs "
            "that this program knows, with the 2 of half precision of fewer than half of them.",
            PARTLY: "The size is right; most of the GPUs that this program knows have more.",
        },
    ),
)

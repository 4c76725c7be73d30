"""Claims about bytes: what is moved, what is kept, what fits."""

from __future__ import annotations

from math import log2

from engine.algorithms import flash1
from engine.experiment import Experiment
from engine.model.footprint import memory_bytes
from engine.model.simulation import simulate
from engine.problem.hardware import KIB, MIB
from engine.recordings.recording import Recording
from engine.studies.claims import recorded, sources
from engine.studies.claims.verdict import (
    COMPUTED,
    COUNTED,
    DATASHEET,
    DEPENDS,
    MODELLED,
    OFF,
    PARTLY,
    RIGHT,
    Claim,
    Finding,
    over,
    said,
    states,
)

GIB = 2**30
ONE_HEAD = Experiment.of(algorithm="flash2", heads=1, seq=4096, head_dim=128, block_q=128, block_kv=64)
HEADS = ONE_HEAD.changed(heads=32, kv_heads=32)
SQUARE_TILES = Experiment.of(heads=1, seq=4096, head_dim=128, block_q=128, block_kv=128, hardware="a100")


def _moved(recording: Recording | None) -> tuple[Finding, ...]:
    one = {name: simulate(ONE_HEAD.changed(algorithm=name)).traffic for name in ("standard", "flash2")}
    all_ = {name: simulate(HEADS.changed(algorithm=name)).traffic for name in ("standard", "flash2")}
    least = {name: traffic.compulsory.total for name, traffic in one.items()}
    dram = {name: _dram_of_a_head(recording, name) for name in one}
    said_of = recorded.origin(recording)
    return (
        said(
            "unfused, one head, each kernel's inputs and outputs once", "B", 139e6, least["standard"], COUNTED
        ),
        said("flash, one head, inputs and outputs once", "B", 4.2e6, least["flash2"], COUNTED),
        said("their ratio", "×", 33, least["standard"] / least["flash2"], COUNTED),
        said("unfused, 32 heads", "B", 4.4e9, all_["standard"].compulsory.total, COUNTED),
        said("flash, 32 heads", "B", 134e6, all_["flash2"].compulsory.total, COUNTED),
        said("unfused, one of the recorded heads, DRAM's counters", "B", 139e6, dram["standard"], said_of),
        said(
            "flash, one of the recorded heads, DRAM's counters",
            "B",
            4.2e6,
            dram["flash2"],
            said_of,
            tolerance=0.2,
        ),
        Finding(
            "flash, one head, what its tiles request from L2",
            "B",
            None,
            one["flash2"].requested.total,
            COUNTED,
        ),
    )


def _dram_of_a_head(recording: Recording | None, algorithm: str) -> float | None:
    """Bytes read and written, by the counters of a kernel with several heads."""
    row = recorded.counters(recording, algorithm, 4096, 128)
    return None if row is None else row.total("dram_bytes") / row.problem.heads


def _tiles(_: Recording | None) -> tuple[Finding, ...]:
    found = simulate(SQUARE_TILES).footprint
    sizes = {part.label: part.bytes for part in found.parts}
    return (
        said("a tile of Q, of K or of V", "KiB", 32, sizes["Q"] / KIB, COUNTED),
        said("the tile of S, summed in float32", "KiB", 32, sizes["S"] / KIB, COUNTED),
        said("the tile of O, summed in float32", "KiB", 32, sizes["O"] / KIB, COUNTED),
        said("all of them", "KiB", 160, found.sram_bytes / KIB, COUNTED),
        said("what an A100 gives a block", "KiB", 192, found.capacity_bytes / KIB, DATASHEET),
        states("all of them fit its shared memory", found.sram_bytes <= found.capacity_bytes, COUNTED),
        Finding("Q, K and V alone, as kernels have it", "KiB", None, found.shared_bytes / KIB, COUNTED),
    )


def _profiled(recording: Recording | None) -> tuple[Finding, ...]:
    """By each fused kernel that was counted, on the recorded heads, scaled to 32."""
    traffic = simulate(HEADS).traffic
    rows = [recorded.counters(recording, name, 4096, 128) for name in COUNTED_KERNELS]

    def by_dram(way: str) -> list[float]:
        return [32 / row.problem.heads * row.total(f"dram_{way}") for row in rows if row]

    def by_l2() -> list[float]:
        return [32 / row.problem.heads * row.total("tile_read") for row in rows if row]

    said_of, kernels = recorded.origin(recording), "4 kernels, 16 heads times 2"
    left = "DRAM written, without what stays in L2"
    return (
        said("compulsory reads, 32 heads", "B", 134e6, traffic.compulsory.total_read, COUNTED),
        said("compulsory writes, 32 heads", "B", 33e6, traffic.compulsory.total_written, COUNTED),
        over("DRAM read", "B", (134e6, 134e6), by_dram("read"), kernels, said_of),
        over(left, "B", (33e6, 33e6), by_dram("written"), kernels, said_of),
        over("read from L2, another counter", "B", None, by_l2(), kernels, said_of),
    )


COUNTED_KERNELS = ("flash2", "flash3", "sdpa_flash", "sdpa_cudnn")


def _matrix(length: int, itemsize: int) -> float:
    """Bytes of one N x N matrix."""
    return float(length) ** 2 * itemsize


def _long_matrix(_: Recording | None) -> tuple[Finding, ...]:
    return (
        said("N² numbers of 2 bytes, N = 100,000", "B", 40e9, _matrix(100_000, 2), COMPUTED),
        Finding("the same of 4 bytes, float32", "B", None, _matrix(100_000, 4), COMPUTED),
    )


def _one_matrix(_: Recording | None) -> tuple[Finding, ...]:
    return (said("N² numbers of 4 bytes, N = 4,096", "MiB", 64, _matrix(4096, 4) / MIB, COMPUTED),)


def _matrices(_: Recording | None) -> tuple[Finding, ...]:
    rows = ((4096, 64 * MIB), (32_768, 4 * GIB), (131_072, 64 * GIB))
    return tuple(
        said(f"N² × 4 bytes, N = {n:,}", "GiB", size / GIB, _matrix(n, 4) / GIB, COMPUTED) for n, size in rows
    )


def _halved(_: Recording | None) -> tuple[Finding, ...]:
    def ratio(kind: str, sized: Experiment) -> float:
        first, second = (
            getattr(simulate(sized.changed(algorithm=name)).traffic, kind).total for name in VERSIONS
        )
        return first / second

    blocks = [HEADS.changed(block_q=rows, block_kv=keys) for rows in SIZES for keys in SIZES]
    heads = [HEADS.changed(heads=count, kv_heads=count) for count in (1, 4, 16, 32, 64)]
    own = simulate(HEADS.changed(**BEST_OF_2)).traffic.requested.total
    return (
        over("requested", "×", (2, 2), (ratio("requested", each) for each in blocks), SIZE_WORDS, COUNTED),
        over("of DRAM", "×", (2, 2), (ratio("dram", each) for each in heads), "1 to 64 heads", MODELLED),
        said(
            "requested, version 1 as its authors' code was, version 2 in 128 × 64",
            "×",
            2,
            32 * flash1.paper_bytes(HEADS.problem) / own,
            COUNTED,
        ),
    )


VERSIONS = ("flash1", "flash2")
SIZES = (32, 64, 128, 256)
SIZE_WORDS = "blocks of 32 to 256"
BEST_OF_2 = {"block_q": 128, "block_kv": 64}
MEMORIES = tuple(2**power for power in (14, 15, 16))  # M, elements; doubled in turn


def _order(_: Recording | None) -> tuple[Finding, ...]:
    """Exponents of the counted bytes, from doubling one of N, d and M at a time, at several M."""

    def asked(version: str, seq: int, head_dim: int, elements: int) -> int:
        """M / 4 d rows of what stays, and of what passes as many, at most d: the paper's rule."""
        stay = elements // (4 * head_dim)
        sizes = {"flash1": (min(stay, head_dim), stay), "flash2": (stay, min(stay, head_dim))}[version]
        blocks = dict(zip(("block_q", "block_kv"), sizes, strict=True))
        sized = Experiment.of(algorithm=version, heads=1, seq=seq, head_dim=head_dim, **blocks)
        return simulate(sized).traffic.requested.total

    def exponents(what: str, claimed: float, sign: int, *doubled: int) -> Finding:
        values = [
            sign * log2(asked(version, 2**14 * doubled[0], 64 * doubled[1], memory * doubled[2]) / base)
            for version in VERSIONS
            for memory in MEMORIES
            if (base := asked(version, 2**14, 64, memory))
        ]
        return over(what, "", (claimed, claimed), values, "M of 32 to 128 KiB and versions 1 and 2", COUNTED)

    return (
        exponents("exponent of N", 2, 1, 2, 1, 1),
        exponents("exponent of 1 / M", 1, -1, 1, 1, 2),
        exponents("exponent of d", 1, 1, 1, 2, 1),
    )


def memory_saved(seq: int) -> float:
    """Per cent of the memory of attention's tensors that flash does without, head dimension 64."""
    sized = Experiment.of(seq=seq, head_dim=64)
    kept = [memory_bytes(sized.changed(algorithm=name)) for name in ("standard", "flash2")]
    return 100 * (1 - kept[1] / kept[0])


CLAIMS = (
    Claim(
        1,
        sources.CODE,
        "At N = 4,096, d = 128, fp16, unfused attention moves 139 MB per head and flash 4.2 MB, 33 times "
        "less; with 32 heads 4.4 GB against 134 MB.",
        r"2\,(4N^2 + 4Nd)\ \text{bytes} \quad\text{against}\quad 2 \cdot 4Nd",
        "bytes",
        ONE_HEAD,
        _moved,
        {
            RIGHT: "This holds for what passes DRAM, counted and by the chip's counters, which miss a little "
            "of O still in L2. The tiles request far more from L2: K and V once for every query block.",
            PARTLY: "This is right for what must pass DRAM once, but not by every counter.",
        },
    ),
    Claim(
        2,
        sources.CODE,
        "With blocks of 128 × 128 and d = 128 the tiles of Q, K, V, S and O take 32 KB each, 160 KB in all, "
        "which fits the 192 KB of an A100.",
        r"2 B_r d,\quad 2 B_c d,\quad 4 B_r B_c,\quad 4 B_r d\ \text{bytes}",
        "tiling",
        SQUARE_TILES,
        _tiles,
        {
            PARTLY: "This is right for Q, K and V. S and O are summed in float32, which is twice as large, "
            "and a thread block can use 163 KiB of an A100's 192 KiB, as the L1 cache keeps the rest. It "
            "runs nevertheless, because kernels keep S and O in registers.",
        },
    ),
    Claim(
        6,
        sources.CODE,
        "The profiler shows for batch 1, N = 4,096, 32 heads, d = 128: about 134 MB read, 33 MB written.",
        r"2 \cdot 3 H N d\ \text{read}, \quad 2 H N d\ \text{written}",
        "numbers",
        HEADS,
        _profiled,
        {
            PARTLY: "This is right for what must be written. Q, K and V are three tensors, and 134 MB is all "
            "four together.",
            OFF: "Q, K and V are three tensors, and 134 MB is what is read and written together.",
            DEPENDS: "It depends on the counter and on the kernel that is counted.",
        },
    ),
    Claim(
        7,
        sources.CONTEXT,
        "For 100k tokens the attention matrix takes about 40 GB in fp16.",
        r"N^2 \cdot 2\ \text{bytes}",
        "bytes",
        Experiment.of(algorithm="standard", heads=1, seq=100_000, head_dim=128),
        _long_matrix,
        {OFF: "40 GB is what float32 takes, with 4 bytes per number; fp16 has 2."},
    ),
    Claim(
        8,
        sources.CONTEXT,
        "FlashAttention-2 halves the HBM reads and writes of version 1.",
        r"\frac{2Nd + 3 T_c N d + 4 T_c N}{2Nd + 2 T_r N d + N} \approx \frac{3}{2} \cdot \frac{B_r}{B_c}",
        "bytes",
        HEADS,
        _halved,
        {
            DEPENDS: "It depends on the blocks, as the ratio is about 1.5 Br / Bc for what the tiles "
            "request. Of DRAM it depends on the heads: one alone stays in L2 in both versions, while O of "
            "many, which version 1 moves again and again, does not. The literal Algorithm 1 stands for "
            "version 1.",
        },
    ),
    Claim(
        11,
        sources.AWARE,
        "The matrix of 4,096 tokens takes 64 MB in fp32.",
        r"N^2 \cdot 4\ \text{bytes}",
        "bytes",
        ONE_HEAD.changed(algorithm="standard", dtype="float32"),
        _one_matrix,
        {RIGHT: "This holds for one head, with 1 MB = 2²⁰ bytes."},
    ),
    Claim(
        13,
        sources.AWARE,
        "Flash attention's traffic is of the order N² d / M.",
        r"\Theta\!\left(\frac{N^2 d^2}{M}\right)\ \text{(arXiv 2205.14135, theorem 2)}",
        "bytes",
        Experiment.of(seq=2**14, head_dim=64, block_q=128, block_kv=64),
        _order,
        {
            PARTLY: "This is right for N and M, whatever M is. It grows with d², because rows twice as long "
            "are also moved twice as often: half as many of them fit the chip.",
            DEPENDS: "It depends on how much of the chip the blocks take.",
        },
    ),
    Claim(
        19,
        sources.LENGTHS,
        "The matrix takes 64 MB for 4K tokens, 4 GB for 32K and 64 GB for 128K.",
        r"N^2 \cdot 4\ \text{bytes}",
        "bytes",
        Experiment.of(algorithm="standard", heads=1, seq=131_072, head_dim=128, dtype="float32"),
        _matrices,
        {RIGHT: "This holds for one head in float32, with powers of 1,024."},
    ),
)

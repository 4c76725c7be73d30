"""Claims about what was recorded of kernels, and about the libraries around them."""

from __future__ import annotations

from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.recordings.recording import Recording
from engine.studies.claims import recorded, sources
from engine.studies.claims.verdict import (
    COUNTED,
    DEPENDS,
    LOOKED_UP,
    MODELLED,
    PARTLY,
    RIGHT,
    UNKNOWN,
    WRONG,
    Claim,
    Finding,
    over,
    states,
)

ONE_HEAD = Experiment.of(algorithm="flash2", heads=1, seq=4096, head_dim=128, block_q=128, block_kv=64)
BLOCKS = (64, 128)
# whether a release of transformers has the method, as its source says: pull request 41367, "Remove
# BetterTransformer", of October 2025, is in 5.0 and not in 4.57. Nothing here can compute that.
HAS_METHOD = {"4.57": True, "5.0": False}


def _intensity(recording: Recording | None) -> tuple[Finding, ...]:
    def rise(kind: str, length: int) -> float:
        sized = ONE_HEAD.changed(seq=length, seq_kv=length)
        unfused, fused = (
            simulate(sized.changed(algorithm=name)).traffic.intensity(kind) for name in ("standard", "flash2")
        )
        return fused / unfused

    lengths = (1024, 4096, 16_384)
    rows = [recorded.counters(recording, name, 4096, 128) for name in ("standard", "flash2")]
    moved = None
    if None not in rows:
        moved = [row.total("dram_bytes") for row in rows]
    claimed, words = (30, 30), "N of 1k to 16k, d = 128"
    return (
        over("by DRAM bytes", "×", claimed, (rise("dram", n) for n in lengths), words, MODELLED),
        over("by bytes requested", "×", claimed, (rise("requested", n) for n in lengths), words, COUNTED),
        Finding(
            "by DRAM's counters, N = 4,096, without what stays in L2",
            "×",
            None,
            None if moved is None else moved[0] / moved[1],
            recorded.origin(recording),
        ),
    )


def _minimal(recording: Recording | None) -> tuple[Finding, ...]:
    """DRAM reads of both versions on the same recorded problems, in all blocks that were counted."""
    second, third = (recorded.dram_reads(recording, name) for name in ("flash2", "flash3"))
    both = second.keys() & third.keys()
    shares = [mine / other for problem in both for mine in third[problem] for other in second[problem]]
    what = "DRAM reads of version 3 over version 2"
    words = f"{len(both)} recorded problems and version 2's blocks"
    origin = recorded.origin(recording)
    # a counter that repeats within some per cent must not make "minimal" of 1.6% less
    return (over(what, "×", (0, 0.9), shares, words, origin, tolerance=0.05, decides=True),)


def _blocks(recording: Recording | None) -> tuple[Finding, ...]:
    best = [recorded.best_tiling(recording, "flash2", head_dim) for head_dim in (64, 128)]
    gains = [recorded.usual_over_best(recording, "flash2", head_dim, BLOCKS) for head_dim in (64, 128)]
    rows, keys = ([each and each[side] for each in best] for side in (0, 1))
    origin, words = recorded.origin(recording), "d of 64 and 128"
    return (
        over("query rows of the fastest blocks", "", BLOCKS, rows, words, origin, tolerance=0.0),
        over("their keys", "", BLOCKS, keys, words, origin, tolerance=0.0),
        over("fastest of 64 to 128 over fastest of all", "×", (1, 1), gains, words, origin, tolerance=0.02),
    )


def _picks(recording: Recording | None) -> tuple[Finding, ...]:
    """Each backend was asked for by name in recordings, so that they do not tell which is taken by itself."""
    origin = recorded.origin(recording)
    fastest = recorded.fastest_backend(recording)
    return (
        states("SDPA takes flash by itself", None, origin),
        Finding("recorded forward shapes in which flash is the fastest backend", "%", None, fastest, origin),
    )


def _better(_: Recording | None) -> tuple[Finding, ...]:
    return tuple(
        states(f"transformers {release} has to_bettertransformer", has, LOOKED_UP)
        for release, has in HAS_METHOD.items()
    )


CLAIMS = (
    Claim(
        30,
        sources.CODE,
        "Flash attention raises the arithmetic intensity 30 times.",
        r"\frac{\text{FLOPs / bytes of flash}}{\text{FLOPs / bytes of standard}}",
        "time",
        ONE_HEAD,
        _intensity,
        {
            DEPENDS: "It depends on the length and on which bytes: of DRAM it is about N / d + 1, which is "
            "33 at 4,096 tokens and d = 128; of what tiles request of L2 it is a few times.",
            PARTLY: "This is right for one length and the bytes of DRAM.",
        },
    ),
    Claim(
        32,
        sources.CONTEXT,
        "Version 3 has minimal HBM traffic, less than version 2.",
        r"\frac{\text{DRAM bytes of version 3}}{\text{DRAM bytes of version 2}} < 1",
        "bytes",
        Experiment.of(algorithm="flash3", heads=16, seq=4096, head_dim=128),
        _minimal,
        {
            WRONG: "It is as much as version 2's, and somewhat more where K and V of a head outgrow L2: "
            "version 3 makes better use of the SM, not of memory.",
            DEPENDS: "It depends on the mask, the length and the blocks. Where K and V of the heads under "
            "way fit L2, both versions read every byte once; beyond that now the one reads more, now the "
            "other. Version 3 makes better use of the SM, not of memory.",
        },
    ),
    Claim(
        40,
        sources.AWARE,
        "Blocks of 64 to 128 rows are best.",
        r"64 \le B_r, B_c \le 128",
        "time",
        Experiment.of(algorithm="flash2", seq=4096, head_dim=128, block_q=128, block_kv=128),
        _blocks,
        {
            RIGHT: "This is how it was recorded, in this project's kernel of version 2.",
            DEPENDS: "With d = 64 they are; with d = 128 blocks of 256 query rows were recorded some per "
            "cent faster. This is of this project's kernel of version 2.",
            PARTLY: "This is right for some head dimensions.",
        },
    ),
    Claim(
        42,
        sources.LENGTHS,
        "PyTorch's scaled_dot_product_attention takes flash attention by itself.",
        r"\text{softmax}\left(\tfrac{1}{\sqrt d}\, Q K^\top\right) V",
        "time",
        Experiment.of(algorithm="flash2", seq=4096, batch=4, heads=16, head_dim=128, block_q=128),
        _picks,
        {
            UNKNOWN: "Recordings ask for each backend by its name, so they do not tell which one PyTorch "
            "takes by itself. It has several fused ones, of which flash is seldom the fastest.",
        },
    ),
    Claim(
        43,
        sources.LENGTHS,
        "model.to_bettertransformer() switches flash attention on.",
        r"\text{transformers 4.57} \to \text{transformers 5.0}",
        "numbers",
        Experiment.of(algorithm="flash2", seq=4096, head_dim=128, block_q=128),
        _better,
        {
            PARTLY: "It was so in transformers 4, with Optimum. Version 5.0 removed the method: models take "
            "PyTorch's attention by themselves, or what attn_implementation names.",
        },
    ),
)

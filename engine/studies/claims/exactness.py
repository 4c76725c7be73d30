"""Claims about numbers: what is exact, what differs, and a bug."""

from __future__ import annotations

from math import inf

import numpy as np

from engine.experiment import Experiment
from engine.problem.inputs import make_inputs
from engine.recordings.recording import Recording
from engine.studies.claims import recorded, sources
from engine.studies.claims.broken import rising
from engine.studies.claims.verdict import (
    COMPUTED,
    COUNTED,
    DEPENDS,
    MODELLED,
    PARTLY,
    RIGHT,
    WRONG,
    Claim,
    Finding,
    over,
    states,
)
from engine.studies.recomputation import STORED, TWO_KERNELS, recomputation
from engine.trace.dense import exact_tiles
from engine.trace.forward import execute

SMALL = Experiment.of(algorithm="flash2", heads=1, seq=256, head_dim=64)
TRAINING = Experiment.of(algorithm="flash2", seq=4096, head_dim=128, block_q=128)
VARIANTS = {
    "sliding window of 64 keys": SMALL.changed(window=64),
    "cross-attention, 96 queries on 256 keys": SMALL.changed(seq=96),
}
ROUNDED = 2e-3  # of fp16 outputs of about 1


def _outputs(experiment: Experiment, *algorithms: str) -> list[np.ndarray]:
    """float64's O of one head, then each algorithm's, [seq_q, d]."""
    inputs = tuple(array[0] for array in make_inputs(experiment.problem))
    ran = [execute(experiment.changed(algorithm=name), *inputs).out for name in algorithms]
    return [exact_tiles(experiment, *inputs).out, *ran]


def _broken(_: Recording | None) -> tuple[Finding, ...]:
    course = rising()
    return (
        Finding(
            "error of O with its update, rising maxima",
            "error",
            (0, 1e-12),
            float(course.broken[-1]),
            COMPUTED,
        ),
        Finding("error with the earlier sum rescaled", "error", None, float(course.right[-1]), COMPUTED),
    )


def _identical(_: Recording | None) -> tuple[Finding, ...]:
    findings = []
    for dtype in ("float16", "bfloat16", "float32"):
        exact, unfused, flash = _outputs(SMALL.changed(dtype=dtype), "standard", "flash2")
        apart = float(np.abs(unfused - flash).max())
        findings.append(Finding(f"{dtype}: unfused − flash", "error", (0, 0), apart, COMPUTED, decides=True))
        for name, out in (("unfused", unfused), ("flash", flash)):
            error = float(np.abs(out - exact).max())
            findings.append(Finding(f"{dtype}: {name} − float64", "error", None, error, COMPUTED))
    return tuple(findings)


def _recomputed(_: Recording | None) -> tuple[Finding, ...]:
    sized = [
        TRAINING.changed(seq=seq, seq_kv=seq, block_q=rows, block_kv=keys)
        for seq in (128, 1024, 4096, 16_384)
        for rows, keys in ((32, 32), (128, 32), (64, 64), (32, 128), (128, 128))
    ]
    costs, choices = [recomputation(each) for each in sized], "N of 128 to 16k and blocks"
    kept, moved, flops = (
        [_ratio(getattr(each, name)) for each in costs] for name in ("kept", "moved", "flops")
    )
    return (
        over("memory kept for it, storing P over recomputing", "×", (1, inf), kept, choices, COMPUTED),
        over("DRAM bytes, storing P over recomputing", "×", (1, inf), moved, choices, MODELLED),
        Finding("FLOPs, this project's two kernels over storing P", "×", None, 1 / flops[0], COUNTED),
        Finding("FLOPs, the papers' one kernel over storing P", "×", None, 5 / 4, COUNTED),
    )


def _ratio(by_way: dict[str, int]) -> float:
    return by_way[STORED] / by_way[TWO_KERNELS]


def _same_kernel(recording: Recording | None) -> tuple[Finding, ...]:
    findings = []
    for name, experiment in VARIANTS.items():
        exact, flash = _outputs(experiment, "flash2")
        error = float(np.abs(flash - exact).max())
        findings.append(Finding(f"{name}: error beside float64", "error", (0, ROUNDED), error, COMPUTED))
    rows = () if recording is None else recording.counters
    windowed = any(row.provider == "flash2" and row.problem.mask.window and row.kernels for row in rows)
    ran = windowed if rows else None
    return (*findings, states("the same kernel ran with a window on a GPU", ran, recorded.origin(recording)))


CLAIMS = (
    Claim(
        4,
        sources.CODE,
        "To bring in a block, add P V exp(m_block − m_new) to O and leave what was accumulated before as it "
        "is.",
        r"O' = e^{\,m - m'}\, O + e^{\,m_\text{block} - m'}\, P V",
        "softmax",
        SMALL,
        _broken,
        {
            WRONG: "Without exp(m − m') the earlier blocks keep weights that were relative to a smaller "
            "maximum, so the more the maximum rises, the more they weigh.",
        },
    ),
    Claim(
        15,
        sources.AWARE,
        "Its outputs are bit-identical to standard attention's.",
        r"\max_{ij} \left| O^\text{standard}_{ij} - O^\text{flash}_{ij} \right| = 0",
        "numbers",
        SMALL,
        _identical,
        {
            WRONG: "Sums in another order round differently. Flash is exact in the sense that it computes "
            "the same function: as near to float64 in float32, and nearer in 16 bits, where unfused "
            "attention stores S and P rounded.",
            PARTLY: "They are equal in some data types on these numbers and not in others, because sums in "
            "another order round differently.",
        },
    ),
    Claim(
        16,
        sources.AWARE,
        "Recomputing in the backward pass beats storing the N × N matrix.",
        r"\text{FLOPs: } \tfrac{7}{4}, \qquad \text{kept: } 3 \cdot 4N\ \text{bytes instead of}\ 2N^2",
        "gradients",
        TRAINING.changed(algorithm="backward"),
        _recomputed,
        {
            RIGHT: "It saves memory and DRAM bytes at every length and in all blocks, at the cost of FLOPs, "
            "which a GPU has to spare. The unfused backward pass was not timed.",
            DEPENDS: "It saves memory; whether it saves DRAM bytes depends on the length and the blocks.",
        },
    ),
    Claim(
        21,
        sources.LENGTHS,
        "Sliding windows and cross-attention are variants of the same kernel.",
        r"i + N_k - N_q - W < j \le i + N_k - N_q",
        "masks",
        SMALL.changed(window=64),
        _same_kernel,
        {RIGHT: "The mask and the two lengths are loop bounds, and nothing else changes."},
    ),
)

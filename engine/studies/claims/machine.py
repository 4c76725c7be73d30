"""Claims about what an A100 does, and how much fits it."""

from __future__ import annotations

from math import inf

from engine.experiment import Experiment
from engine.model.footprint import largest_context, memory_bytes
from engine.model.simulation import simulate
from engine.problem.hardware import GPUS
from engine.recordings.recording import Recording
from engine.studies.claims import sources
from engine.studies.claims.verdict import (
    COMPUTED,
    DATASHEET,
    MODELLED,
    PARTLY,
    RIGHT,
    Claim,
    Finding,
    said,
    states,
)

A100 = GPUS["a100"]
NAMES = {"standard": "unfused", "flash1": "version 1", "flash2": "version 2"}
ON_A100 = Experiment.of(
    algorithm="flash2", heads=32, seq=4096, head_dim=128, block_q=128, block_kv=64, hardware="a100"
)
LONG = Experiment.of(
    algorithm="flash2", heads=16, seq=100_000, head_dim=128, block_q=128, block_kv=64, hardware="a100"
)


def _roofline(_: Recording | None) -> tuple[Finding, ...]:
    rows = (("standard", 2.8, 1.2e12), ("flash1", 89, 124e12), ("flash2", 102, 156e12))
    findings = []
    for name, intensity, rate in rows:
        found = simulate(ON_A100.changed(algorithm=name))
        findings.append(
            said(
                f"{NAMES[name]}: FLOPs per DRAM byte",
                "FLOP/B",
                intensity,
                found.traffic.intensity("dram"),
                MODELLED,
            )
        )
        findings.append(
            said(
                f"{NAMES[name]}: speed, 32 heads",
                "FLOP/s",
                rate,
                found.traffic.flops / found.modelled.seconds,
                MODELLED,
            )
        )
    peak = said("peak of an A100, fp16", "FLOP/s", 312e12, A100.matrix_flops["float16"], DATASHEET)
    return (*findings, peak)


def _contexts(_: Recording | None) -> tuple[Finding, ...]:
    rate = simulate(LONG).modelled.seconds
    most = {name: largest_context(LONG.changed(algorithm=name)) for name in ("standard", "flash1", "flash2")}
    unfused = LONG.changed(algorithm="standard")
    return (
        said("longest context of unfused attention, 16 heads", "tokens", 32_768, most["standard"], COMPUTED),
        Finding("of version 1", "tokens", (100_000, inf), most["flash1"], COMPUTED),
        said("of version 2", "tokens", 200_000, most["flash2"], COMPUTED),
        states("unfused attention runs 100k tokens at all", memory_bytes(unfused) <= A100.memory_bytes),
        states("version 3 runs on an A100", LONG.changed(algorithm="flash3").unserved is None),
        said(
            "tokens per second of version 2, one layer", "tokens/s", 500, LONG.problem.seq_q / rate, MODELLED
        ),
    )


def _a100(_: Recording | None) -> tuple[Finding, ...]:
    shared = A100.sms * A100.shared_bytes_sm
    return (
        said("matrix products, fp16", "FLOP/s", 312e12, A100.matrix_flops["float16"], DATASHEET),
        Finding("HBM", "B/s", (1.5e12, 2e12), A100.memory_bytes_per_second, DATASHEET),
        said(
            "shared memory, all SMs, 128 bytes per clock",
            "B/s",
            19e12,
            A100.shared_bytes_per_second,
            COMPUTED,
        ),
        said("shared memory of all SMs", "B", 20e6, shared, DATASHEET, tolerance=0.15),
    )


CLAIMS = (
    Claim(
        3,
        sources.CODE,
        "On an A100 unfused attention has 2.8 FLOP per byte and 1.2 TFLOP/s, flash 89 and 124, version 2 102 "
        "and 156; the peak is 312.",
        r"\frac{4N^2d}{\text{bytes}}, \qquad \min(\text{peak},\ \text{intensity} \cdot \text{bandwidth})",
        "time",
        ON_A100,
        _roofline,
        {
            PARTLY: "This is right for the peak and for version 2's speed as modelled. With S and P in HBM "
            "there are still 4 N² d FLOPs for 8 N² bytes, so d / 2 FLOP per byte and not 2.8.",
        },
    ),
    Claim(
        9,
        sources.CONTEXT,
        "On an A100 with 100k tokens: 120, 350, 500 and 750 tokens per second for unfused attention and "
        "versions 1, 2 and 3; the longest contexts in 80 GB are 32k, over 100k, 200k and 400k.",
        r"H\,(2 \cdot 2N^2 + 2 \cdot 4Nd) \le 80\ \text{GB}",
        "bytes",
        LONG,
        _contexts,
        {
            PARTLY: "It is right about unfused attention's longest context, and that flash goes beyond 100k. "
            "Unfused attention cannot run 100k at all, version 3 needs a Hopper GPU, and memory limits "
            "flash only at millions of tokens, so whatever was timed was a whole model.",
        },
    ),
    Claim(
        12,
        sources.AWARE,
        "An A100 has 312 TFLOP/s, 1.5 to 2 TB/s of HBM, and 20 MB of SRAM in all with 19 TB/s.",
        r"108 \cdot 164\ \text{KiB},\ \ 108 \cdot 128\,\tfrac{\text{B}}{\text{clock}} \cdot 1.41\ \text{GHz}",
        "time",
        ON_A100,
        _a100,
        {RIGHT: "20 MB counts all 192 KiB per SM; only 164 KiB of that can be used as shared memory."},
    ),
)

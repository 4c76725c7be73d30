"""Claims about what an A100 does, and how much fits it."""

from __future__ import annotations

from math import inf

from engine.algorithms import flash1
from engine.experiment import Experiment
from engine.model.footprint import largest_context
from engine.model.simulation import simulate
from engine.problem.hardware import GPUS
from engine.recordings.recording import Recording
from engine.schedule.step import matrix_flops
from engine.studies.claims import sources
from engine.studies.claims.verdict import (
    COMPUTED,
    COUNTED,
    DATASHEET,
    DEPENDS,
    MODELLED,
    PARTLY,
    RIGHT,
    Claim,
    Finding,
    over,
    said,
    states,
)

A100 = GPUS["a100"]
ON_A100 = Experiment.of(
    algorithm="flash2", heads=32, seq=4096, head_dim=128, block_q=128, block_kv=64, hardware="a100"
)
LONG = Experiment.of(
    algorithm="flash2", heads=16, seq=100_000, head_dim=128, block_q=128, block_kv=64, hardware="a100"
)


def _roofline(_: Recording | None) -> tuple[Finding, ...]:
    findings = []
    for name, label, intensity, rate in (
        ("standard", "unfused", 2.8, 1.2e12),
        ("flash2", "version 2", 102, 156e12),
    ):
        found = simulate(ON_A100.changed(algorithm=name))
        dram = found.traffic.intensity("dram")
        speed = found.traffic.flops / found.modelled.seconds
        findings.append(said(f"{label}: FLOPs per DRAM byte", "FLOP/B", intensity, dram, MODELLED))
        findings.append(said(f"{label}: speed, 32 heads", "FLOP/s", rate, speed, MODELLED))
    problem = ON_A100.problem
    asked = matrix_flops(problem).of(4096, 4096) * 2 / flash1.paper_bytes(problem)
    return (
        *findings,
        Finding("version 1 in its authors' code: FLOPs per byte requested", "FLOP/B", None, asked, COUNTED),
        said("peak of an A100, fp16", "FLOP/s", 312e12, A100.matrix_flops["float16"], DATASHEET),
    )


def _contexts(_: Recording | None) -> tuple[Finding, ...]:
    def longest(name: str) -> list[int]:
        sized = (LONG.changed(algorithm=name, heads=heads, kv_heads=heads) for heads in (8, 16, 32, 64))
        return [largest_context(each) for each in sized]

    def rate(heads: int, layers: int) -> float:
        sized = LONG.changed(heads=heads, kv_heads=heads)
        return LONG.problem.seq_q / simulate(sized).modelled.seconds / layers

    heads, unfused = "8 to 64 heads", longest("standard")
    rates = [rate(heads, layers) for heads in (8, 16, 32, 64, 96) for layers in (1, 12, 32, 96)]
    return (
        over("longest context, unfused", "tokens", (32_768, 32_768), unfused, heads, COMPUTED),
        over("of version 1", "tokens", (100_000, inf), longest("flash1"), heads, COMPUTED),
        over("of version 2", "tokens", (200_000, 200_000), longest("flash2"), heads, COMPUTED),
        states("unfused attention runs 100k tokens with 8 heads or more", max(unfused) >= 100_000),
        over(
            "tokens per second of version 2's attention",
            "tokens/s",
            (500, 500),
            rates,
            "8 to 96 heads, 1 to 96 layers",
            MODELLED,
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
            PARTLY: "This is right for the peak and for version 2's speed as modelled, which was never "
            "checked on an A100. With S and P in HBM there are still 4 N² d FLOPs for 8 N² bytes, so d / 2 "
            "FLOP per byte and not 2.8. Version 1's 124 TFLOP/s are not judged: this project's kernel of "
            "Algorithm 1 is not what its paper measured.",
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
            DEPENDS: "It depends on the heads and layers, which are not told. Unfused attention's longest "
            "context is right for some 20 heads, and flash goes beyond 100k. Unfused attention has room for "
            "100k with one head or two, memory limits flash only at a million tokens and more, and version 3 "
            "is written for Hopper GPUs, so whatever was timed was a whole model.",
            PARTLY: "It is right about unfused attention's longest context, and that flash goes beyond 100k.",
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

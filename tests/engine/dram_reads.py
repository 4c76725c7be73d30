"""Bytes that DRAM delivered to calls that stand in no recording: `dram_reads.txt` says how it is read."""

from __future__ import annotations

from pathlib import Path

from engine import Experiment

COUNTED: dict[str, list[str]] = {}  # by set: lines of the file
for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
    if line.startswith("["):
        COUNTED[line[1:-1]] = found = []
    elif line and not line.startswith("#"):
        found.append(line)


def counted(name: str) -> list[tuple[Experiment, list[float]]]:
    """Every call of a set, and the bytes that each reading of it found."""
    return [
        _call(kernel.split(), *call.split())
        for line in COUNTED[name]
        for kernel, calls in [line.split(":")]
        for call in calls.split(";")
    ]


def _call(kernel: list[str], heads: str, kv_heads: str, length: str, *read: str):
    hardware, algorithm, head_dim, blocks, mask, batch = kernel
    seq, _, seq_kv = length.partition("x")
    one = Experiment.of(
        algorithm=algorithm, hardware=hardware, head_dim=int(head_dim), causal=mask == "causal",
        batch=int(batch), heads=int(heads), kv_heads=int(kv_heads), seq=int(seq), seq_kv=int(seq_kv or seq),
    )  # fmt: skip
    block_q, _, block_kv = blocks.partition("x")
    one = one.in_own_tiling() if blocks == "own" else one.changed(block_q=block_q, block_kv=block_kv)
    return one, [1e6 * float(each) for each in read]

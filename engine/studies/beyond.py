"""What the page Beyond chooses from, and what a GPU was recorded to take of it."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from engine.problem.gpu import Gpu
from engine.root import ROOT

LATENTS, KEYS, BITS, STATE = "latents", "keys", "bits", "state"
TOPICS = (LATENTS, KEYS, BITS, STATE)
CHOICES = {"topic": (TOPICS, LATENTS)}  # what the page may ask, and what it usually does
FILE = ROOT / "assets" / "recordings" / "beyond" / "h200.json"


@dataclass(frozen=True)
class Cost:
    """What a call keeps of the tokens, moves of HBM, and computes: bytes, bytes, and FLOPs."""

    kept: int
    moved: int
    flops: int

    def seconds(self, gpu: Gpu) -> float:
        """At best: bytes at the memory's peak, or FLOPs at that of bfloat16, by the data sheet."""
        return max(self.moved / gpu.memory_bytes_per_second, self.flops / gpu.matrix_flops["bfloat16"])


@dataclass(frozen=True)
class Recorded:
    """What `python -m engine bench-kernels --beyond` wrote.

    Attributes:
        gpu, origin: its name; the name with the day.
        problem: heads, key heads, head dimension, and keys that a query visits.
        selected, latents: rows with shapes, and seconds of each call by name.
    """

    gpu: str
    origin: str
    problem: dict[str, Any]
    selected: list[dict[str, Any]]
    latents: list[dict[str, Any]]

    def prompts(self) -> dict[int, list[dict[str, Any]]]:
        """Rows over the length, by the queries that choose together."""
        whole = [row for row in self.selected if row["seq_q"] > 1 and row["block_kv"] == 64]
        return {count: [row for row in whole if row["block_q"] == count] for count in (1, 64)}

    def pieces(self) -> dict[int, float]:
        """Seconds of as many keys in blocks of several sizes, chosen by every query of one length."""
        length = next(row["seq_kv"] for row in self.selected if row["block_kv"] == 16)
        rows = [row for row in self.selected if row["seq_q"] == length and row["block_q"] == 1]
        return {
            row["block_kv"]: row["selected"]["p50"] for row in sorted(rows, key=lambda row: row["block_kv"])
        }

    def decoded(self) -> list[dict[str, Any]]:
        """Rows of one query a sequence."""
        return [row for row in self.selected if row["seq_q"] == 1]


@lru_cache(maxsize=1)
def recorded() -> Recorded:
    """The recording that comes along."""
    found = json.loads(FILE.read_text("utf-8"))
    device = found["device"]
    gpu = device["gpu"].removeprefix("NVIDIA ")
    return Recorded(
        gpu, f"{gpu}, {device['date'][:10]}", *(found[name] for name in ("problem", "selected", "latents"))
    )

"""What the page Beyond chooses from, and what a GPU was recorded to take of it."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from engine.problem.gpu import Gpu
from engine.root import ROOT
from engine.small.model import small
from engine.small.tokens import BEGIN

LATENTS, KEYS, BITS, STATE = "latents", "keys", "bits", "state"
TOPICS = (LATENTS, KEYS, BITS, STATE)
CHOICES = {"topic": (TOPICS, LATENTS)}  # what the page may ask, and what it usually does
CARD = ROOT / "assets" / "heads" / "small.json"
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


@lru_cache(maxsize=1)
def text_heads() -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]:
    """q [heads, tokens, d], scaled, and k and v [tokens, d] of key heads of the small model, on a passage.

    Of its layers that see all tokens before, each key head with the query heads that share it.
    """
    model = small()
    passage = json.loads(CARD.read_text("utf-8"))["passage"]
    found = []
    for layer, (q, k, v) in enumerate(model.run([BEGIN, *passage])[1]):
        if model.shape.window_of(layer) is None:
            group, scale = len(q) // len(k), np.float32(q.shape[2] ** -0.5)
            found += [(q[n * group : (n + 1) * group] * scale, k[n], v[n]) for n in range(len(k))]
    return tuple(found)


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

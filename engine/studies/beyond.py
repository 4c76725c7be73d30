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
    """Key heads of the model's full layers on a passage: q [heads, tokens, d], scaled, k, v [tokens, d]."""
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
    """What `python -m engine bench-kernels --beyond` wrote: rows of shapes, and seconds of calls by name."""

    origin: str  # the GPU's name with the day
    problem: dict[str, Any]  # heads, key heads, head dimension, and keys that a query visits
    prompts: dict[int, list[dict[str, Any]]]  # rows over the length, by the queries that choose together
    # of one length, whose every query chooses as many keys in blocks of several sizes
    pieces: list[dict[str, Any]]
    # decoded, latents: rows of one query a sequence
    decoded: list[dict[str, Any]]
    latents: list[dict[str, Any]]


@lru_cache(maxsize=1)
def recorded() -> Recorded:
    found = json.loads(FILE.read_text("utf-8"))
    origin = f"{found['device']['gpu'].removeprefix('NVIDIA ')}, {found['device']['date'][:10]}"
    rows, one = found["selected"], [row for row in found["selected"] if row["block_q"] == 1]
    whole = [row for row in rows if row["seq_q"] > 1 and row["block_kv"] == 64]
    prompts = {count: [row for row in whole if row["block_q"] == count] for count in (1, 64)}
    length = next(row["seq_q"] for row in one if row["block_kv"] == 16)
    pieces = sorted((row for row in one if row["seq_q"] == length), key=lambda row: row["block_kv"])
    decoded = [row for row in rows if row["seq_q"] == 1]
    return Recorded(origin, found["problem"], prompts, pieces, decoded, found["latents"])

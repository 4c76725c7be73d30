"""The model's forward pass in NumPy: grouped heads, rotary positions, a gated MLP, some windows."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

from engine.root import ROOT
from engine.small import tensor_file
from engine.small.tokens import Tokens

FILE = ROOT / "assets" / "heads" / "small.safetensors"
MOST_TYPED, MOST_CHARACTERS = 256, 4096  # tokens, and characters, of a text that is typed
EPSILON = 1e-5


@dataclass(frozen=True)
class Shape:
    """Sizes of the model; odd layers see everything, even ones their window."""

    layers: int = 6
    width: int = 160
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    hidden: int = 352
    window: int = 128
    context: int = 1024
    vocabulary: int = 1024
    base: float = 10000.0

    def window_of(self, layer: int) -> int | None:
        """Keys that a query of a layer sees, its own included; None: all before."""
        return None if layer % 2 else self.window

    def matrices(self) -> dict[str, tuple[int, ...]]:
        """Every tensor's shape, by name."""
        qkv = (self.heads + 2 * self.kv_heads) * self.head_dim
        found: dict[str, tuple[int, ...]] = {"words": (self.vocabulary, self.width), "norm": (self.width,)}
        for layer in range(self.layers):
            found |= {
                f"{layer}.norm attention": (self.width,), f"{layer}.qkv": (qkv, self.width),
                f"{layer}.qkv bias": (qkv,),
                f"{layer}.o": (self.width, self.heads * self.head_dim), f"{layer}.norm mlp": (self.width,),
                f"{layer}.up": (2 * self.hidden, self.width), f"{layer}.down": (self.width, self.hidden),
            }  # fmt: skip
        return found


@dataclass(frozen=True, eq=False)
class SmallModel:
    shape: Shape
    weights: dict[str, np.ndarray]
    tokens: Tokens

    def run(self, tokens: list[int]) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
        """Logits [tokens, vocabulary]; of each layer q [heads, tokens, d], k and v [kv_heads, tokens, d]."""
        shape, kept = self.shape, []
        x = self.weights["words"][tokens]
        for layer in range(shape.layers):
            q, k, v = self._projected(layer, _normed(x, self.weights[f"{layer}.norm attention"]))
            kept.append((q, k, v))
            out = weights_of(q, k, shape.window_of(layer)) @ v.repeat(len(q) // len(v), 0)
            x = x + out.swapaxes(0, 1).reshape(len(tokens), -1) @ self.weights[f"{layer}.o"].T
            gate, up = np.split(
                _normed(x, self.weights[f"{layer}.norm mlp"]) @ self.weights[f"{layer}.up"].T, 2, axis=1
            )
            x = x + (gate / (1 + np.exp(-gate)) * up) @ self.weights[f"{layer}.down"].T
        return _normed(x, self.weights["norm"]) @ self.weights["words"].T, kept

    def _projected(self, layer: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shape = self.shape
        qkv = x @ self.weights[f"{layer}.qkv"].T + self.weights[f"{layer}.qkv bias"]
        parts = qkv.reshape(len(x), -1, shape.head_dim).swapaxes(0, 1)
        q, k, v = np.split(parts, [shape.heads, shape.heads + shape.kv_heads])
        return rotated(q, shape.base), rotated(k, shape.base), v

    def packed(self) -> bytes:
        """As a file, its numbers in 16 bits."""
        said = {"shape": json.dumps(asdict(self.shape)), "merges": json.dumps(self.tokens.merges)}
        halves = {name: array.astype(np.float16) for name, array in self.weights.items()}
        return tensor_file.written(halves, said)


def unpacked(file: bytes) -> SmallModel:
    arrays, said = tensor_file.read(file)
    tokens = Tokens(tuple(tuple(pair) for pair in json.loads(said["merges"])))
    weights = {name: array.astype(np.float32) for name, array in arrays.items()}
    return SmallModel(Shape(**json.loads(said["shape"])), weights, tokens)


@lru_cache(maxsize=1)
def small() -> SmallModel:
    return unpacked(FILE.read_bytes())


@lru_cache(maxsize=8)
def layers_of(text: str) -> tuple[tuple[str, ...], list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """The tokens of a text, and q, k and v of every layer on it, see `run`; raises ValueError."""
    model = small()
    many = len(text) if text.strip() else 0
    if not 1 <= many <= MOST_CHARACTERS:
        must = f"it must have 1 to {MOST_CHARACTERS:,}, not only spaces"
        raise ValueError(f"The text has {many:,} characters; {must}")
    tokens = model.tokens.encoded(text)
    if len(tokens) > MOST_TYPED:
        raise ValueError(f"The text has {len(tokens):,} tokens; it must have at most {MOST_TYPED}")
    return tuple(map(model.tokens.text, tokens)), model.run(tokens)[1]


def _normed(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPSILON)) * weight


def rotated(x: np.ndarray, base: float, first: int = 0) -> np.ndarray:
    """[heads, tokens, d] turned by their positions from `first`, the first half of d against the second."""
    half = x.shape[-1] // 2
    angles = (first + np.arange(x.shape[1]))[:, None] * base ** (-np.arange(half) / half)
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def weights_of(q: np.ndarray, k: np.ndarray, window: int | None) -> np.ndarray:
    """[heads, tokens, tokens] what each query takes of each key."""
    places = np.arange(q.shape[1])
    distance = places[:, None] - places
    seen = (distance >= 0) & (distance < (window or len(places)))
    scores = q @ k.repeat(len(q) // len(k), 0).swapaxes(1, 2) * np.float32(q.shape[-1] ** -0.5)
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)

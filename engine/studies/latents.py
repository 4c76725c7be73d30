"""Attention over a latent (MLA): what is cached, what is projected when, and what each way costs.

DeepSeek-V2, arXiv 2405.04434, section 2.1: K and V of all heads are made from one latent of a token, and 64
rotated numbers that all heads share stand apart from it. `heads` caches K and V of every head. `projected`
caches the latent and makes K and V of all cached tokens again in each call. `absorbed` brings the queries
into the latent's space instead, and O out of it, so that the latent itself is K, and V without its last
columns.

What the three ways share is left out of all: Q, the projection of new tokens into the latent, that of O, and
the weights, which a batch of sequences reads once.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf

import numpy as np

from engine.problem.gpu import Gpu
from engine.small.model import rotated
from engine.studies.beyond import Cost
from engine.trace.memory import Counted, Memory, memory_of, streamed

HEADS, PROJECTED, ABSORBED, GROUPS = "heads", "projected", "absorbed", "groups"
LONG = 2**30  # keys, beside which what one query takes does not count
WAYS = (HEADS, PROJECTED, ABSORBED)
BYTES = 2  # of a number, bfloat16
ROTARY_BASE = 10000.0  # of the angles that positions turn by, arXiv 2104.09864
GROUPED_DIM = 128  # of grouped heads that are set beside it
QUERIES = tuple(2**power for power in range(13))
HEADS_DRAWN = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Sizes:
    """Those of DeepSeek-V2 and V3, unless given."""

    heads: int = 128  # of Q
    # latent, rotary: numbers that are cached of a token: its latent, and those rotated by its position
    latent: int = 512
    rotary: int = 64
    # plain, v_dim: numbers of K and of V that each head makes from the latent
    plain: int = 128
    v_dim: int = 128

    @property
    def cached(self) -> int:
        """Numbers of a token in the cache."""
        return self.latent + self.rotary

    @property
    def of_heads(self) -> int:
        """Numbers of a token in K and V of all heads."""
        return self.heads * (self.plain + self.rotary + self.v_dim)

    @property
    def lifting(self) -> int:
        """Numbers of the matrices that make K and V of all heads from the latent."""
        return self.latent * self.heads * (self.plain + self.v_dim)

    @property
    def groups(self) -> float:
        """Key heads of GROUPED_DIM that cache as much."""
        return self.cached / (2 * GROUPED_DIM)


DEEPSEEK = Sizes()


def cost(way: str, queries: int, keys: int, sizes: Sizes = DEEPSEEK) -> Cost:
    """That of a way, for one sequence in one layer: of so many queries, each of which sees all keys."""
    pairs, wide = 2 * queries * keys * sizes.heads, sizes.plain + sizes.rotary + sizes.v_dim
    if way == HEADS:
        return Cost(sizes.of_heads * BYTES, keys * sizes.of_heads * BYTES, pairs * wide)
    kept = sizes.cached * BYTES
    if way == PROJECTED:  # what is made is written, and read by attention, beside the rotated numbers
        moved = keys * (kept + (2 * sizes.heads * (sizes.plain + sizes.v_dim) + sizes.rotary) * BYTES)
        return Cost(kept, moved, 2 * keys * sizes.lifting + pairs * wide)
    flops = 2 * queries * sizes.lifting + pairs * (sizes.cached + sizes.latent)
    return Cost(kept, keys * kept, flops)


def grouped(kv_heads: float, queries: int, keys: int, heads: int = Sizes.heads) -> Cost:
    """That of grouped heads of GROUPED_DIM, for comparison."""
    kept = 2 * kv_heads * GROUPED_DIM * BYTES
    return Cost(kept, keys * kept, 4 * queries * keys * heads * GROUPED_DIM)


def per_byte(way: str, heads: int) -> float:
    """FLOPs of decoding by so many heads per byte read, in a long context; GROUPS: of 8 key heads."""
    if way == GROUPS:
        found = grouped(min(8, heads), 1, LONG, heads)
    else:
        found = cost(way, 1, LONG, replace(DEEPSEEK, heads=heads))
    return found.flops / found.moved


def balance(gpu: Gpu) -> float:
    """FLOPs of bfloat16 in the time of a byte of HBM, by the data sheet."""
    return gpu.matrix_flops["bfloat16"] / gpu.memory_bytes_per_second


def projecting_pays_from(sizes: Sizes = DEEPSEEK, keys: float = inf) -> float:
    """Queries of a call above which making K and V takes fewer FLOPs than absorbing; over endless keys."""
    more = sizes.heads * (sizes.cached + sizes.latent - sizes.plain - sizes.rotary - sizes.v_dim)
    return sizes.lifting / (more + sizes.lifting / keys)


def groups_as_fast(gpu: Gpu, sizes: Sizes = DEEPSEEK) -> float:
    """Key heads of GROUPED_DIM that take as long to decode as the latent, at best, in a long context."""
    token = cost(ABSORBED, 1, LONG, sizes).seconds(gpu) / LONG
    return token * gpu.memory_bytes_per_second / (2 * GROUPED_DIM * BYTES)


@dataclass(frozen=True)
class Numbers:
    """Drawn numbers of one sequence: its cache, queries, and the matrices that make K and V, float32."""

    # latents, rotated: [keys, latent] and [keys, rotary], the cache
    latents: np.ndarray
    rotated: np.ndarray
    # q, q_rotated: [queries, heads, plain] and [queries, heads, rotary]
    q: np.ndarray
    q_rotated: np.ndarray
    # up_k, up_v: [heads, latent, plain] and [heads, latent, d of V]
    up_k: np.ndarray
    up_v: np.ndarray

    @classmethod
    def drawn(cls, queries: int, keys: int, sizes: Sizes, seed: int = 0) -> "Numbers":
        """Of unit spread, the matrices such that K and V have it too."""
        draw = np.random.Generator(np.random.PCG64(seed)).standard_normal
        heads, lift = sizes.heads, sizes.latent**-0.5
        shapes = (
            (keys, sizes.latent), (keys, sizes.rotary), (queries, heads, sizes.plain),
            (queries, heads, sizes.rotary), (heads, sizes.latent, sizes.plain),
            (heads, sizes.latent, sizes.v_dim),
        )  # fmt: skip
        arrays = [draw(shape, np.float32) for shape in shapes]
        return cls(*arrays[:4], *(each * np.float32(lift) for each in arrays[4:]))

    @property
    def scale(self) -> float:
        return (self.q.shape[2] + self.q_rotated.shape[2]) ** -0.5


def execute(way: str, numbers: Numbers, block: int = 64) -> Counted:
    """Run a way, a block of cached tokens at a time: O is [queries, heads, d of V]."""
    keys, heads = len(numbers.latents), numbers.q.shape[1]
    cache = {"latent": np.concatenate((numbers.latents, numbers.rotated), 1)}
    k, v = (np.einsum("nc,hcd->hnd", numbers.latents, up) for up in (numbers.up_k, numbers.up_v))
    if way == PROJECTED:
        cache |= {"K": np.zeros_like(k), "V": np.zeros_like(v)}
    if way == HEADS:
        rotated = np.broadcast_to(numbers.rotated, (heads, *numbers.rotated.shape))
        cache = {"K": np.concatenate((k, rotated), 2), "V": v}
    memory = memory_of(**cache)
    blocks = [slice(first, min(first + block, keys)) for first in range(0, keys, block)]
    run = _absorbed if way == ABSORBED else _projected if way == PROJECTED else _of_heads
    return Counted.of(memory, run(memory, numbers, blocks))


def _of_heads(memory: Memory, numbers: Numbers, blocks, rotated=()) -> np.ndarray:
    """A head after the other; rotated: the columns of K that all heads share, by block, where they do."""
    q, outs = np.concatenate((numbers.q, numbers.q_rotated), 2), []
    for head in range(q.shape[1]):
        loaded = ([memory.load(name, (head, keys)) for name in "KV"] for keys in blocks)
        tiles = ((np.c_[k, *rotated[at : at + 1]], v, True) for at, (k, v) in enumerate(loaded))
        outs.append(streamed(q[:, head], numbers.scale, tiles, numbers.up_v.shape[2])[0])
    return np.stack(outs, 1)


def _projected(memory: Memory, numbers: Numbers, blocks) -> np.ndarray:
    """A kernel that makes K and V, and one that attends to them and to the rotated columns of the cache."""
    latent = numbers.latents.shape[1]
    for keys in blocks:
        tile = memory.load("latent", (keys,))
        for head, (up_k, up_v) in enumerate(zip(numbers.up_k, numbers.up_v, strict=True)):
            memory.store("K", (head, keys), tile[:, :latent] @ up_k)
            memory.store("V", (head, keys), tile[:, :latent] @ up_v)
    rotated = [memory.load("latent", (keys, slice(latent, None))) for keys in blocks]  # once for all heads
    return _of_heads(memory, numbers, blocks, rotated)


def _absorbed(memory: Memory, numbers: Numbers, blocks) -> np.ndarray:
    """Queries of all heads are rows of one tile, so that each latent is read once for all of them."""
    queries, heads, _ = numbers.q.shape
    latent = numbers.latents.shape[1]
    lifted = np.einsum("qhd,hcd->qhc", numbers.q, numbers.up_k)
    rows = np.concatenate((lifted, numbers.q_rotated), 2).reshape(queries * heads, -1)
    tiles = ((tile, tile[:, :latent], True) for tile in (memory.load("latent", (keys,)) for keys in blocks))
    out, _ = streamed(rows, numbers.scale, tiles, latent)
    return np.einsum("qhc,hcd->qhd", out.reshape(queries, heads, latent), numbers.up_v)


@lru_cache(maxsize=2)
def rotary_apart(sizes: Sizes = DEEPSEEK, queries: int = 4, keys: int = 256) -> float:
    """How far scores are off where what is made from the latent is rotated too, and yet absorbed.

    The largest difference beside the largest score, of drawn numbers: absorbing puts one matrix in the place
    of two, between which a rotation by the distance of query and key would stand.
    """
    numbers = Numbers.drawn(queries, keys, replace(sizes, heads=3))
    made = np.einsum("nc,hcd->hnd", numbers.latents, numbers.up_k)
    turned = rotated(numbers.q.swapaxes(0, 1), ROTARY_BASE, keys - queries), rotated(made, ROTARY_BASE)
    right = turned[0] @ turned[1].mT
    absorbed = np.einsum("qhd,hnd->hqn", numbers.q, made)  # as both matrices in one give it
    return float(np.abs(right - absorbed).max() / np.abs(right).max())

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


def projecting_pays_from(sizes: Sizes = DEEPSEEK, keys: float = inf) -> float:
    """Queries of a call above which making K and V takes fewer FLOPs than absorbing; over endless keys."""
    more = sizes.heads * (sizes.cached + sizes.latent - sizes.plain - sizes.rotary - sizes.v_dim)
    return sizes.lifting / (more + sizes.lifting / keys)


def groups_as_fast(gpu: Gpu, sizes: Sizes = DEEPSEEK) -> float:
    """Key heads of GROUPED_DIM that take as long to decode as the latent, at best, in a long context."""
    token = cost(ABSORBED, 1, LONG, sizes).seconds(gpu) / LONG
    return token * gpu.memory_bytes_per_second / (2 * GROUPED_DIM * BYTES)


@lru_cache(maxsize=2)
def rotary_apart(sizes: Sizes = DEEPSEEK, queries: int = 4, keys: int = 256) -> float:
    """How far scores are off where what is made from the latent is rotated too, and yet absorbed.

    The largest difference beside the largest score, of drawn numbers: absorbing puts one matrix in the place
    of two, between which a rotation by the distance of query and key would stand.
    """
    draw = np.random.Generator(np.random.PCG64(0)).standard_normal
    cached, heads = (keys, sizes.latent), 3
    shapes = cached, (keys, sizes.rotary), (queries, heads, sizes.plain), (queries, heads, sizes.rotary)
    latents, _, q, _ = (draw(shape, np.float32) for shape in shapes)
    up = draw((heads, sizes.latent, sizes.plain), np.float32) * np.float32(sizes.latent**-0.5)
    made = np.einsum("nc,hcd->hnd", latents, up)
    turned = rotated(q.swapaxes(0, 1), ROTARY_BASE, keys - queries), rotated(made, ROTARY_BASE)
    right = turned[0] @ turned[1].mT
    absorbed = np.einsum("qhd,hnd->hqn", q, made)  # as both matrices in one give it
    return float(np.abs(right - absorbed).max() / np.abs(right).max())

"""The attention to be computed: its shapes, its mask, and how it is cut into tiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


@dataclass(frozen=True)
class Mask:
    """Which keys a query sees. Query i sits at key position i + (seq_kv - seq_q).

    Attributes:
        causal: only keys at or before the query's position.
        window: only that many keys, the query's own included; it looks back only, so it implies causal.
        documents: the keys are so many documents of equal length, end to end; a query sees its own one's.
    """

    causal: bool = False
    window: int | None = None
    documents: int = 1

    @property
    def looks_ahead(self) -> bool:
        """Whether a query may see keys after its own position."""
        return not self.causal and self.window is None


@dataclass(frozen=True)
class Problem:
    """The attention to be computed.

    q is [batch, heads, seq_q, head_dim], k and v [batch, kv_heads, seq_kv, head_dim].
    """

    batch: int = 1
    heads: int = 16
    kv_heads: int = 16
    seq_q: int = 1024
    seq_kv: int = 1024
    head_dim: int = 64
    dtype: str = "float16"
    mask: Mask = Mask()

    @property
    def itemsize(self) -> int:
        """Bytes of one element of Q, K, V and O."""
        return DTYPE_BYTES[self.dtype]

    @property
    def all_heads(self) -> int:
        """Query heads over the batch."""
        return self.batch * self.heads

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.heads // self.kv_heads

    @property
    def rows_alike(self) -> int:
        """Rows of queries, one after another, that stand at the same key."""
        return 1

    @property
    def hidden_size(self) -> int:
        """Numbers of a token in all query heads."""
        return self.heads * self.head_dim

    @property
    def keys_seen(self) -> int:
        """Keys that a query sees on average, or the window that bounds them; documents aside."""
        if self.mask.looks_ahead:
            return self.seq_kv
        keys = self.seq_kv - min(self.seq_q, self.seq_kv) // 2
        return keys if self.mask.window is None else min(keys, self.mask.window)

    @property
    def scale(self) -> float:
        """What Q K^T is multiplied by."""
        return self.head_dim**-0.5

    @property
    def offset(self) -> int:
        """Key position of query 0: the last query is aligned with the last key."""
        return self.seq_kv - self.seq_q

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Key positions at which query rows stand; below 0 where there are more queries than keys."""
        return rows + self.offset


@dataclass(frozen=True)
class Tiling:
    """How the problem is cut: rows of a query block, rows of a key block, key splits, pipeline stages.

    own: the kernel is given no blocks and takes its own.
    """

    block_q: int = 64
    block_kv: int = 64
    splits: int = 1
    stages: int = 2
    own: bool = False

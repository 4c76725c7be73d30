"""The attention to be computed: its shapes, its mask, and how it is cut into tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


@dataclass(frozen=True)
class Mask:
    """Which keys a query sees. Query i sits at key position i + (seq_kv - seq_q).

    Attributes:
        causal: only keys at or before the query's position.
        window: only that many keys, the query's own included; it implies causal, unless there are keys ahead.
        documents: the keys are so many documents of equal length, end to end, or documents of these lengths,
            which add up to the keys; a query sees its own one's.
        ahead: how many keys after its own a query with a window sees too, unless it is causal.
    """

    causal: bool = False
    window: int | None = None
    documents: int | tuple[int, ...] = 1
    ahead: int = 0

    @property
    def looks_ahead(self) -> bool:
        """Whether a query may see keys after its own position."""
        return not self.causal and (self.window is None or self.ahead > 0)

    @property
    def hides(self) -> bool:
        """Whether it hides anything at all."""
        return self.causal or self.window is not None or self.packed

    @property
    def packed(self) -> bool:
        """Whether the keys are several documents."""
        return self.documents != 1

    @property
    def keys_after(self) -> int | None:
        """How many keys after its own a query sees; None where there is no end but its document's."""
        if self.causal:
            return 0
        return None if self.window is None else self.ahead

    def window_text(self) -> str | int | None:
        """The window as it is given: so many keys, or keys before and after as 4:2."""
        return f"{self.window - 1}:{self.ahead}" if self.window and self.ahead else self.window

    def documents_text(self) -> str | int:
        """The documents as they are given: how many, or their lengths as 100:28."""
        return self.documents if isinstance(self.documents, int) else ":".join(map(str, self.documents))

    def resized(self, keys: int, of: int) -> Mask:
        """The same with `keys` keys in place of `of`: documents of given lengths shrink or grow alike."""
        if isinstance(self.documents, int):
            return self
        ends = [round(sum(self.documents[: i + 1]) * keys / of) for i in range(len(self.documents))]
        lengths = tuple(end - start for start, end in zip([0, *ends], ends, strict=False))
        return replace(self, documents=lengths)


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
        keys = self.seq_kv
        if not self.mask.looks_ahead:
            keys -= min(self.seq_q, self.seq_kv) // 2
        return keys if self.mask.window is None else min(keys, self.mask.window + (self.mask.keys_after or 0))

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

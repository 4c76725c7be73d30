"""The attention to be computed: its shapes, its mask, and how it is cut into tiles."""

from dataclasses import dataclass

import numpy as np

from engine.problem.dtype import dtype_named
from engine.problem.mask import NO_MASK, Mask
from kernels.tilings.device import HOPPER, Device

DRAWN = "drawn"


@dataclass(frozen=True)
class Problem:
    """The attention to be computed.

    q is [batch, heads, seq_q, head_dim], k and v [batch, kv_heads, seq_kv, head_dim], v's maybe another.

    >>> Problem(heads=32, kv_heads=8, seq_q=1, seq_kv=4096, head_dim=128).group
    4
    """

    batch: int = 1
    heads: int = 16
    kv_heads: int = 16
    seq_q: int = 1024
    seq_kv: int = 1024
    head_dim: int = 64
    dtype: str = "float16"
    mask: Mask = NO_MASK
    head_dim_v: int | None = None  # numbers of a key in V, and of a query in O; None: as many as in Q and K
    softcap: float | None = None  # scores become softcap tanh(score / softcap); None: they do not
    sinks: bool = False  # the softmax of each head has one more logit, without a key
    slopes: bool = False  # scores fall with the distance of query and key (ALiBi)
    latent: bool = False  # V is the first head_dim_v numbers of K, loaded once for both (MLA, absorbed)
    # keys of a page in which K and V lie; None: each lies whole. A table of pages is counted in memory alone
    page_size: int | None = None
    inputs: str = DRAWN  # whose numbers: DRAWN, or the key of a file's heads, see `engine.problem.heads`

    def __post_init__(self):
        if self.head_dim_v == self.head_dim:  # one problem has one form
            object.__setattr__(self, "head_dim_v", None)

    @property
    def v_dim(self) -> int:
        """Numbers of a key in V, and of a query in O."""
        return self.head_dim_v or self.head_dim

    @property
    def terms(self) -> frozenset[str]:
        """What its scores have beside a scale: softcap, sinks, slopes."""
        return frozenset(name for name in ("softcap", "sinks", "slopes") if getattr(self, name))

    @property
    def widest(self) -> int:
        """The larger one of the head dims."""
        return max(self.head_dim, self.v_dim)

    @property
    def itemsize(self) -> int:
        """Bytes of one element of Q, K and V, and of O unless `stored` is another."""
        return dtype_named(self.dtype).bytes

    @property
    def stored(self) -> str:
        """The dtype that O is written in, and S, P and gradients where they are."""
        return dtype_named(self.dtype).stored or self.dtype

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
    def unserved(self) -> str | None:
        """Why no kernel here runs it, in one sentence; None where some may."""
        if not dtype_named(self.dtype).served:
            words = dtype_named(self.dtype).words
            return words or f"No kernel here takes {self.dtype}: it is modelled only."
        return self.mask.unserved

    @property
    def slots(self) -> int:
        """Keys that K and V have room for: of whole pages."""
        return -(-self.seq_kv // (self.page_size or 1)) * (self.page_size or 1)

    @property
    def offset(self) -> int:
        """Key position of query 0: the last query is aligned with the last key."""
        return self.seq_kv - self.seq_q

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Key positions at which query rows stand; below 0 where there are more queries than keys."""
        return rows + self.offset


@dataclass(frozen=True)
class Tiling:
    """How the problem is cut.

    >>> Tiling(block_q=128).block_kv
    64
    """

    block_q: int = 64  # rows of a query block
    block_kv: int = 64
    splits: int = 1  # of the keys
    stages: int = 2  # of the pipeline
    own: bool = False  # the kernel is given no blocks and takes its own
    device: Device = HOPPER  # what of the GPU its warps and stages follow

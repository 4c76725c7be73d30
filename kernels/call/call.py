"""A checked call: its sizes, mask and tiling, and the blocks that a kernel takes unless they are given."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import torch

from kernels.call.device import device_of
from kernels.tile.tile import Tile
from kernels.tilings import flash2
from kernels.tilings.device import MIN_BLOCK
from kernels.tilings.flash2 import tile_size


def ceil_div(size: int, block: int) -> int:
    """Blocks that hold a size; triton.cdiv is slow on the host."""
    return -(-size // block)


class Cut(NamedTuple):
    """From number `whole` on tiles are cut: of their key blocks each SM has an equal share.

    A share is of two tiles at most, a piece of each, whose O and lse are left in a slot of their own.
    """

    whole: int
    tiles: int  # that are cut
    key_blocks: int  # of a tile
    share: int
    processors: int
    block_q: int

    def room(self, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """For O and lse of all pieces, float32."""
        rows = (self.tiles + self.processors) * self.block_q
        size = rows * (q.shape[3] + 1)
        return torch.empty(size, dtype=torch.float32, device=q.device).split((size - rows, rows))


@dataclass(frozen=True)
class Call:
    """A checked call: the sizes, the mask and the tiling.

    causal is set wherever there is a window; window is None where it would hide no key. memory keeps what is
    worked out for the layouts of the tensors it was checked with; a call that is `replace`d begins a new one.
    """

    batch: int
    heads: int
    kv_heads: int
    seq_q: int
    seq_kv: int
    head_dim: int
    causal: bool
    window: int | None
    scale: float
    algorithm: str
    block_q: int
    block_kv: int
    splits: int | None  # of the keys; None where the kernel chooses, or does not split
    tma: bool = False  # whether flash2 copies K and V by TMA
    v_dim: int | None = None  # the head dim of V and O where it is another than head_dim
    cut: Cut | None = None  # how flash3 cuts its last tiles
    memory: dict = field(default_factory=dict, init=False, compare=False, repr=False)

    def halved(self) -> "Call | None":
        """The same in blocks half as large: the larger, keys where they are alike; None of the smallest."""
        if max(self.block_q, self.block_kv) <= MIN_BLOCK:
            return None
        if self.block_q > self.block_kv:
            return replace(self, block_q=self.block_q // 2)
        return replace(self, block_kv=self.block_kv // 2)

    @property
    def in_blocks(self) -> str:
        return f"in blocks of {self.block_q} x {self.block_kv}"

    @cached_property
    def query_blocks(self) -> int:
        return ceil_div(self.seq_q, self.block_q)

    @cached_property
    def key_blocks(self) -> int:
        return ceil_div(self.seq_kv, self.block_kv)

    @cached_property
    def programs(self) -> int:
        """Blocks of queries of all heads."""
        return self.batch * self.heads * self.query_blocks

    @cached_property
    def even(self) -> bool:
        """Whether every tile is whole."""
        return self.seq_q % self.block_q == 0 and self.seq_kv % self.block_kv == 0

    @cached_property
    def padded_head_dim(self) -> int:
        """The head dim a tile has."""
        return tile_size(self.head_dim)

    @cached_property
    def out_dim(self) -> int:
        """The head dim of V and O."""
        return self.head_dim if self.v_dim is None else self.v_dim

    @cached_property
    def padded_out_dim(self) -> int:
        """The head dim that a tile of V or O has."""
        return tile_size(self.out_dim)

    @cached_property
    def widest(self) -> int:
        """The head dim that chooses the blocks."""
        return max(self.padded_head_dim, self.padded_out_dim)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The sizes as the kernels take them."""
        return {
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "seq_q": self.seq_q,
            "seq_kv": self.seq_kv,
            "window": self.window or 0,
        }

    @cached_property
    def tile(self) -> Tile:
        """The tiles and the mask as the kernels take them."""
        dims = self.head_dim, self.padded_head_dim, self.out_dim, self.padded_out_dim
        return Tile(*dims, self.block_q, self.block_kv, self.causal, self.window is not None)

    @cached_property
    def unmasked_tile(self) -> Tile:
        """The same without a mask."""
        return self.tile._replace(CAUSAL=False, WINDOWED=False)

    @cached_property
    def tile_in_ranges(self) -> Tile:
        """The same where ranges say what is seen."""
        return self.unmasked_tile._replace(RANGES=True)


def default_blocks(rows: int, head_dim: int, dtype: torch.dtype, device: torch.device) -> tuple[int, int]:
    """(block_q, block_kv) of an algorithm that has no blocks of its own, however many rows."""
    return flash2.default_blocks(head_dim, dtype.itemsize, device_of(device))


def split_blocks(
    rows: int, head_dim: int, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> tuple[int, int]:
    """(block_q, block_kv) of split_kv for `rows` queries that share a key head; an H200's for the CPU."""
    return flash2.split_blocks(rows, head_dim, dtype.itemsize, device_of(torch.device(device)))

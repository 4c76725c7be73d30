"""FlashAttention-2's blocks, and which heads start together: the fastest of those measured on an H200."""

from kernels.tilings.device import HOPPER, MIN_BLOCK, Device

MAX_HEAD_DIM = 256  # from which on O takes two warp groups
# block_q, block_kv, warps, stages by head dim, for K and V by TMA
OWN_TILING = {64: (64, 128, 4, 2), 128: (128, 128, 8, 3), 256: (128, 64, 8, 2)}
SHORT = 1024  # keys up to which smaller blocks, two an SM, are faster
SHORT_TILING = {128: (64, 64, 4, 3)}
# the same by head dims of K and V, where V has one of its own
V_TILING = {(192, 128): (128, 64, 8, 3), (64, 256): (128, 64, 8, 3), (64, 512): (64, 32, 8, 3)}
# causal heads, with more keys, that start with the query blocks that see most: the last of them all end alike
HEADS_TOGETHER = {64: 16, 128: 8, 256: 8, 512: 8}


def own_tiling(
    head_dim: int, seq_kv: int, v_dim: int | None = None, device: Device = HOPPER
) -> tuple[int, int, int, int]:
    """block_q, block_kv, warps and most stages where TMA copies K and V, V maybe of a head dim of its own."""
    if v_dim is not None:
        block_q, block_kv, own, stages = V_TILING[head_dim, v_dim]
    elif seq_kv <= SHORT and head_dim in SHORT_TILING:
        block_q, block_kv, own, stages = SHORT_TILING[head_dim]
    else:
        block_q, block_kv, own, stages = OWN_TILING[head_dim]
    fitted = device.fitted(block_q, block_kv, 2 * head_dim, 2 * (head_dim + (v_dim or head_dim)))
    return (*fitted, own if fitted == (block_q, block_kv) else warps(fitted[0], v_dim or 0), stages)


def default_blocks(head_dim: int, itemsize: int, device: Device = HOPPER) -> tuple[int, int]:
    """(block_q, block_kv) elsewhere, by the wider head dim: the largest that hardly spill on Hopper."""
    if itemsize < 4 and not device.small:
        blocks = (128, 64) if head_dim <= MAX_HEAD_DIM else (64, 64)
    elif head_dim <= 64:
        blocks = 32, 32
    else:
        blocks = (32, 16) if head_dim <= 128 else (16, 16)
    return fitted_forward(blocks, head_dim, itemsize, device)


def split_blocks(rows: int, head_dim: int, itemsize: int, device: Device = HOPPER) -> tuple[int, int]:
    """The same for `rows` queries that share a key head; few of them take keys in larger blocks."""
    block_q, block_kv = default_blocks(head_dim, itemsize, device)
    block_q = min(64 if head_dim <= MAX_HEAD_DIM else 32, block_q, tile_size(rows))
    if block_q < 64 and head_dim <= 128 and itemsize < 4 and not device.small:
        block_kv = 128
    return fitted_forward((block_q, block_kv), head_dim, itemsize, device)


def fitted_forward(blocks: tuple[int, int], head_dim: int, itemsize: int, device: Device) -> tuple[int, int]:
    """The blocks halved until two of K and V fit beside one of Q."""
    row = tile_size(head_dim) * itemsize
    return device.fitted(*blocks, row, 2 * row)


def tile_size(size: int) -> int:
    """The power of two, at least 16, that holds a size: what a tile has."""
    return max(MIN_BLOCK, 1 << (size - 1).bit_length())


def warps(rows: int, columns: int = 0) -> int:
    """Warps a block for so many rows: one warp group (4 warps) for 64, two from 128 or for a wide O."""
    return 8 if rows >= 128 or columns > MAX_HEAD_DIM else 4

"""FlashAttention-2's blocks, and which heads start together: the fastest of those measured on an H200."""

MAX_HEAD_DIM = 256  # from which on O takes two warp groups
# block_q, block_kv, warps, stages by head dim, for K and V by TMA
OWN_TILING = {64: (64, 128, 4, 2), 128: (128, 128, 8, 3), 256: (128, 64, 8, 2)}
SHORT = 1024  # keys up to which smaller blocks, two an SM, are faster
SHORT_TILING = {128: (64, 64, 4, 3)}
# the same by head dims of K and V, where V has one of its own
V_TILING = {(192, 128): (128, 64, 8, 3), (64, 256): (128, 64, 8, 3), (64, 512): (64, 32, 8, 3)}
# causal heads, with more keys, that start with the query blocks that see most: the last of them all end alike
HEADS_TOGETHER = {64: 16, 128: 8, 256: 8, 512: 8}


def own_tiling(head_dim: int, seq_kv: int, v_dim: int | None = None) -> tuple[int, int, int, int]:
    """block_q, block_kv, warps and most stages where TMA copies K and V, V maybe of a head dim of its own."""
    if v_dim is not None:
        return V_TILING[head_dim, v_dim]
    return SHORT_TILING[head_dim] if seq_kv <= SHORT and head_dim in SHORT_TILING else OWN_TILING[head_dim]


def default_blocks(head_dim: int, itemsize: int) -> tuple[int, int]:
    """(block_q, block_kv) elsewhere: the largest that compile for Hopper without spilling registers.

    head_dim is the larger one of Q and K's and of V's; itemsize: bytes of one of their numbers.
    """
    if itemsize < 4:
        return (128, 64) if head_dim <= MAX_HEAD_DIM else (64, 64)
    if head_dim <= 64:
        return 32, 32
    return (32, 16) if head_dim <= 128 else (16, 16)

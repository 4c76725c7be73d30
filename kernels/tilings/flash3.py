"""FlashAttention-3's blocks, buffers and registers, and which heads start together."""

_TWO_CONSUMERS = {"CONSUMERS": 2, "KV_BUFFERS": 2, "CONSUMER_REGISTERS": 240, "PRODUCER_REGISTERS": 24}
_THREE_CONSUMERS = {"CONSUMERS": 3, "KV_BUFFERS": 2, "CONSUMER_REGISTERS": 160, "PRODUCER_REGISTERS": 32}
TILING = {  # by head dim; a consumer has 64 query rows; turns pay where exp takes as long as the products
    64: {"BLOCK_KV": 128, "Q_BUFFERS": 2, "TURNS": True, **_THREE_CONSUMERS},
    128: {"BLOCK_KV": 128, "Q_BUFFERS": 2, "TURNS": False, **_TWO_CONSUMERS},
    256: {"BLOCK_KV": 64, "Q_BUFFERS": 1, "TURNS": False, **_TWO_CONSUMERS},
}
V_TILING = {  # by head dims of Q and K and of V, where they differ: Q and K come in pieces of 64 columns
    (192, 128): {"BLOCK_KV": 128, "Q_BUFFERS": 1, "TURNS": False, "PIECES": 3, **_TWO_CONSUMERS}
}
FEW_KEYS = 768  # that a query sees on average: below, tiles are short, and turns hold up their starts
FEW_KEYS_TILING = {64: {"BLOCK_KV": 128, "Q_BUFFERS": 2, "TURNS": False, **_TWO_CONSUMERS}}
L2_FOR_KEYS = 32 * 2**20  # bytes of K and V for running blocks: half of an H200's L2, each half keeps a copy
STEP = 8  # between head dims: what TMA copies is a multiple of 16 bytes


def padded(head_dim: int) -> int:
    """The head dim as which one is computed: TMA fills what lies behind its last column with 0."""
    return min(size for size in TILING if size >= head_dim)


def value_columns(head_dim: int, causal: bool) -> int:
    """Columns of O that P V is computed for: where causal half of those padded, and a power of two more.

    Two products take less time than one there alone, as measured.
    """
    whole, most = padded(head_dim), padded(head_dim) // 2
    if whole == min(TILING) or not causal:
        return whole
    return most + max(16, 1 << (head_dim - most - 1).bit_length())


def tail_columns(head_dim: int, v_dim: int) -> int | None:
    """Columns of K's and V's second blocks, a power of two less than half of all; None for one block.

    That is where more than three quarters of a block are in use, and where V has another head dim.

    >>> tail_columns(80, 80), tail_columns(128, 128), tail_columns(192, 128)
    (16, None, None)
    """
    half = padded(head_dim) // 2
    tail = value_columns(head_dim, True) - half
    return tail if v_dim == head_dim and 16 <= tail < half else None


def heads_together(key_heads: int, group: int, bytes_of_keys: int) -> int:
    """Heads whose tiles start side by side: of as many key heads as have room in L2_FOR_KEYS.

    Where a mask hides later keys the heaviest tiles of a set start first. Those of a last set of few heads
    would end long after all others: where it has less than half of a set, all sets are made alike.

    >>> heads_together(16, 1, L2_FOR_KEYS // 5)  # 4 sets of 4, not 3 of 5 and one head
    4
    """
    most = min(key_heads, max(1, L2_FOR_KEYS // bytes_of_keys))
    if 0 < 2 * (key_heads % most) < most:
        most = -(-key_heads // -(-key_heads // most))
    return group * most


BACKWARD_HOW = {"CONSUMERS": 2, "BUFFERS": 2, "CONSUMER_REGISTERS": 240, "PRODUCER_REGISTERS": 24}
BACKWARD_TILING = {
    64: {"BLOCK_Q": 128, "BLOCK_KV": 128, **BACKWARD_HOW},
    128: {"BLOCK_Q": 64, "BLOCK_KV": 128, **BACKWARD_HOW},
    256: {"BLOCK_Q": 64, "BLOCK_KV": 64, **BACKWARD_HOW},
}

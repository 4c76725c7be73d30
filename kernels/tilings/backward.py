"""In which blocks, with how many warps and stages, the two large kernels of the backward pass run.

block_q, block_kv, warps, stages by the wider head dim: the fastest of those measured on an H200, N 4096 up.
"""

KEY_TILING = {64: (64, 64, 4, 3), 128: (64, 64, 4, 2), 256: (64, 64, 8, 2), 512: (64, 32, 4, 2)}
V_KEY_TILING = {(192, 128): (32, 64, 4, 3)}  # by head dims of K and V, where V has one of its own
QUERY_TILING = {64: (128, 64, 4, 3), 128: (128, 64, 8, 3), 256: (64, 32, 4, 3), 512: (128, 64, 8, 1)}

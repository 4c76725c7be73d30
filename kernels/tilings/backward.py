"""In which blocks, with how many warps and stages, the two large kernels of the backward pass run.

block_q, block_kv, warps, stages by the wider head dim: the fastest of those measured on an H200, N 4096 up.
"""

from kernels.tilings.device import HOPPER, Device
from kernels.tilings.flash2 import default_blocks, tile_size, warps

KEY_TILING = {64: (64, 64, 4, 3), 128: (64, 64, 4, 2), 256: (64, 64, 8, 2), 512: (64, 32, 4, 2)}
V_KEY_TILING = {(192, 128): (32, 64, 8, 3)}  # by head dims of K and V, where V has one of its own
QUERY_TILING = {64: (128, 64, 4, 3), 128: (128, 64, 8, 3), 256: (64, 32, 4, 3), 512: (128, 64, 8, 1)}
STAGES = 3  # at most
GIVEN = 64, 64  # narrow and wide blocks of 16 bits beside one that is given
Launched = tuple[int, int, int, int]  # block_q, block_kv, warps and most stages


def tilings(
    dims: tuple[int, int], itemsize: int, block_q: int | None, block_kv: int | None, device: Device = HOPPER
) -> tuple[Launched, Launched]:
    """How the key gradient runs and how the query gradient: in the blocks given, or in the fastest known.

    dims: the head dims of K and of V. Where blocks were not measured, those of plain arithmetic are as small
    as a head dim twice as wide has them: two tiles are multiplied in a visit.
    """
    widest, given = max(map(tile_size, dims)), block_q or block_kv
    plain = itemsize == 4 or device.small
    wider = widest if given or device.measured else 2 * widest
    if given or plain:
        wide, narrow = default_blocks(wider, itemsize, device) if plain else GIVEN
        keys, queries = (block_q or narrow, block_kv or wide), (block_q or wide, block_kv or narrow)
        keys = (*keys, 8 if widest > 128 else warps(keys[1]), STAGES)
        queries = (*queries, warps(queries[0], widest), STAGES)
    else:
        keys = V_KEY_TILING.get(dims, KEY_TILING[max(64, widest)])
        queries = QUERY_TILING[max(64, widest)]
    if given or device.measured:
        return keys, queries
    row = 2 * itemsize * widest  # of Q and dO, or of K and V
    leaving = row if device.tensor_memory else 0  # dK and dV, on their way out of it
    block_kv, block_q = device.fitted(keys[1], keys[0], row + leaving, row)
    of_queries = device.fitted(*queries[:2], row, row)
    of_keys, of_rows = 8 if plain or widest >= 128 else 4, 8 if plain else warps(of_queries[0], widest)
    return (block_q, block_kv, of_keys, STAGES), (*of_queries, of_rows, STAGES)

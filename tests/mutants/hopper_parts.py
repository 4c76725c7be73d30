"""Mutants of flash3 with the keys of tiles in parts, or of the last tiles in pieces."""

from tests.mutants.mutant import Mutant
from tests.mutants.mutant import of_kernels as _of

T = "tests/kernels/"
SPLIT, CUT = (f"{T}test_{name}.py" for name in ("flash3_split", "flash3_stream_k"))

in_parts = _of("hopper/schedule.py", SPLIT)
parts = _of("algorithms/flash3/split_kv.py", SPLIT)
left = _of("hopper/consumer.py", SPLIT)
in_pieces = _of("hopper/schedule.py", CUT)
pieces = _of("hopper/pieces.py", CUT)
shares = _of("algorithms/flash3/stream_k.py", CUT)

MUTANTS: tuple[Mutant, ...] = (
    in_pieces(
        "flash3-pieces-as-the-last-blocks",
        "later = gl.where(tile < self.whole, 0, behind)",
        "later = 0",
        "every piece of a tile has its last keys",
    ),
    in_pieces(
        "flash3-pieces-masked-at-their-end",
        "end // self.BLOCK_KV + later",
        "end // self.BLOCK_KV",
        "a piece hides keys of its last block because the tile's last one is not full",
    ),
    in_pieces(
        "flash3-share-past-its-end",
        "gl.maximum(blocks - before - (self.tiles() - tile), 0)",
        "0",
        "a piece has all key blocks to its tile's end, those of the next share too",
    ),
    in_pieces(
        "flash3-pieces-in-one-slot",
        "// self.key_blocks() + gl.program_id(0)",
        "// self.key_blocks()",
        "pieces of a tile are stored over one another",
    ),
    pieces(
        "flash3-pieces-of-one-consumer",
        "schedule.BLOCK_Q + CONSUMER * ROWS",
        "schedule.BLOCK_Q",
        "the second consumer stores its rows over the first one's",
    ),
    shares(
        "flash3-merge-without-weights",
        "weights = tl.exp(part - largest)",
        "weights = tl.exp(part - part)",
        "pieces count alike, however little their keys weigh",
    ),
    shares(
        "flash3-cut-for-nothing",
        "saved = key_blocks - share - COST[call.head_dim]",
        "saved = key_blocks - share",
        "tiles are cut where merging costs what that saves",
    ),
    in_parts(
        "flash3-part-without-its-last",
        "end = (part + 1) * blocks // self.splits",
        "end = (part + 1) * (blocks // self.splits)",
        "the last key blocks of a tile are left out where parts are not equal",
    ),
    in_parts(
        "flash3-parts-of-one-batch",
        "batch += tile % self.splits * (self.batch_heads // self.heads)",
        "batch += tile % self.splits",
        "parts of one sequence are stored over those of another",
    ),
    left(
        "flash3-part-past-the-last-row",
        "inside = (rows < schedule.seq_q) & (columns >= 0)",
        "inside = (rows >= 0) & (columns >= 0)",
        "rows past the last are stored over the next head's first",
    ),
    parts(
        "flash3-parts-for-nothing",
        "if splits < 2 or key_blocks - ceil_div(key_blocks, splits) < FEWEST_SAVED:",
        "if splits < 2:",
        "few keys are split, and combining takes longer than that saves",
    ),
)

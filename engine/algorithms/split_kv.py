"""Few queries, many keys: programs take a share of the keys each, a second kernel combines what they found.

Also known as Flash-Decoding. The query heads that share a key head are rows of one block, so that K
and V of a key head are read once; "one head" of this schedule is therefore a key head.
"""

from dataclasses import dataclass, fields

import numpy as np

from engine.algorithms.flash2 import VISIT
from engine.algorithms.record import ACCUMULATOR_BYTES, Algorithm, Part, fused_parts
from engine.problem.bounds import KeyBounds, blocks, key_bounds
from engine.problem.hardware import Gpu
from engine.problem.problem import Problem, Tiling
from engine.schedule.nest import ROWS, Phase
from engine.schedule.programs import Programs
from engine.schedule.schedule import Schedule
from engine.schedule.step import PARTIALS, Operation, Step, Tensor, block_bytes, load, store
from kernels.tilings.flash2 import split_blocks, tile_size
from kernels.tilings.split_kv import COMBINED, latent_splits, page_block

LARGEST_SPLITS = 1024
BLOCKS_PER_SM = 2  # that the kernel splits for, where their tiles leave room
RESIDENT_TILE = 128 * 128  # values of K in a block of keys of which one alone stays on an SM
LATENT = 576, 512  # numbers of a latent that a kernel decodes over, and those of them that are V
LATENT_BLOCK = 64  # its rows at most, and its keys
KEYS_PER_ROW = 4  # of a split, at least, or combining costs too much


@dataclass(frozen=True)
class Packed(Problem):
    """A problem with the query heads of a key head packed: row r is query r // packed of head r % packed.

    It has as many heads as key heads, and `packed` times the queries.
    """

    packed: int = 1

    @property
    def rows_alike(self) -> int:
        """The heads of a query."""
        return self.packed

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Key positions at which packed rows stand."""
        return rows // self.packed + self.seq_kv - self.seq_q // self.packed


def packed(problem: Problem) -> Packed:
    """The same problem with the rows of each key head packed."""
    same = {field.name: getattr(problem, field.name) for field in fields(problem)}
    rows = {"heads": problem.kv_heads, "seq_q": problem.seq_q * problem.group}
    return Packed(**{**same, **rows}, packed=problem.group)


def schedule(problem: Problem, tiling: Tiling) -> Schedule:
    """One key head: every split's partial O and lse, then their combination; one split needs none."""
    rows = packed(problem)
    bounds = key_bounds(rows, tiling)
    alone = tiling.splits == 1
    share = None if alone else EvenShare(tiling.splits)
    left = map(store, (Tensor.O, Tensor.LSE) if alone else PARTIALS)
    # for each query block and each split of its keys
    programs = Programs(bounds.first, bounds.stop, bounds.alike, tiling.splits, share)
    split = Phase("split", "query", programs, (load(Tensor.Q),), VISIT, tuple(left), shared=True)
    return Schedule(rows, tiling, (split,) if alone else (split, combination(bounds, tiling.splits)), bounds)


@dataclass(frozen=True)
class EvenShare:
    """Programs that take equally many key blocks each, as long as there are some."""

    splits: int

    def of(self, first, stop, outer, program) -> tuple[np.ndarray, np.ndarray]:
        """What a program visits; equal where nothing is left for it."""
        visits = stop - first
        share = blocks(visits, self.splits)
        start = program * share
        some = start < visits
        begin = first + np.where(some, start, 0)
        return begin, begin + np.where(some, np.minimum(share, visits - start), 0)

    def filled(self, first, stop) -> np.ndarray:
        """Programs until nothing is left."""
        return blocks(stop - first, blocks(stop - first, self.splits))


def combination(bounds: KeyBounds, splits: int) -> Phase:
    """The second kernel: every row's partial results come, one result goes."""
    none = np.zeros_like(bounds.first)
    comes = load(Tensor.PARTIAL_LSE, splits), load(Tensor.PARTIAL, splits)
    merged = *comes, Step(Operation.COMBINE, times=splits), store(Tensor.O), store(Tensor.LSE)
    trips = 1 + blocks(splits, COMBINED)  # as recorded: all lse first, then O of some splits at a time
    a_row = {"shared": True, "launched": ROWS, "rows": 1, "round_trips": trips}
    return Phase("combine", "query", Programs(none, none, bounds.alike), merged, **a_row)


def parts(problem: Problem, tiling: Tiling) -> dict[str, tuple[Part, ...]]:
    """The tiles of a split, and those that combine one row's splits."""
    partial = block_bytes(problem, Tensor.PARTIAL).of(1, 1)
    combine = (
        Part(f"{COMBINED} partial O", Tensor.PARTIAL, COMBINED * partial),
        Part("O", Tensor.O, problem.v_dim * ACCUMULATOR_BYTES),
    )
    return {"split": fused_parts(problem, tiling), "combine": combine}


def own_blocks(problem: Problem, gpu: Gpu) -> tuple[int, int]:
    """Rows and keys of the kernel's blocks for one query: rows hold the heads that share a key head."""
    if problem.latent:
        return min(LATENT_BLOCK, tile_size(problem.group)), LATENT_BLOCK
    block_q, block_kv = split_blocks(problem.group, problem.widest, problem.itemsize, gpu.device)
    return block_q, page_block(block_kv, problem.batch, problem.page_size or block_kv)


def own_splits(problem: Problem, tiling: Tiling, sms: int) -> int:
    """Equal splits that the kernel chooses: every SM has the blocks it holds, each worth combining.

    With documents every query's keys lie on the GPU, a window within them too: it chooses by all keys.
    """
    rows = blocks(problem.group * problem.seq_q, tiling.block_q)
    if problem.latent:
        key_blocks = blocks(problem.seq_kv, tiling.block_kv)
        return latent_splits(problem.batch * rows, key_blocks, sms, LARGEST_SPLITS)
    keys = problem.seq_kv if problem.mask.packed else problem.mask.span(problem.seq_kv)
    key_blocks = blocks(keys, tiling.block_kv)
    held = max(1, min(BLOCKS_PER_SM, RESIDENT_TILE // (tiling.block_kv * tile_size(problem.widest))))
    most = held * sms // (problem.batch * problem.kv_heads * rows)
    shortest = blocks(KEYS_PER_ROW * tiling.block_q, tiling.block_kv)
    most = max(1, min(most, key_blocks // shortest, LARGEST_SPLITS))
    return blocks(key_blocks, blocks(key_blocks, most))


def unserved(problem: Problem, gpu: Gpu) -> str | None:
    """Why no kernel decodes over a latent, in one sentence; None where one does, or there is none."""
    decodes = problem.seq_q == problem.kv_heads == 1 and (problem.head_dim, problem.v_dim) == LATENT
    plain = problem.mask.kinds <= {"causal"} and not problem.terms
    if not problem.latent or (decodes and plain and gpu.architecture == "Hopper" and problem.itemsize == 2):
        return None
    return (
        f"The kernel over a latent, for Hopper GPUs, takes one query on one key head of {LATENT[0]} numbers "
        f"in 16 bits, of which {LATENT[1]} are V, and neither a window, documents nor terms."
    )


ALGORITHM = Algorithm(
    *("split_kv", "Split keys (decoding)", "Split keys", 4, schedule, parts),
    tensors=(Tensor.Q, Tensor.K, Tensor.V, Tensor.O, Tensor.LSE, *PARTIALS),
    offered=False,
    kernel="split_kv",
    pages=True,
    latents=True,
    unserved=unserved,
    interpreter_ms=(8.0, 0.1),
    differentiable=True,
)

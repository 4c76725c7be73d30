"""What a new GPU is recorded on: the calls of the recordings there are, and new ones, some drawn by lot."""

import math
import random

from engine.algorithms import FORWARD
from engine.measuring.implementations import Prepare, implementations
from engine.problem.problem import Mask, Problem
from engine.recordings.file import recordings
from engine.recordings.recording import Counters, Row, unmeasured
from engine.recordings.samples import Samples
from engine.studies.your_model import LAYERS


def plan(section: str) -> list[Row]:
    """Every call of a section, the most telling first: a recording that runs out of time has those.

    >>> plan("counters")[0].problem.seq_kv
    512
    """
    shelves = *recordings(), *recordings(LAYERS)
    return list(dict.fromkeys(unmeasured(row) for one in shelves for row in getattr(one, section)))


def together(section: str, *alike: str) -> list[list[Row]]:
    """The calls of a section, those together of which these properties are equal: they are timed in turns."""
    found: dict[tuple, list[Row]] = {}
    for row in plan(section):
        found.setdefault(tuple(getattr(row, name) for name in alike), []).append(row)
    return list(found.values())


def call(
    provider: str,
    seq: int,
    head_dim: int = 128,
    heads: int = 16,
    kv_heads: int | None = None,
    batch: int = 1,
    causal: bool = False,
    window: int | None = None,
    direction: str = FORWARD,
    **blocks: int | None,
) -> Counters:
    """The row of a call in float16, before it is recorded; blocks and splits where it is given some."""
    mask = Mask(causal, window)
    problem = Problem(batch, heads, kv_heads or heads, seq, seq, head_dim, "float16", mask)
    return Counters(provider, direction, problem, **blocks)


def prepared(row: Counters | Samples) -> tuple[Prepare, dict[str, int]]:
    """How a call is prepared, and what its kernel does not choose for itself.

    flash3 keeps its tiles whole, as the model has them: with pieces of the last it reads and writes more.
    """
    splits = 1 if row.provider == "flash3" else row.splits
    options = {"block_q": row.block_q, "block_kv": row.block_kv, "splits": splits}
    given = {name: value for name, value in options.items() if value is not None}
    return implementations()[row.provider].prepare, given


SEED = 20261122
HEADS = (1, 2, 4, 8, 16, 32, 64)
MOST_FLOPS, MOST_VALUES, MOST_SCORES = 1e13, 7.5e8, 3e9  # of a call; numbers of K; numbers of S, unfused
OWN = ((None, None),)  # the kernel's own blocks
LARGE = (128, 64), (64, 64), (128, 32), (128, 128)  # blocks of long calls
KINDS = (  # how many, kernel, tokens from and to, head dims, blocks, batches, most heads, share masked
    (7, "flash3", (9000, 120_000), (64, 128, 256), OWN, (1,), 32, 0.5),
    (4, "flash3", (100, 4000), (64, 128, 256), OWN, (1, 4, 32), 32, 0.5),
    (5, "flash2", (9000, 100_000), (64, 80, 128, 256), LARGE, (1,), 32, 0.5),
    (5, "flash2", (100, 4000), (64, 80, 96, 128, 256), ((128, 64), (64, 64), (64, 32)), (1, 4, 32), 32, 0.5),
    (4, "flash1", (200, 6000), (64, 64, 128), ((64, 64), (32, 32), (64, 32), (32, 64)), (1, 4), 64, 0.3),
    (4, "standard", (200, 9000), (64, 128, 96), ((128, 64),), (1, 2), 32, 0.3),
)


def random_calls(seed: int = SEED) -> list[Counters]:
    """Calls of every algorithm, long ones beside L2's size and short ones; the same for the same seed."""
    draw = random.Random(seed)
    found = []
    for count, provider, tokens, dims, blocks, *others in KINDS:
        for _ in range(count):
            seq = _length(draw, *tokens)
            own = draw.choice(blocks) if len(blocks) > 1 else blocks[0]
            found.append(_call(draw, provider, seq, dims, own, *others))
    return found


def _length(draw: random.Random, low: int, high: int) -> int:
    """As likely between two as between their doubles."""
    return round(math.exp(draw.uniform(math.log(low), math.log(high))))


def _call(
    draw: random.Random, provider: str, seq: int, dims, blocks, batches, most: int, masked: float
) -> Counters:
    """One with as many heads as it draws of those that fit; half as long where none do."""
    causal = draw.random() < masked
    window = None
    if causal and provider in ("flash2", "flash3") and draw.random() < 0.2:
        window = _length(draw, 64, seq)
    dim, group = draw.choice(dims), draw.choice((1, 1, 1, 4))
    sizes = [(heads, batch) for heads in HEADS for batch in batches if heads <= most]
    draw.shuffle(sizes)
    for heads, batch in sizes:
        shape = seq, dim, heads, max(1, heads // group), batch, causal, window
        one = call(provider, *shape, block_q=blocks[0], block_kv=blocks[1])
        if _is_small(one):
            return one
    return _call(draw, provider, seq // 2, dims, blocks, batches, most, masked)


def _is_small(one: Counters) -> bool:
    """Whether a GPU takes milliseconds for it, and has room."""
    problem = one.problem
    rows = problem.batch * problem.heads * problem.seq_kv
    scores = rows * problem.seq_q
    return (
        4 * scores * problem.head_dim < MOST_FLOPS
        and rows * problem.head_dim < MOST_VALUES
        and (one.provider != "standard" or scores < MOST_SCORES)
    )

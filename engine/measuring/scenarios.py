"""What a new GPU is recorded on: the calls of the recordings there are, in their order, and new ones."""

from engine.algorithms import BACKWARD, FORWARD
from engine.measuring.implementations import Prepare, implementations
from engine.problem.problem import Mask, Problem
from engine.recordings.file import recordings
from engine.recordings.recording import Counters, Row, unmeasured
from engine.recordings.samples import Samples


def _sampled(provider: str, seq: int, head_dim=128, mask=Mask(), **other) -> Samples:
    """A call of 16 heads to be sampled, in float16; other: of the row."""
    return Samples(provider, Problem(1, 16, 16, seq, seq, head_dim, "float16", mask), **other)


NEW: dict[str, tuple[Row, ...]] = {  # calls by section that no recording has yet
    "samples": (
        *(_sampled(name, 1024, head_dim=64) for name in ("standard", "flash1", "flash3")),
        *(_sampled(name, 4096, head_dim=64) for name in ("standard", "flash2", "flash3")),
        *(_sampled("flash2", 4096, direction=BACKWARD, mask=mask) for mask in (Mask(), Mask(causal=True))),
    ),
}


def plan(section: str) -> list[Row]:
    """Every call of a section, the most telling first: a recording that runs out of time has those.

    >>> plan("counters")[0].problem.seq_kv
    512
    """
    recorded = (unmeasured(row) for one in recordings() for row in getattr(one, section))
    return list(dict.fromkeys((*recorded, *NEW.get(section, ()))))


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

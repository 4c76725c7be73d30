"""What a new GPU is recorded on: the calls of the recordings there are, in their order, and new ones."""

from engine.algorithms import BACKWARD, FORWARD
from engine.measuring.implementations import Prepare, implementations
from engine.problem.problem import Mask, Problem
from engine.recordings.file import recordings
from engine.recordings.recording import Counters, Row, unmeasured
from engine.recordings.samples import Samples


def _sampled(
    provider: str, seq: int, heads=16, head_dim=128, mask=Mask(), batch=1, kv_heads=None, seq_q=None, **other
) -> Samples:
    """A call to be sampled, in float16; other: of the row."""
    sizes = batch, heads, kv_heads or heads, seq_q or seq, seq, head_dim
    return Samples(provider, Problem(*sizes, "float16", mask), **other)


CAUSAL = Mask(causal=True)
NEW: dict[str, tuple[Row, ...]] = {  # calls by section that no recording has yet
    "samples": (
        *(_sampled(name, 4096) for name in ("standard", "flash2", "flash3")),
        _sampled("flash1", 4096, head_dim=64),
        *(_sampled(name, 4096, cold=False) for name in ("standard", "flash3")),
        *(_sampled("flash3", 4096, direction=BACKWARD, mask=mask) for mask in (Mask(), CAUSAL)),
        _sampled("split_kv", 32768, heads=32, kv_heads=8, batch=4, seq_q=1, mask=CAUSAL, splits=8),
        *(_sampled(name, 4096, mask=CAUSAL) for name in ("standard", "flash2", "flash3")),
        _sampled("flash3", 16384, mask=CAUSAL),
        _sampled("flash3", 1024),
        _sampled("flash2", 8192, mask=Mask(True, 1024)),
        _sampled("flash2", 8192, mask=Mask(True, documents=8)),
        _sampled("sdpa_cudnn", 4096),
        _sampled("fp8", 4096, numbers="tensor"),
        _sampled("flash2", 4096, heads=32, kv_heads=8, mask=CAUSAL),
        _sampled("standard", 1024),
        _sampled("flash2", 1024, head_dim=64),
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

"""What a chip read of its own counters, interval by interval, while one call ran: bytes over time."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from engine.algorithms import FORWARD
from engine.experiment import Experiment
from engine.problem.problem import Mask, Problem
from engine.recordings.nearest import MASK, SIZES, WIDTH, differing, nearest
from engine.recordings.timing import Times

SECTOR = 32  # bytes, the least that DRAM and L2 move
MOST_SAMPLES = 6000
BUSY = 5  # thousandths of SMs at work, from which an interval belongs to a kernel


@dataclass(frozen=True)
class Samples:
    """One call as the chip sampled itself; of several alike the middle one, by bytes read from DRAM.

    Every column has one number an interval, from the call's first to its last; where the GPU waited for the
    host to launch more, that is one interval.

    >>> Samples("flash2", Problem(), interval=1e-6, read=(0, 64), written=(32, 0)).read_bytes
    2048
    """

    provider: str
    problem: Problem
    direction: str = FORWARD
    block_q: int | None = None
    block_kv: int | None = None
    splits: int | None = None
    numbers: str = "float16"  # what Q, K and V are rounded to, as `Fp8Timing` has it
    cold: bool = True  # whether the caches were emptied before; else the same call had just run
    interval: float = 0.0  # seconds from one sample to the next
    # read, written: sectors of 32 bytes from DRAM and to it
    read: tuple[int, ...] = ()
    written: tuple[int, ...] = ()
    l2: tuple[int, ...] = ()  # sectors that passed the L2's lookup
    exponentials: tuple[int, ...] = ()  # warp instructions of the unit that computes them
    # tensor, sms: thousandths of the tensor cores' peak, and of the SMs that had work
    tensor: tuple[int, ...] = ()
    sms: tuple[int, ...] = ()
    left: int = 0  # sectors that lay dirty in L2 when the call had ended, and were written then
    spread: float = 0.0  # by how much the bytes read differed among the repeats, over their median
    repeats: int = 1
    times: Times | None = None  # of the same call, not sampled, the L2 emptied before each
    # error, allowed: greatest difference to float64 on the rows compared, and what is no bug
    error: float | None = None
    allowed: float | None = None
    commit: str | None = None  # of this project, where it is not the recording's
    skipped: str | None = None

    @property
    def seconds(self) -> float:
        """From the call's first interval to the end of its last."""
        return len(self.read) * self.interval

    @property
    def read_bytes(self) -> int:
        """Bytes from DRAM, all intervals."""
        return SECTOR * sum(self.read)

    @property
    def written_bytes(self) -> int:
        """Bytes to DRAM, those included that were still in L2 when the call ended."""
        return SECTOR * (sum(self.written) + self.left)

    @cached_property
    def kernels(self) -> tuple[tuple[int, int], ...]:
        """First interval and the one after the last of each stretch in which SMs had work."""
        busy = np.concatenate([[0], np.asarray(self.sms) > BUSY, [0]]).astype(int)
        turns = np.flatnonzero(np.diff(busy))
        return tuple(zip(turns[::2].tolist(), turns[1::2].tolist(), strict=True))

    @property
    def possible(self) -> bool:
        """Whether the columns are as long as one another and hold what a chip can count."""
        columns = (self.read, self.written, self.l2, self.exponentials, self.tensor, self.sms)
        alike = all(len(column) in (0, len(self.read)) for column in columns)
        counted = min(min(column, default=0) for column in columns) >= 0
        return alike and counted and len(self.read) <= MOST_SAMPLES and 0 <= self.interval <= 1


def nearest_samples(
    rows: Iterable[Samples],
    experiment: Experiment,
    provider: str | None = None,
    direction: str = FORWARD,
    cold: bool = True,
) -> tuple[Samples, bool] | None:
    """The sampled call nearest to a scenario, and whether it is of this very one, in the same blocks.

    Of the scenario's algorithm unless a provider is named; None where none of it was sampled. The mask comes
    first, then the head dimension, then doublings of the other sizes.

    >>> sampled = Samples("flash2", Problem(seq_q=4096, seq_kv=4096), interval=1e-6, read=(1,), written=(0,))
    >>> nearest_samples([sampled], Experiment())[1]
    False
    """
    wanted = provider or experiment.algorithm, direction, cold
    own = [row for row in rows if row.read and (row.provider, row.direction, row.cold) == wanted]
    best = nearest(own, experiment, MASK, differing(_whole), WIDTH, SIZES)
    return best and (best, _same(best, experiment))


def _whole(one: Samples | Experiment) -> bool:
    """Whether it is one sequence, with as many queries as keys."""
    return one.problem.mask.documents == 1 and one.problem.seq_q == one.problem.seq_kv


def _same(row: Samples, experiment: Experiment) -> bool:
    problem, tiling = experiment.problem, experiment.in_own_tiling().tiling
    alike = row.problem.mask.text == problem.mask.text and replace(row.problem, mask=Mask()) == replace(
        problem, mask=Mask()
    )
    blocks = (row.block_q or tiling.block_q, row.block_kv or tiling.block_kv)
    return alike and blocks == (experiment.tiling.block_q, experiment.tiling.block_kv)

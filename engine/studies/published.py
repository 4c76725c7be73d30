"""What others published of attention on their GPUs, beside the model of this project's kernels there."""

import csv
from dataclasses import dataclass
from functools import cache
from statistics import median

from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.problem.hardware import GPUS
from engine.root import ROOT

FILE = ROOT / "assets" / "published.csv"
TAKEN = ("batch", "heads", "seq", "seq_kv", "head_dim")


@dataclass(frozen=True)
class Published:
    """A published rate and the modelled one, FLOP/s of one call; causal ones count half of the scores."""

    # this project's kernel that is nearest to the one that was timed, in its own blocks
    experiment: Experiment
    kernel: str  # the one that was timed
    rate: float  # what it was published to reach
    modelled: float  # what this project's is modelled to reach
    source: str  # where it was published, and what is assumed where it does not say

    @property
    def ratio(self) -> float:
        return self.modelled / self.rate


@cache
def published() -> tuple[Published, ...]:
    """Every row of `FILE`, modelled now."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(_compared(row) for row in csv.DictReader(file))


def _compared(row: dict[str, str]) -> Published:
    causal = row["causal"] == "1"
    sizes = {name: int(row[name]) for name in TAKEN}
    one = Experiment.of(
        algorithm=row["algorithm"], hardware=row["hardware"], causal=causal, **sizes
    ).in_own_tiling()
    problem = one.problem
    scores = problem.batch * problem.heads * problem.seq_q * problem.seq_kv / (2 if causal else 1)
    rate = 4 * scores * problem.head_dim / simulate(one).modelled.seconds
    return Published(one, row["kernel"], 1e12 * float(row["tflops"]), rate, row["source"])


def median_of(hardware: str = "") -> float:
    """The median of modelled over published, of one GPU or of all rows."""
    return median(one.ratio for one in published() if hardware in ("", one.experiment.hardware))


def medians() -> dict[str, float]:
    """The same by the name of each GPU."""
    keys = dict.fromkeys(one.experiment.hardware for one in published())
    return {GPUS[key].name: median_of(key) for key in keys}

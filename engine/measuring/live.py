"""The scenario of a page on this machine's GPU, now: checked, timed, and sampled by the chip itself."""

from collections.abc import Generator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.algorithms import FORWARD
from engine.experiment import Experiment
from engine.measuring.machine import machine
from engine.measuring.sampling import sampled_row
from engine.recordings.samples import Samples
from engine.worker.jobs import JobError, Update

LIVE = "engine.measuring.live:live"
DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # of Linux, and of Windows for the Linux in it
SPREAD = 1.3  # p80 over p20, from which another process is likely to use the GPU too


@dataclass(frozen=True)
class Live:
    """One call as it was measured here.

    Attributes:
        row: its times and samples; what it lacks is said in `skipped`.
        device: the GPU.
        date: when, ISO 8601.
    """

    row: Samples
    device: str
    date: str

    @property
    def shared(self) -> bool:
        """Whether its times spread as they do where another process uses the GPU too."""
        return self.row.times is not None and self.row.times.p80 > SPREAD * self.row.times.p20


def offered() -> bool:
    """Whether this machine seems to have a GPU and what drives it: nothing is imported for the answer."""
    return any(path.exists() for path in DRIVERS) and all(map(find_spec, ("torch", "triton")))


def payload_of(experiment: Experiment, direction: str = FORWARD) -> dict[str, Any]:
    """What one measurement depends on: not the GPU that the page's model is of."""
    return {"experiment": experiment.changed(hardware=Experiment.hardware).flat(), "direction": direction}


def live(payload: dict[str, Any]) -> Generator[Update, None, Live]:
    """The job: one call, of the scenario's algorithm in its blocks."""
    experiment, direction = Experiment.of(**payload["experiment"]), payload["direction"]
    yield Update(0.1, "Importing PyTorch and Triton")
    here = machine()
    if not here.cuda:
        raise JobError("there is no GPU here that PyTorch can use")
    yield Update(0.3, "Checking the kernel against float64, timing it, and sampling its traffic")
    tiling = experiment.tiling
    blocks = () if experiment.record.chooses_tiling else (tiling.block_q, tiling.block_kv)
    row = Samples(experiment.algorithm, experiment.problem, direction, *blocks)
    if tiling.splits > 1:
        row = replace(row, splits=tiling.splits)
    found = sampled_row(row)
    if found.times is None:
        raise JobError(found.skipped)
    return Live(found, here.device, datetime.now(UTC).isoformat(timespec="seconds"))

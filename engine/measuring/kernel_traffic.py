"""What the project's own kernel requests of memory, counted while Triton's interpreter runs it."""

from collections.abc import Generator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from engine.experiment import Experiment
from engine.measuring.libraries import kernels
from engine.model.launch import schedule_of
from engine.model.simulation import simulate
from engine.root import ROOT
from engine.schedule.step import Tensor
from engine.watch.attention import watched
from engine.watch.process import Limits, run
from engine.watch.steps import NAMED, of_schedule, tile_bytes
from engine.worker.jobs import Update

COUNT = "engine.measuring.kernel_traffic:count"
NAMES = {  # the kernels' own names of what they read and write
    "Q": Tensor.Q, "K": Tensor.K, "V": Tensor.V, "O": Tensor.O, "out": Tensor.O, "lse": Tensor.LSE,
    "scores": Tensor.S, "weights": Tensor.P, "row_max": Tensor.STATISTICS, "row_sum": Tensor.STATISTICS,
    "partial": Tensor.PARTIAL, "partial_lse": Tensor.PARTIAL_LSE, "d_out": Tensor.D_O, "d_q": Tensor.D_Q,
    "d_k": Tensor.D_K, "d_v": Tensor.D_V, "delta": Tensor.DELTA, "lse_log2": Tensor.LSE_LOG2,
}  # fmt: skip
MASK = ("ranges", "seers")  # what each query sees, 12 bytes of it: the schedule counts matrices
Pair = tuple[int, int]  # bytes: the kernel's, and the schedule's


@dataclass(frozen=True)
class RealTraffic:
    """One head's bytes, those of the real kernel beside the schedule's."""

    experiment: Experiment  # what was run
    # read, written: by tensor
    read: dict[Tensor, Pair]
    written: dict[Tensor, Pair]
    # bytes of Q, K and V that come for a visit, by query block and key block
    tiles: dict[tuple[int, int], Pair]
    date: str  # when, ISO 8601

    @property
    def equal(self) -> bool:
        """Whether every tile and tensor has the same bytes in both, but for the lse that `unasked` says."""
        pairs = [*self.read.values(), *self.tiles.values()]
        pairs += [pair for tensor, pair in self.written.items() if tensor != Tensor.LSE or pair[1]]
        return all(kernel == schedule for kernel, schedule in pairs)

    @property
    def unasked(self) -> int:
        """Bytes of lse that the kernel writes for whoever asks, where the algorithm keeps none."""
        kernel, schedule = self.written.get(Tensor.LSE, (0, 0))
        return 0 if schedule else kernel


def report(file: Path, experiment: Experiment, stretch: float = 1.0) -> dict[str, Any]:
    """The project's own kernel watched, in the place of a file's; in the process that is watched."""
    mask = experiment.problem.mask.arguments(experiment.problem.seq_kv)
    attention = partial(kernels.attention, algorithm=experiment.algorithm, **mask)
    return watched(attention, replace(experiment, asked=experiment.tiling), stretch, 0, str(file), [])


def count(payload: dict[str, Any]) -> Generator[Update, None, RealTraffic]:
    """The job behind the Agreement page's traffic; its payload is a small sibling's flat values."""
    experiment = Experiment.of(**payload)
    yield Update(0.2, "Running the kernel in Triton's interpreter, every access to memory watched")
    return beside(experiment, run(ROOT / "kernels" / "dense.py", experiment, Limits(), function=__name__))


def beside(experiment: Experiment, found: dict[str, Any]) -> RealTraffic:
    """What was watched beside the schedule of the same algorithm."""
    model, schedule = simulate(experiment).traffic.requested, schedule_of(experiment)
    own = tile_bytes(found["steps"]["rows"], found["steps"]["tensors"])
    counted = tile_bytes(of_schedule(schedule), [tensor.name for tensor in NAMED])
    tiles = {tile: (own[tile], counted[tile]) for tile in sorted(own | counted)}
    read = _pairs(found["read_bytes"], model.read)
    written = _pairs(found["written_bytes"], model.written)
    return RealTraffic(experiment, read, written, tiles, datetime.now(UTC).isoformat(timespec="seconds"))


def _pairs(watched_bytes: dict[str, int], model: dict[Tensor, int]) -> dict[Tensor, Pair]:
    """Bytes by tensor, the kernel's and the schedule's, of all that either moves."""
    own = dict.fromkeys(Tensor, 0)
    for name, amount in watched_bytes.items():
        if name not in MASK:
            own[NAMES[name]] += amount
    pairs = {tensor: (own[tensor], int(model.get(tensor, 0))) for tensor in Tensor}
    return {tensor: pair for tensor, pair in pairs.items() if any(pair)}

"""What a page shows, on this machine's GPU, now: calls checked, timed, and sampled by the chip itself."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.algorithms import BACKWARD, FORWARD, backward, split_kv
from engine.experiment import Experiment
from engine.measuring.cluster import ring_here, ring_size
from engine.measuring.machine import machine, now, torch
from engine.measuring.sampling import sampled_row
from engine.measuring.sections import traced_row
from engine.measuring.trial import attempt
from engine.measuring.user_kernel import prepared_on_gpu, saved
from engine.recordings.cluster import BOTH, ClusterTimeline, ClusterTiming
from engine.recordings.counters import nearest_counters
from engine.recordings.recording import Recording, TracedCall
from engine.recordings.rows import BACKWARD_PROVIDER
from engine.recordings.samples import Samples, nearest_samples
from engine.studies.survey import HERE
from engine.worker.jobs import JobError, Update

LIVE = "engine.measuring.live:live"
DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # of Linux, and of Windows for the Linux in it
SPREAD = 1.3  # p80 over p20, from which another process is likely to use the GPU too


@dataclass(frozen=True)
class Live:
    """Calls as they were measured here."""

    rows: tuple[Samples, ...]  # one of each call, in their order; what it lacks is said in its `skipped`
    traced: tuple[TracedCall, ...]  # the blocks of the first on SMs, in every order that was asked for
    device: str  # the GPU
    date: str  # when, ISO 8601
    # the first over several GPUs, its times and what each sends; None where one GPU was asked for, or is here
    ring: tuple[ClusterTiming, ClusterTimeline] | None = None

    @property
    def origin(self) -> str:
        """Where its numbers come from, as a page says it."""
        return f"{HERE}, {self.device}, {self.date[11:16]} UTC"

    @property
    def shared(self) -> bool:
        """Whether times spread as they do where another process uses the GPU too."""
        return any(row.times is not None and row.times.p80 > SPREAD * row.times.p20 for row in self.rows)


def offered() -> bool:
    """Whether this machine seems to have a GPU and what drives it: nothing is imported for the answer."""
    return any(path.exists() for path in DRIVERS) and all(map(find_spec, ("torch", "triton")))


def payload_of(
    experiments: Sequence[Experiment], orders: Sequence[str] = (), file: Path | None = None, gpus: int = 1
) -> dict[str, Any]:
    """What one measurement depends on: not the GPU that the page's model is of.

    orders: of the first experiment's blocks, whose SMs and times are asked for too. file: whose attention is
    called in the algorithm's place, as it is saved. gpus: over at most so many the first runs as a ring, too.
    """
    calls = [each.changed(hardware=Experiment.hardware).flat() for each in experiments]
    own = {"file": str(file), "saved": saved(file)} if file else {}
    return {"calls": calls, "orders": list(orders), "gpus": gpus, **own}


def live(payload: dict[str, Any]) -> Generator[Update, None, Live]:
    """The job: every call of the payload, each in its algorithm's kernel and its blocks."""
    calls = [row_of(Experiment.of(**each)) for each in payload["calls"]]
    yield Update(0.1, "Importing PyTorch and Triton")
    here = machine()
    if not here.cuda:
        raise JobError("there is no GPU here that PyTorch can use")
    own = None
    if "file" in payload:
        yield Update(0.2, "Compiling the file's kernels where it reaches nothing")
        own = prepared_on_gpu(payload)
    rows, steps = [], len(calls) + len(payload["orders"])
    for number, row in enumerate(calls):
        what = "Checking the kernel against float64, timing it, and sampling its traffic"
        yield Update(0.2 + 0.8 * number / steps, f"{what}: call {number + 1} of {len(calls)}")
        measured, reason = attempt(partial(sampled_row, row, repeats=1, prepare=own), cuda=True)
        rows.append(measured or replace(row, skipped=reason))
    if all(row.times is None for row in rows):
        raise JobError(rows[0].skipped)
    first, ring = calls[0], None
    if (gpus := ring_size(first.problem, min(payload["gpus"], torch.cuda.device_count()))) > 1:
        yield Update(0.5, f"Running the ring on {gpus} GPUs, in processes of its own")
        torch.cuda.empty_cache()
        ring = ring_here(first.problem, FORWARD if first.direction == FORWARD else BOTH, gpus)
    traced = []
    for number, order in enumerate(payload["orders"], len(calls)):
        yield Update(0.2 + 0.8 * number / steps, "Writing down which block ran on which SM, and when")
        call = TracedCall(first.provider, order, first.problem, first.block_q, first.block_kv)
        traced.append(traced_row(call))
    torch.cuda.empty_cache()  # others use this GPU too
    return Live(tuple(rows), tuple(traced), here.device, now(), ring)


def row_of(experiment: Experiment) -> Samples:
    """The call of an experiment, before it is measured."""
    if experiment.algorithm == backward.ALGORITHM.key:
        return Samples(BACKWARD_PROVIDER, experiment.problem, BACKWARD)
    tiling = experiment.tiling
    own = experiment.record.chooses_tiling or tiling.own
    blocks = () if own else (tiling.block_q, tiling.block_kv)
    splits = tiling.splits if experiment.algorithm == split_kv.ALGORITHM.key else None
    return Samples(experiment.algorithm, experiment.problem, FORWARD, *blocks, splits=splits)


def recorded_like(recording: Recording, experiment: Experiment) -> tuple[float, float, float, bool] | None:
    """Bytes read and written and seconds of the very same call, and whether it was sampled or profiled."""
    row = row_of(experiment)
    sampled, same = nearest_samples(recording.samples, experiment, row.provider, row.direction) or (
        None,
        False,
    )
    if same and sampled.times and sampled.splits == row.splits:
        return sampled.read_bytes, sampled.written_bytes, sampled.times.p50, True
    counted, same = nearest_counters(recording, experiment) or (None, False)
    return (counted.dram_read, counted.dram_written, counted.seconds, False) if same else None

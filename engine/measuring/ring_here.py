"""A ring on this machine's GPUs, timed and sampled in processes that are begun for it, one a GPU."""

import os
import pickle
import socket
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.algorithms import FORWARD
from engine.measuring import sampling
from engine.measuring.cluster import Contender, contenders, passed, random_tensors, rows_of
from engine.measuring.libraries import torch
from engine.measuring.ranks import Ranks
from engine.model.cluster.spread import RING
from engine.problem.problem import Problem
from engine.recordings.cluster import ClusterTimeline, ClusterTiming, GpuMarks
from engine.worker.jobs import JobError


def ring_size(problem: Problem, most: int) -> int:
    """The most GPUs whose two chunks each are alike."""
    return next(gpus for gpus in range(max(most, 1), 0, -1) if gpus == 1 or problem.seq_q % (2 * gpus) == 0)


def ring_here(
    problem: Problem, direction: str, gpus: int, provider: str = RING
) -> tuple[ClusterTiming, ClusterTimeline]:
    """Its times, checked against float64 first, and what each GPU sends in the forward pass; raises JobError.

    Either row may say instead why it has nothing.
    """
    from torch.multiprocessing import spawn
    from torch.multiprocessing.spawn import ProcessException

    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        file, port = Path(folder, "found"), free.getsockname()[1]
        free.close()
        try:
            spawn(_rank, (gpus, port, file, problem, direction, provider), gpus)
        except ProcessException as error:
            raise JobError(f"the ring ended: {str(error).strip().splitlines()[-1]}") from None
        return pickle.loads(file.read_bytes())


def _rank(
    rank: int, gpus: int, port: int, file: Path, problem: Problem, direction: str, provider: str
) -> None:
    """One process of the ring; the first writes down what all found."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(gpus))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    ranks = Ranks()
    one = next(each for each in contenders(ranks) if each.provider == provider)
    (timing,) = rows_of(ranks, problem, direction, [one])
    lanes = ClusterTimeline(provider, FORWARD, problem, gpus, skipped=timing.skipped)
    if timing.times:
        lanes = _with_sent(ranks, lanes, one, timing.times.median)
    if ranks.first:
        file.write_bytes(pickle.dumps((timing, lanes)))
    ranks.close()


def _with_sent(ranks: Ranks, row: ClusterTimeline, one: Contender, seconds: float) -> ClusterTimeline:
    """A row with what each GPU sends; every rank samples its own."""
    tensors = random_tensors(ranks, row.problem, row.problem.seq_q // ranks.size, ranks.rank)
    call = partial(passed, one, tensors, row.problem.mask.causal, FORWARD)

    def together() -> None:
        ranks.align()
        torch.cuda.synchronize()
        call()

    interval = sampling.interval_of(seconds, sampling.SENT_OFTEN)
    with ExitStack() as stack:
        samples = partial(stack.enter_context, sampling.link_collector(interval))
        collector, sentence = ranks.attempt(samples)
        if sentence is None:  # else one would wait for another that does not sample
            found, sentence = ranks.attempt(partial(sampling.sent, collector, together))
    if sentence:
        return replace(row, skipped=sentence)
    marks = tuple(GpuMarks((), (), (), sent) for sent in ranks.every(found))
    return replace(row, marks=marks, interval=interval * 1e-9)

"""Two processes over gloo measure a ring as several GPUs would be; prints what each found, as JSON.

Torch is imported once, then the ranks are forked.
"""

import json
import multiprocessing
import os
import sys
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # on a machine with a GPU, too, the ranks are processes of the CPU

import kernels.interpreter  # noqa: F401, I001 (before anything else imports triton)

from torch.distributed import TCPStore

from engine.measuring import cluster, sampling
from engine.measuring.clock import Repeats
from engine.measuring.cluster import _with_sent, timeline_of
from engine.measuring.ranks import Ranks
from engine.problem.problem import Mask, Problem

PROBLEM = Problem(1, 2, 2, 16, 16, 16, "float32", Mask(causal=True))


def wrong(contender: cluster.Contender) -> cluster.Contender:
    """The same with one number of every result off."""
    return cluster.Contender(
        "wrong", "wrong", lambda q, k, v, causal: contender.call(q, k, v, causal) + 1e-3, contender.sharded
    )


def work(rank: int, port: int, pipe) -> None:
    """One rank, as torchrun starts it: it meets the others at a port that is served already."""
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    ranks = Ranks()
    every = {one.provider: one for one in cluster.contenders(ranks)}
    entered = [every["ring"], every["ring_send"], wrong(every["ring_send"])]
    with mock.patch.object(cluster, "IN_TURNS", Repeats(1, 1, 0.0)):
        rows = cluster.rows_of(ranks, PROBLEM, "forward", entered)
    lanes = timeline_of(ranks, PROBLEM, every["ring"])
    unsampled = _with_sent(ranks, replace(lanes, skipped=None), every["ring_send"], 1e-3)
    with (
        mock.patch.object(sampling, "link_collector", return_value=nullcontext(ranks.rank)),
        mock.patch.object(sampling, "sent", return_value=(1e-6, (ranks.rank, 7))),
    ):
        sampled = _with_sent(ranks, replace(lanes, skipped=None), every["ring_send"], 1e-3)
    pipe.send([[asdict(row) for row in rows], *map(asdict, (lanes, unsampled, sampled))])
    ranks.close()


def main() -> None:
    """Fork two ranks and print what they found."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe(False) for _ in range(2)]
    processes = [context.Process(target=work, args=(rank, store.port, pipes[rank][1])) for rank in range(2)]
    for process in processes:
        process.start()
    found = [pipe.recv() for pipe, _ in pipes]
    for process in processes:
        process.join()
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""Runs many calls of ring attention in process groups over gloo, and prints what came of each as JSON.

    python distributed_ranks.py RANKS:SET ...

Torch is imported once, then the ranks are forked. Most cases take a rank's own attention from a dense twin in
float64, which is fast, and so does the rest; those with `kernels` from the kernels themselves, interpreted.
"""

import json
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
import warnings
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # on a machine with a GPU, too, the ranks are processes of the CPU

import kernels.interpreter  # noqa: F401, I001 (before anything else imports triton)
import torch
import torch.distributed as dist
import torch.utils.checkpoint
from distributed_cases import EVERY, INTERPRETED, Case, Files, arranged, forgotten, ran
from torch.distributed.device_mesh import init_device_mesh
from kernels.distributed import explain, ring_attention, shard, team, unshard

SHORT = 3.0  # s that a rank waits for one that is lost
LONG = 3600.0  # s: until it is ended


def said(call) -> str:
    """The error of a call, or what it returned."""
    try:
        return str(call())
    except Exception as error:  # any: it is what the test looks at
        return f"{type(error).__name__}: {error}"


def sentences(rank: int) -> dict:
    """What this rank is told where the ranks differ, and where something cannot be had."""
    forgotten()
    t = torch.ones(1, 2, 6 + rank, 8)
    odd = rank == 1
    calls = {
        "dtype": lambda: ring_attention(*[t[:, :, :6].to(torch.float16 if odd else torch.float32)] * 3),
        "causal": lambda: ring_attention(*[t[:, :, :6]] * 3, causal=odd),
        "window": lambda: ring_attention(*[t[:, :, :6]] * 3, window=4 + odd),
        "tokens": lambda: ring_attention(*[t] * 3, causal=True),
        "gradient": lambda: ring_attention(*[t[:, :, :6].clone().requires_grad_(odd)] * 3),
        "one rank's error": lambda: ring_attention(t, t.half() if odd else t, t),
        "method": lambda: ring_attention(*[t[:, :, :6]] * 3, method="spiral"),
        "heads": lambda: ring_attention(t[:, :, :6], *[t[:, :1, :6]] * 2, method="all_to_all"),
        "unshard": lambda: unshard(t[:, :, : 6 - odd], causal=False),
        "unshard with gradient": lambda: unshard(t.clone().requires_grad_(), causal=False),
        "few tokens": lambda: shard(t[:, :, :3], causal=True),
        "explain": lambda: explain(*[t[:, :, :6]] * 3),
    }
    found = {name: said(call) for name, call in calls.items()}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        ring_attention(*[t[:, :, :6]] * 3, method="ring")
    found["no copy engines"] = [str(each.message) for each in heard]
    return found


def round_trips() -> bool:
    """Whether unshard gives back what shard took apart."""
    t = torch.arange(2 * 3 * 21 * 5, dtype=torch.bfloat16).view(2, 3, 21, 5)
    return all(torch.equal(unshard(shard(t, causal=causal), causal=causal), t) for causal in (True, False))


def by_mesh() -> bool:
    """Whether a DeviceMesh serves for its group."""
    t = torch.randn(1, 2, 6, 8, generator=torch.Generator().manual_seed(0))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return torch.equal(ring_attention(t, t, t, group=mesh), ring_attention(t, t, t))


def around() -> dict:
    """Whether torch.compile and checkpointing leave the call as it is, around it and in its gradient."""
    t = torch.randn(1, 2, 6, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def block(t):
        return (ring_attention(2 * t, t, t.sin(), causal=True) + 1).sum()

    ways = {"compiled": torch.compile(block, backend="eager")}
    ways["checkpointed"] = partial(torch.utils.checkpoint.checkpoint, block, use_reentrant=False)
    expected, *found = (torch.autograd.grad(run(t), t)[0] for run in (block, *ways.values()))
    return {name: torch.allclose(one, expected) for name, one in zip(ways, found, strict=True)}


def silent(rank: int, ranks: int, pipe) -> str:
    """What a rank is told when the last one falls silent before a call."""
    forgotten()
    t = torch.ones(1, 1, 6, 8)
    ring_attention(t, t, t)
    # from now on: on a busy machine the ranks take longer to find each other
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=SHORT), team.team_of(None, t.device).side)
    if rank == ranks - 1:
        pipe.send({})
        time.sleep(LONG)
    start = time.monotonic()
    return f"{said(lambda: ring_attention(t, t, t, window=3))} ({time.monotonic() - start:.1f} s)"


def beside_cases(rank: int, ranks: int, what: str, pipe) -> dict:
    """What one rank found in the rest of a set."""
    if what == "results":
        return {}
    if what == "others":
        return {"sentences": sentences(rank), "round trips": round_trips(), "by mesh": by_mesh()}
    if what == "around":
        return around()
    return {what: silent(rank, ranks, pipe)}


def work(rank: int, ranks: int, what: str, folder: str, pipe) -> None:
    """One rank: what it found, by name, or why it found nothing."""
    torch.set_num_threads(1)
    found = {}
    try:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
        files = Files(folder)
        if what == "results":
            for case in EVERY:
                again = case.name.startswith(("causal-", "window-far-"))  # of every method
                found[case.name] = ran(case, files, turns=1 + again)
        elif what == "others":
            for case in INTERPRETED:
                found[case.name] = ran(case, files, turns=1)
        with arranged(Case(what), files):
            found |= beside_cases(rank, ranks, what, pipe)
    except BaseException:
        found["failed"] = traceback.format_exc()
    pipe.send(found)
    time.sleep(LONG)  # until all are done: a rank that ends is missed by the others


def started(name: str, context, inside: str) -> tuple[list, list]:
    """The processes of a set's ranks, and the pipes on which each says what it found."""
    ranks, what = int(name.split(":")[0]), name.split(":")[1]
    folder = tempfile.mkdtemp(dir=inside)
    pipes = [context.Pipe(False) for _ in range(ranks)]
    processes = [
        context.Process(target=work, args=(rank, ranks, what, folder, pipes[rank][1]))
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    return processes, [pipe for pipe, _ in pipes]


def main() -> None:
    """Fork the ranks of each set in turn; print what each rank found, by RANKS:SET."""
    import_module("torch._dynamo")  # takes seconds, of which the ranks are spared
    context, found = multiprocessing.get_context("fork"), {}
    with tempfile.TemporaryDirectory() as inside:
        for name in sys.argv[1:]:
            processes, pipes = started(name, context, inside)
            found[name] = [pipe.recv() for pipe in pipes]
            for process in processes:
                process.kill()
                process.join()
    print(json.dumps(found))


if __name__ == "__main__":
    main()

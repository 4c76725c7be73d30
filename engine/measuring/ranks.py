"""This process among those that torchrun started: its GPU, what all agree on, and their clock.

On a CPU the same runs over gloo. Imports torch when called.
"""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from engine.measuring import clock
from engine.measuring.machine import distributed, torch
from engine.measuring.trial import plain_sentence
from engine.worker.jobs import JobError

PATIENCE = 120  # seconds that a rank waits for the others
AHEAD = 64  # passes over a buffer before each timed call: the host gets about 7 ms ahead of the GPU
QUIET = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}  # NVLink multicast stays off


def started() -> bool:
    """Whether torchrun started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


class Ranks:
    """All of them as one sees them; JobError where torchrun did not start this process."""

    def __init__(self):
        if not started():
            raise JobError(
                "several GPUs are measured by torchrun: torchrun --nproc-per-node GPUS -m engine measure "
                "--gpus GPUS …"
            )
        os.environ.update(QUIET)
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.cuda = torch.cuda.is_available()
        self.device = torch.device("cpu")
        if self.cuda:
            local = int(os.environ.get("LOCAL_RANK", self.rank))
            torch.cuda.set_device(local)
            self.device = torch.device("cuda", local)
            self._filler = torch.empty(clock.FLUSH_BYTES // 4, dtype=torch.float32, device=self.device)
        else:
            torch.set_num_threads(1)
        backend = "cpu:gloo,cuda:nccl" if self.cuda else "gloo"
        distributed.init_process_group(backend, timeout=timedelta(seconds=PATIENCE))
        self._control = distributed.new_group(backend="gloo", timeout=timedelta(seconds=PATIENCE))
        self._token = torch.zeros(1, device=self.device)
        self.align()

    @property
    def first(self) -> bool:
        """Whether this rank speaks and writes for all."""
        return self.rank == 0

    def close(self) -> None:
        """Leave the group."""
        distributed.destroy_process_group()

    def align(self) -> None:
        """The GPUs (on a CPU, the processes) are at one point."""
        distributed.all_reduce(self._token)

    def over(self, value: float) -> float:
        """The largest value of all ranks; the same on each."""
        return max(self.every(float(value)))

    def every(self, said: Any) -> list[Any]:
        """What each rank says, in order."""
        told: list[Any] = [None] * self.size
        distributed.all_gather_object(told, said, group=self._control)
        return told

    def attempt(self, action: Callable[[], Any]) -> tuple[Any, str | None]:
        """What an action gives, or why not on the first rank where it failed; the same answer on each."""
        found, sentence = None, None
        try:
            found = action()
            if self.cuda:
                torch.cuda.synchronize()
        except (RuntimeError, ValueError, TypeError, ImportError, UserWarning, JobError) as error:
            sentence = plain_sentence(error)
        sentences = [each for each in self.every(sentence) if each]
        return (None, sentences[0][:300]) if sentences else (found, None)

    def timed(self, call: Callable[[], Any]) -> tuple[float, float]:
        """(seconds of a call that all ranks start together, of the slowest; seconds of the host)."""
        if not self.cuda:
            self.align()
            begin = time.perf_counter()
            call()
            spent = self.over(time.perf_counter() - begin)
            return spent, spent
        for _ in range(AHEAD):
            self._filler.zero_()
        self.align()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        host = time.perf_counter()
        call()
        host = time.perf_counter() - host
        end.record()
        end.synchronize()
        return self.over(begin.elapsed_time(end) / 1e3), self.over(host)

"""A thread that ends the process, with one sentence, where the GPU waits for a rank that does not come.

The GPU writes into the host's memory how far it came, so that no call of CUDA is needed to see it: a GPU that
waits for ever would block one.
"""

import os
import sys
import threading
import time

import torch

from kernels.distributed import team as waiting
from kernels.distributed.lanes import Lanes
from kernels.distributed.team import PeerLostError, Team

TICKS = 1024
ANSWER = 5.0  # seconds that a rank has to say that it waits too
EXIT = 1


class Watch:
    """How many calls this rank has given its GPU, and how many are done."""

    @torch.inference_mode(False)  # what is written by later calls must not be of that mode
    def __init__(self, team: Team):
        self.team, self.given, self.changed = team, 0, time.monotonic()
        on_gpu = team.device.type == "cuda"
        self.ticks = torch.arange(TICKS, dtype=torch.int64, device=team.device)
        self.reached = torch.zeros(1, dtype=torch.int64, pin_memory=on_gpu)
        threading.Thread(target=self._look, daemon=True, name="ring attention's watch").start()

    def note(self) -> None:
        """One more call has been given to the current stream."""
        lanes = Lanes(self.team.device)
        lanes.fork()
        if not self.outstanding():
            self.changed = time.monotonic()
        self.given = (self.given + 1) % TICKS
        tick = self.ticks[self.given : self.given + 1]
        with lanes.transferring():  # so that the caller's stream need not wait for the copy
            self.reached.copy_(tick, non_blocking=True)

    def outstanding(self) -> int:
        """Calls that the GPU has not come to the end of."""
        return (self.given - int(self.reached)) % TICKS

    def _look(self) -> None:
        seen = int(self.reached)
        while True:
            time.sleep(min(1.0, waiting.PATIENCE / 10))
            if (now := int(self.reached)) != seen:
                seen, self.changed = now, time.monotonic()
            if self.outstanding() and time.monotonic() - self.changed > waiting.PATIENCE:
                self._end()

    def _end(self) -> None:
        """Name the ranks whose own watch says nothing, and end."""
        try:
            self.team.exchange({"waits": True}, patience=ANSWER, tag=waiting.TAGS)
            sentence = f"all ranks wait for each other since {waiting.PATIENCE:.0f} s: their calls differ"
        except PeerLostError as error:
            sentence = str(error)
        sys.stderr.write(f"{sentence}; rank {self.team.rank} ends its process\n")
        sys.stderr.flush()
        os._exit(EXIT)

"""The streams of a GPU that a call uses; on a CPU nothing runs ahead, and waiting is for messages alone."""

from contextlib import nullcontext
from functools import cache

import torch


class Lanes:
    """The caller's stream and a second one, on which parts take turns, and one for transfers before both.

    The next part starts in the second stream on the SMs that the last blocks of the one before leave idle.
    """

    def __init__(self, device: torch.device):
        self.cuda = device.type == "cuda"
        if self.cuda:
            self.main = torch.cuda.current_stream(device)
            self.second, self.transfers = _streams(device)

    def fork(self) -> None:
        """The other lanes wait for all that the caller's stream has been given."""
        if self.cuda:
            event = self.main.record_event()
            self.second.wait_event(event)
            self.transfers.wait_event(event)

    def meet(self) -> None:
        """The caller's stream waits for the second one."""
        if self.cuda:
            self.main.wait_stream(self.second)

    def join(self) -> None:
        """The caller's stream waits for the others."""
        if self.cuda:
            self.main.wait_stream(self.second)
            self.main.wait_stream(self.transfers)

    def computing(self, turn: int):
        """A context whose kernels go to the stream of a turn."""
        return torch.cuda.stream(self.second) if self.cuda and turn % 2 else nullcontext()

    def transferring(self):
        """A context whose work goes to the stream of the transfers."""
        return torch.cuda.stream(self.transfers) if self.cuda else nullcontext()

    def mark(self):
        """An event on the current stream; None on a CPU."""
        return torch.cuda.current_stream().record_event() if self.cuda else None

    def after(self, mark) -> None:
        """The current stream waits for a mark; on a CPU this process waits for messages."""
        if mark is None:
            return
        if self.cuda:
            torch.cuda.current_stream().wait_event(mark)
        else:
            mark.wait()


@cache
def _streams(device: torch.device) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    return torch.cuda.Stream(device), torch.cuda.Stream(device, priority=-1)

"""The streams of a GPU that a call uses; on a CPU nothing runs ahead, and waiting is for messages alone."""

from contextlib import nullcontext
from functools import cache

import torch


class Lanes:
    """The caller's stream, and one for transfers, whose few blocks of threads go before all others."""

    def __init__(self, device: torch.device):
        self.cuda = device.type == "cuda"
        if self.cuda:
            self.main = torch.cuda.current_stream(device)
            self.transfers = transfer_stream(device)

    def fork(self) -> None:
        """Transfers wait for all that the caller's stream has been given."""
        if self.cuda:
            self.transfers.wait_stream(self.main)

    def join(self) -> None:
        """The caller's stream waits for the transfers."""
        if self.cuda:
            self.main.wait_stream(self.transfers)

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

    def outgoing(self, tensor: torch.Tensor) -> torch.Tensor:
        """A [batch, heads, rows, columns] tensor as the bytes of its rows, kept for the transfers."""
        rows = tensor.permute(2, 0, 1, 3).contiguous()
        if self.cuda:
            rows.record_stream(self.transfers)
        return rows.view(-1).view(torch.uint8)


@cache
def transfer_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream for transfers of a GPU."""
    return torch.cuda.Stream(device, priority=-1)

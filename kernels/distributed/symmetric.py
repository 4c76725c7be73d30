"""Transfers by copy engines, without an SM: every rank maps the others' memory, copies from it and to it."""

import os
from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernels.distributed.lanes import Lanes
from kernels.distributed.layout import Transfer
from kernels.distributed.team import Team

GRAIN = 2**21  # bytes: memory is asked for in multiples, so that it seldom has to grow
Plane = tuple[int, int, torch.Tensor]  # bytes from the start of what all ranks have, bytes a row, own bytes


@dataclass(frozen=True)
class Shared:
    """Memory that all ranks map: every rank's bytes, and a barrier of all ranks on the current stream."""

    buffers: list[torch.Tensor]
    barrier: Callable[[int], None]


def unavailable(team: Team) -> str | None:
    """One sentence on why the ranks cannot map each other's memory, or None where they may try."""
    if any(member["device"] != "cuda" for member in team.members):
        return "copy engines are a GPU's, and not every rank's tensors are on one"
    if len({member["host"] for member in team.members}) > 1:
        return "copy engines reach the GPUs of one host, and the ranks are on several"
    own, visible = team.device.index, torch.cuda.device_count()
    for rank, member in enumerate(team.members):
        other = member["index"]
        if other != own and other < visible and not torch.cuda.can_device_access_peer(own, other):
            return f"GPU {own} of rank {team.rank} has no peer access to GPU {other} of rank {rank}"
    return None


@torch.inference_mode(False)  # what is written by later calls must not be of that mode
def rendezvous(team: Team, size: int) -> Shared:
    """`size` bytes on every rank, mapped by all; every rank calls it. RuntimeError where that fails."""
    import torch.distributed._symmetric_memory as symmetric_memory

    os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")  # of no use to copies between two GPUs
    own = symmetric_memory.empty(size, dtype=torch.uint8, device=team.device)
    handle = symmetric_memory.rendezvous(own, team.group.group_name)
    buffers = [handle.get_buffer(rank, (size,), torch.uint8) for rank in range(team.size)]
    buffers[team.rank] = own
    return Shared(buffers, lambda channel: handle.barrier(channel=channel))


class CopyEngines:
    """What a call moves: K and V fetched from where their owners published them, results put into inboxes.

    There are two places to publish, used in turn. The barrier of a call then also says that all have read
    what was published in the call before, and none is needed at its end.
    """

    name = "copy engines"

    def __init__(self, team: Team):
        self.team = team
        self.shared, self.published, self.inbox, self.turn = None, 0, 0, 0
        self.captured: list[Shared] = []  # graphs go on using what memory they were captured with

    def open(self, lanes: Lanes, published: int, inbox: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Bytes to publish in and bytes that others put results into; the same sizes on all ranks."""
        self.lanes = lanes
        if published > self.published or inbox > self.inbox:
            self._grow(published, inbox)
        self._meet_if_captured()
        self.turn = 1 - self.turn
        own = self.shared.buffers[self.team.rank]
        start = self.turn * self.published
        return own[start : start + published], own[2 * self.published :][:inbox]

    def ready(self) -> None:
        """What this rank published may be read, and its inbox written, once all ranks are here."""
        self.lanes.fork()
        with self.lanes.transferring():
            self.shared.barrier(0)

    def fetch(self, transfers: tuple[Transfer, ...], planes: list[Plane]):
        """Start what brings this rank its rows, to planes' own bytes; a mark to wait for."""
        with self.lanes.transferring():
            for each in transfers:
                if each.target == self.team.rank:
                    theirs = self.shared.buffers[each.source]
                    for at, width, own in planes:
                        start = self.turn * self.published + at + each.take * width
                        _copy(theirs, start, own, each.put * width, each.rows * width)
            return self.lanes.mark()

    def deliver(self, transfers: tuple[Transfer, ...], planes: list[Plane]) -> None:
        """Start, once the current stream is done, what brings this rank's rows to the owners' inboxes."""
        computed = self.lanes.mark()
        with self.lanes.transferring():
            self.lanes.after(computed)
            for each in transfers:
                if each.source == self.team.rank:
                    theirs = self.shared.buffers[each.target]
                    for at, width, own in planes:
                        start = 2 * self.published + at + each.put * width
                        _copy(own, each.take * width, theirs, start, each.rows * width)

    def settle(self) -> None:
        """The caller's stream waits until all ranks have delivered."""
        self.lanes.join()
        self.shared.barrier(1)

    def close(self) -> None:
        """The end of a call."""
        self.lanes.join()
        self._meet_if_captured()

    def _meet_if_captured(self) -> None:
        """A captured call publishes in one place at every replay: all ranks meet before it and after."""
        if self.lanes.cuda and torch.cuda.is_current_stream_capturing():
            self.shared.barrier(1)
            self.captured = [self.shared, *(each for each in self.captured if each is not self.shared)]

    def _grow(self, published: int, inbox: int) -> None:
        if self.lanes.cuda:
            torch.cuda.synchronize(self.team.device)
        self.team.exchange({})  # all have read what is here
        self.published = _rounded(max(published, self.published))
        self.inbox = _rounded(max(inbox, self.inbox))
        self.shared = None
        self.shared = rendezvous(self.team, 2 * self.published + self.inbox)


def _copy(source: torch.Tensor, take: int, target: torch.Tensor, put: int, size: int) -> None:
    target.narrow(0, put, size).copy_(source.narrow(0, take, size), non_blocking=True)


def _rounded(size: int) -> int:
    return -(-size // GRAIN) * GRAIN

"""What moves bytes between ranks, by the same steps: copy engines, without an SM, or send and receive.

By copy engines every rank maps the others' memory, copies from it and to it. On a CPU nothing runs ahead, and
waiting is for messages alone.
"""

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache

import torch
import torch.distributed as dist

from kernels.distributed import team as waiting
from kernels.distributed.layout import Transfer
from kernels.distributed.team import TAGS, Messages, Team, peers_lost


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
    patience = int(1000 * waiting.PATIENCE)  # ms, after which the GPU gives up a rank that does not come
    return Shared(buffers, lambda channel: handle.barrier(channel=channel, timeout_ms=patience))


class CopyEngines:
    """What a call moves: K and V fetched from where their owners published them, results put into inboxes.

    There are two places to publish, used in turn. The barrier of a call then also says that all have read
    what was published in the call before, and none is needed at its end.
    """

    name = "copy engines"

    def __init__(self, team: Team):
        self.team = team
        self.shared, self.published, self.inbox, self.turn = None, 0, 0, 0

    def open(self, lanes: Lanes, published: int, inbox: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Bytes to publish in and bytes that others put results into; the same sizes on all ranks."""
        self.lanes = lanes
        if published > self.published or inbox > self.inbox:
            self._grow(published, inbox)
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


class SendReceive:
    """As `CopyEngines`, but the owner sends what a rank fetches."""

    name = "send and receive"

    def __init__(self, team: Team):
        self.team = team

    def open(self, lanes: Lanes, published: int, inbox: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Bytes to publish in and bytes that others put results into."""
        self.lanes, self.under_way = lanes, []
        self.group = self.team.transfers()
        device = self.team.device
        self.published = torch.empty(published, dtype=torch.uint8, device=device)
        self.inbox = torch.empty(inbox, dtype=torch.uint8, device=device)
        return self.published, self.inbox

    def ready(self) -> None:
        """What this rank published may be sent."""
        self.lanes.fork()

    def fetch(self, transfers: tuple[Transfer, ...], planes: list[Plane]):
        """Start the transfers of all ranks that this one has a part in; a mark to wait for."""
        outgoing = [(self.published[at:], width) for at, width, _ in planes]
        incoming = [(own, width) for _, width, own in planes]
        with self.lanes.transferring():
            return self._exchange(transfers, outgoing, incoming)

    def deliver(self, transfers: tuple[Transfer, ...], planes: list[Plane]) -> None:
        """Start, once the current stream is done, what brings this rank's rows to the owners' inboxes."""
        outgoing = [(own, width) for _, width, own in planes]
        incoming = [(self.inbox[at:], width) for at, width, _ in planes]
        computed = self.lanes.mark()
        with self.lanes.transferring():
            self.lanes.after(computed)
            self._exchange(transfers, outgoing, incoming)

    def settle(self) -> None:
        """The caller's stream waits until all that this rank sends and gets is there."""
        for messages in self.under_way:
            messages.wait()
        self.under_way = []
        self.lanes.join()

    def close(self) -> None:
        """The end of a call."""
        self.settle()

    def _exchange(self, transfers, outgoing, incoming):
        rank = self.team.rank
        tag = self.team.next_tag(len(transfers) * len(outgoing))
        operations = []
        for each in transfers:
            for (source, width), (target, _) in zip(outgoing, incoming, strict=True):
                taken = slice(each.take * width, (each.take + each.rows) * width)
                placed = slice(each.put * width, (each.put + each.rows) * width)
                if each.source == each.target == rank:
                    target[placed].copy_(source[taken])
                elif each.source == rank:
                    operations.append((dist.isend, source[taken], each.target, tag))
                elif each.target == rank:
                    operations.append((dist.irecv, target[placed], each.source, tag))
                tag += 1
        if self.lanes.cuda:
            return self._by_nccl(operations)
        works = []
        for call, tensor, peer, number in operations:
            side = "group_dst" if call is dist.isend else "group_src"
            try:
                works.append((peer, call(tensor, group=self.group, tag=number % TAGS, **{side: peer})))
            except RuntimeError:
                raise peers_lost(rank, [peer]) from None
        messages = Messages(rank, works)
        self.under_way.append(messages)
        return messages

    def _by_nccl(self, operations):
        batch = [
            dist.P2POp(call, tensor, group=self.group, group_peer=peer)
            for call, tensor, peer, _ in operations
        ]
        for work in dist.batch_isend_irecv(batch) if batch else ():
            work.wait()  # the stream of the transfers does, not the host
        return self.lanes.mark()

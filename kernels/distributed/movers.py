"""What moves rows between ranks: copy engines, which take no SM, or PyTorch's send and receive.

What moves is K and V, or their gradients, as a pair of [rows, bytes]: published for others to fetch, or
delivered to the inbox of the keys' owner. By copy engines every rank maps the others' memory.
"""

import os
import socket
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
import torch.distributed as dist

from kernels.distributed import team as waiting
from kernels.distributed.layout import Transfer
from kernels.distributed.team import Team

Pair = torch.Tensor | list[torch.Tensor]


class Lanes:
    """The caller's stream, and one for transfers, whose few blocks of threads go before all others.

    On a CPU neither runs ahead, and messages alone are waited for.
    """

    def __init__(self, device: torch.device):
        self.device_module = torch.get_device_module(device)
        self.main = self.device_module.current_stream()
        self.transfers = transfer_stream(device)

    def fork(self) -> None:
        """Transfers wait for all that the caller's stream has been given."""
        self.transfers.wait_stream(self.main)

    def join(self) -> None:
        """The caller's stream waits for the transfers."""
        self.main.wait_stream(self.transfers)

    def transferring(self):
        """A context whose work goes to the stream of the transfers."""
        return self.device_module.stream(self.transfers)

    def mark(self) -> list[Any]:
        """What waits for the current stream as it is now: an event, or nothing on a CPU."""
        event = self.device_module.current_stream().record_event()
        return [] if event is None else [event]

    def outgoing(self, tensor: torch.Tensor) -> torch.Tensor:
        """A [batch, heads, rows, columns] tensor as the bytes of its rows, kept for the transfers."""
        rows = tensor.permute(2, 0, 1, 3).contiguous()
        if rows.is_cuda:
            rows.record_stream(self.transfers)
        return rows.flatten(1).view(torch.uint8)


@cache
def transfer_stream(device: torch.device):
    """The stream for transfers of a device, which is the current one."""
    return torch.get_device_module(device).Stream(priority=-1)


def after(marks: list[Any]) -> None:
    """The current stream waits for marks, which are taken off; on a CPU this process waits for messages."""
    while marks:
        marks.pop().wait()


def _slices(each: Transfer, source: Pair, target: Pair):
    """The rows of both of a pair, (taken, placed), of one transfer."""
    for taken, placed in zip(source, target, strict=True):
        yield taken[each.take : each.take + each.rows], placed[each.put : each.put + each.rows]


GRAIN = 2**21  # bytes: memory is asked for in multiples, so that it seldom has to grow


def unavailable(team: Team) -> str | None:
    """One sentence on why the ranks cannot map each other's memory, or None where they may try; all ask."""
    own, visible = team.device.index, torch.cuda.device_count()
    told = team.exchange((socket.gethostname(), team.device.type, own))
    if any(kind != "cuda" for _, kind, _ in told):
        return "copy engines are a GPU's, and not every rank's tensors are on one"
    if len({host for host, _, _ in told}) > 1:
        return "copy engines reach the GPUs of one host, and the ranks are on several"
    for rank, (_, _, other) in enumerate(told):
        if other != own and other < visible and not torch.cuda.can_device_access_peer(own, other):
            return f"GPU {own} of rank {team.rank} has no peer access to GPU {other} of rank {rank}"
    return None


@torch.inference_mode(False)  # what is written by later calls must not be of that mode
def rendezvous(team: Team, size: int) -> tuple[list[torch.Tensor], Callable[[int], None]]:
    """`size` bytes of every rank, mapped by all, and a barrier of all ranks on the current stream.

    Every rank calls it. RuntimeError where that fails.
    """
    import torch.distributed._symmetric_memory as symmetric_memory

    os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")  # of no use to copies between two GPUs
    own = symmetric_memory.empty(size, dtype=torch.uint8, device=team.device)
    handle = symmetric_memory.rendezvous(own, team.group.group_name)
    buffers = [handle.get_buffer(rank, (size,), torch.uint8) for rank in range(team.size)]
    buffers[team.rank] = own
    patience = int(1000 * waiting.PATIENCE)  # ms, after which the GPU gives up a rank that does not come
    return buffers, lambda channel: handle.barrier(channel=channel, timeout_ms=patience)


class CopyEngines:
    """What a call moves: K and V fetched from where their owners published them, results put into inboxes.

    There are two places to publish, used in turn. The barrier of a call then also says that all have read
    what was published in the call before, and none is needed at its end.
    """

    name = "copy engines"

    def __init__(self, team: Team):
        self.team = team
        self.buffers, self.barrier, self.sizes, self.turn = None, None, (0, 0), 0

    def open(self, lanes: Lanes, width: int, published: int, inbox: int) -> tuple[Pair, Pair]:
        """Where to publish rows of `width` bytes, and where others put results; alike on all ranks."""
        self.lanes = lanes
        sizes = [2 * rows * width for rows in (published, inbox)]
        if any(size > here for size, here in zip(sizes, self.sizes, strict=True)):
            self._grow(sizes)
        self.turn = 1 - self.turn
        starts = (self.turn * self.sizes[0], 2 * self.sizes[0])
        self.published, self.inbox = (
            [buffer[start : start + size].view(2, -1, width) for buffer in self.buffers]
            for start, size in zip(starts, sizes, strict=True)
        )
        return self.published[self.team.rank], self.inbox[self.team.rank]

    def ready(self) -> None:
        """What this rank published may be read, and its inbox written, once all ranks are here."""
        self.lanes.fork()
        with self.lanes.transferring():
            self.barrier(0)

    def fetch(self, transfers: tuple[Transfer, ...], own: Pair) -> list[Any]:
        """Start what brings this rank its rows; what to wait for."""
        rank = self.team.rank
        return self._copy(
            (each, self.published[each.source], own) for each in transfers if each.target == rank
        )

    def deliver(self, transfers: tuple[Transfer, ...], own: Pair) -> None:
        """Start, once the current stream is done, what brings this rank's rows to the owners' inboxes."""
        rank = self.team.rank
        self.lanes.fork()
        self._copy((each, own, self.inbox[each.target]) for each in transfers if each.source == rank)

    def _copy(self, moves: Iterator[tuple[Transfer, Pair, Pair]]) -> list[Any]:
        with self.lanes.transferring():
            for move in moves:
                for taken, placed in _slices(*move):
                    placed.copy_(taken, non_blocking=True)
            return self.lanes.mark()

    def settle(self) -> None:
        """The caller's stream waits until all ranks have delivered."""
        self.lanes.join()
        self.barrier(1)

    def close(self) -> None:
        """The end of a call."""
        self.lanes.join()

    def _grow(self, sizes: list[int]) -> None:
        self.lanes.device_module.synchronize()
        self.team.exchange(None)  # all have read what is here
        wanted = map(max, sizes, self.sizes)
        self.sizes = tuple(-(-size // GRAIN) * GRAIN for size in wanted)
        self.buffers = self.barrier = self.published = self.inbox = None  # what is here may go
        self.buffers, self.barrier = rendezvous(self.team, 2 * self.sizes[0] + self.sizes[1])


@cache
def copying(team: Team) -> CopyEngines | str:
    """Copy engines where every rank found that they work, else one rank's sentence on why not."""
    for attempt in (unavailable, _mapped):
        if any(told := team.exchange(attempt(team))):
            return next(filter(None, told))
    return CopyEngines(team)


def _mapped(team: Team) -> str | None:
    try:
        rendezvous(team, GRAIN)
    except (ImportError, RuntimeError) as error:
        return f"the ranks cannot map each other's memory: {str(error).splitlines()[0][:200]}"
    return None


class SendReceive:
    """As `CopyEngines`, but the owner sends what a rank fetches."""

    name = "send and receive"

    def __init__(self, team: Team):
        self.team = team

    def open(self, lanes: Lanes, width: int, published: int, inbox: int) -> tuple[Pair, Pair]:
        """Where to publish so many rows of `width` bytes, and where others put results."""
        self.lanes, self.under_way = lanes, []
        self.published, self.inbox = (
            torch.empty((2, rows, width), dtype=torch.uint8, device=self.team.device)
            for rows in (published, inbox)
        )
        return self.published, self.inbox

    def ready(self) -> None:
        """What this rank published may be sent."""
        self.lanes.fork()

    def fetch(self, transfers: tuple[Transfer, ...], own: Pair) -> list[Any]:
        """Start the transfers of all ranks that this one has a part in; what to wait for."""
        return self._exchange(transfers, self.published, own)

    def deliver(self, transfers: tuple[Transfer, ...], own: Pair) -> None:
        """Start, once the current stream is done, what brings this rank's rows to the owners' inboxes."""
        self.lanes.fork()
        self._exchange(transfers, own, self.inbox)

    def settle(self) -> None:
        """The caller's stream waits until all that this rank sends and gets is there."""
        for works in self.under_way:
            after(works)
        self.under_way = []
        self.lanes.join()

    close = settle

    def _exchange(self, transfers: tuple[Transfer, ...], source: Pair, target: Pair) -> list[Any]:
        rank, group, operations = self.team.rank, self.team.transfers, []
        with self.lanes.transferring():
            for each in transfers:
                for taken, placed in _slices(each, source, target):
                    if each.source == each.target == rank:
                        placed.copy_(taken)
                    elif each.source == rank:
                        sent = dist.P2POp(dist.isend, taken, group=group, group_peer=each.target)
                        operations.append(sent)
                    elif each.target == rank:
                        got = dist.P2POp(dist.irecv, placed, group=group, group_peer=each.source)
                        operations.append(got)
            works = dist.batch_isend_irecv(operations) if operations else []
            if self.team.device.type != "cuda":
                self.under_way.append(works)
                return works
            after(works)  # the stream of the transfers waits, not the host
            return self.lanes.mark()

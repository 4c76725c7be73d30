"""Transfers by send and receive, over NCCL or gloo, in the same steps as by copy engines."""

import torch
import torch.distributed as dist

from kernels.distributed import team as waiting
from kernels.distributed.lanes import Lanes
from kernels.distributed.layout import Transfer
from kernels.distributed.symmetric import Plane
from kernels.distributed.team import TAGS, Messages, Team, peers_lost


class SendReceive:
    """As `CopyEngines`, but the owner sends what a rank fetches."""

    name = "send and receive"

    def __init__(self, team: Team):
        self.team = team

    def open(self, lanes: Lanes, published: int, inbox: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Bytes to publish in and bytes that others put results into."""
        self.lanes, self.under_way = lanes, []
        self.group = self.team.nccl() if lanes.cuda else self.team.side
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
                raise peers_lost(rank, [peer], waiting.PATIENCE) from None
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

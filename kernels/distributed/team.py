"""The ranks of a process group: what they say to each other before and beside their transfers."""

import json
import socket
import time
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist

PATIENCE = 120.0  # seconds that a rank waits for another before it gives the group up
LETTER = 4096  # bytes of a message on the side group, padded
TAGS = 2**20


class PeerLostError(RuntimeError):
    """Ranks have ended, or were silent for too long; `lost` are their numbers in the group, where known."""

    def __init__(self, sentence: str, lost: tuple[int, ...] = ()):
        super().__init__(sentence)
        self.lost = lost


def peers_lost(rank: int, lost: list[int]) -> PeerLostError:
    """The error of a rank that has nothing from others."""
    lost = sorted(set(lost))
    who = f"rank {lost[0]} has" if len(lost) == 1 else f"ranks {', '.join(map(str, lost))} have"
    sentence = f"{who} ended or been silent for {PATIENCE:g} s: ring_attention cannot go on on rank {rank}"
    return PeerLostError(sentence, tuple(lost))


class Messages:
    """Sends and receives under way over gloo, each with its peer."""

    def __init__(self, rank: int, works: list[tuple[int, dist.Work]]):
        self.rank, self.works = rank, works

    def wait(self) -> None:
        """Until all are done; PeerLostError names the peers whose are not."""
        lost, until = [], time.monotonic() + PATIENCE
        for peer, work in self.works:
            try:
                work.wait(timedelta(seconds=max(0.1, until - time.monotonic())))
            except RuntimeError:
                lost.append(peer)
        self.works = []
        if lost:
            raise peers_lost(self.rank, lost)


class Team:
    """The ranks of a group, with a side group over gloo for letters, and one over NCCL when it is needed."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device):
        self.group, self.device = group, device
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.side = self._new_group("gloo")
        self._nccl = None
        self._tag = 0
        about = {"host": socket.gethostname(), "device": device.type, "index": device.index}
        self.members = self.exchange(about)

    def exchange(self, said: dict) -> list[dict]:
        """What every rank says, in order; PeerLostError names those that say nothing.

        Every rank of the group calls it. The letters go from each to each, so that a rank that is lost is
        known from one that is not.
        """
        text = json.dumps(said).encode()
        if len(text) > LETTER:
            raise ValueError(f"a letter of {len(text)} bytes, it must be at most {LETTER}")
        own = torch.frombuffer(bytearray(text.ljust(LETTER)), dtype=torch.uint8)
        letters = [torch.zeros(LETTER, dtype=torch.uint8) for _ in range(self.size)]
        letters[self.rank] = own
        tag = self.next_tag()
        peers = [peer for peer in range(self.size) if peer != self.rank]
        works = []
        try:
            for peer in peers:
                works.append((peer, dist.isend(own, group=self.side, group_dst=peer, tag=tag)))
                works.append((peer, dist.irecv(letters[peer], group=self.side, group_src=peer, tag=tag)))
        except RuntimeError:
            raise peers_lost(self.rank, [peer]) from None
        Messages(self.rank, works).wait()
        return [json.loads(bytes(letter.tolist())) for letter in letters]

    def next_tag(self, count: int = 1) -> int:
        """The first of `count` tags that no message under way has; alike on all ranks."""
        tag = self._tag
        self._tag = (tag + count) % TAGS
        return tag

    def transfers(self) -> dist.ProcessGroup:
        """What tensors travel by: on GPUs NCCL, on streams of high priority, made and tried at first."""
        if self.device.type != "cuda":
            return self.side
        if not dist.is_nccl_available():
            raise RuntimeError(
                "the ranks' GPUs cannot send to each other: this PyTorch was built without NCCL"
            )
        if self._nccl is None:
            self._nccl = self._new_group("nccl")
            dist.all_reduce(torch.zeros(1, device=self.device), group=self._nccl)
        return self._nccl

    def _new_group(self, backend: str) -> dist.ProcessGroup:
        options = None
        if backend == "nccl":
            options = dist.ProcessGroupNCCL.Options()
            options.is_high_priority_stream = True
        try:
            with warnings.catch_warnings():
                # torch complains of a timeout in the options, which nobody set there
                warnings.filterwarnings("ignore", message="backend_options._timeout was specified")
                return dist.new_group(
                    dist.get_process_group_ranks(self.group),
                    timeout=timedelta(seconds=PATIENCE),
                    backend=backend,
                    pg_options=options,
                    use_local_synchronization=True,
                )
        except RuntimeError as error:
            raise PeerLostError(
                f"not all {self.size} ranks came to their first call within {PATIENCE:g} s, as rank"
                f" {self.rank} did: {str(error).splitlines()[0][:200]}"
            ) from None


_teams: dict[tuple[str, torch.device], Team] = {}


def team_of(group: dist.ProcessGroup | None, device: torch.device) -> Team:
    """The team of a group (or a DeviceMesh of one dimension), made at the first call; every rank calls it."""
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(
            "torch.distributed is not initialised: start the ranks with torchrun and call init_process_group"
        )
    if group is None:
        group = dist.group.WORLD
    elif hasattr(group, "get_group"):  # a DeviceMesh
        group = group.get_group()
    if dist.get_rank(group) < 0:
        raise ValueError("group is one that this rank is not in, it must be in the group that it calls with")
    known = (group.group_name, device)
    if known not in _teams or _teams[known].group is not group:
        _teams[known] = Team(group, device)
    return _teams[known]

"""The ranks of a process group: what they say before their transfers, and what those travel by."""

import warnings
from datetime import timedelta
from functools import cached_property
from typing import Any

import torch
import torch.distributed as dist

PATIENCE = 120.0  # seconds after which PyTorch ends a wait for another rank


class Team:
    """The ranks of a group, with a side group over gloo to talk, and one over NCCL when it is needed."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device):
        self.group, self.device, self.jobs = group, device, {}
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.side = self._new_group("gloo")

    def exchange(self, said: Any) -> list[Any]:
        """What every rank says, in order; every rank of the group calls it."""
        told = [None] * self.size
        dist.all_gather_object(told, said, group=self.side)
        return told

    @cached_property
    def transfers(self) -> dist.ProcessGroup:
        """What tensors travel by: on GPUs NCCL, on streams of high priority, made and tried at first."""
        if self.device.type != "cuda":
            return self.side
        if not dist.is_nccl_available():
            raise RuntimeError(
                "the ranks' GPUs cannot send to each other: this PyTorch was built without NCCL"
            )
        options = dist.ProcessGroupNCCL.Options()
        options.is_high_priority_stream = True
        group = self._new_group("nccl", options)
        dist.all_reduce(torch.zeros(1, device=self.device), group=group)
        return group

    def _new_group(self, backend: str, options=None) -> dist.ProcessGroup:
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

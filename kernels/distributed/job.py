"""What a call comes to once the ranks have agreed on it: a method, how it moves bytes, and a plan."""

import warnings
from dataclasses import dataclass, replace

import torch

from kernels.call.call import Call
from kernels.call.remember import remember
from kernels.dispatch.dispatch import chosen
from kernels.distributed import all_to_all, ring, symmetric
from kernels.distributed.agreement import agreed, described, difference
from kernels.distributed.choice import Problem, group_count, seconds, unserved
from kernels.distributed.layout import Layout, Plan, planned
from kernels.distributed.messages import SendReceive
from kernels.distributed.symmetric import CopyEngines
from kernels.distributed.team import Team
from kernels.distributed.watch import Watch

METHODS = ("auto", "ring", "ring_send", "all_gather", "all_to_all")


@dataclass(frozen=True)
class Job:
    """An agreed call; `reason` is why its method was taken."""

    method: str
    mover: CopyEngines | SendReceive
    layout: Layout
    rank: int
    plan: Plan | None
    groups: int
    call: Call
    reason: str

    def forward(self, q, k, v) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        """O like q, lse, and what `backward` needs."""
        if self.plan is None:
            return all_to_all.attend(self.mover, self.layout, self.rank, self.groups, self.call, q, k, v)
        out, lse = ring.attend(self.mover, self.plan, self.call, q, k, v)
        return out, lse, [q, k, v, out, lse]

    def backward(self, saved, d_out, d_lse) -> tuple[torch.Tensor, ...]:
        """dQ, dK and dV."""
        if self.plan is None:
            how = (self.mover, self.layout, self.rank, self.groups, self.call)
            return all_to_all.differentiate(*how, saved, d_out, d_lse)
        return ring.differentiate(self.mover, self.plan, self.call, *saved, d_out, d_lse)


class Desk:
    """The jobs of a team, by what a rank is called with: the ranks talk before the first of each alone."""

    def __init__(self, team: Team):
        self.team = team
        self.jobs: dict[tuple, Job] = {}
        self.sending = SendReceive(team)
        self.copying: CopyEngines | str | None = None
        self.watch = Watch(team) if team.size > 1 and team.device.type == "cuda" else None

    def job(self, q, k, v, causal, window, scale, method, gradient: bool) -> Job:
        """The job of a call; every rank asks. ValueError or TypeError, on all ranks, where there is none."""
        tensors = (
            (type(each), getattr(each, "shape", None), getattr(each, "dtype", None)) for each in (q, k, v)
        )
        known = (*tensors, bool(causal), repr(window), repr(scale), repr(method), gradient)
        if known not in self.jobs:
            if q.is_cuda and torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    "a CUDA graph takes a call that was made before it: call ring_attention once like this"
                )
            own = described(q, k, v, causal, window, scale, method, gradient, METHODS)
            remember(self.jobs, known, self._agree(q, k, v, own))
        return self.jobs[known]

    def note(self) -> None:
        """A call has been given to the current stream: the watch is to see that it ends."""
        if self.watch is not None and not torch.cuda.is_current_stream_capturing():
            self.watch.note()

    def _agree(self, q, k, v, own: dict) -> Job:
        layout = agreed(self.team, own)
        causal, window, method = own["causal"], own["window"], own["method"]
        call, _ = chosen(q, k, v, causal, window, own["scale"])
        window = None if window is None else min(window, layout.tokens)
        call = replace(call, causal=causal or window is not None, window=window)
        if sentence := unserved(method, layout, call):
            raise ValueError(f"method is {method!r}: {sentence}")
        mover, why_not = self._mover(method)
        if why_not and method == "ring":
            warnings.warn(f"ring runs as ring_send: {why_not}", stacklevel=6)
        hosts = len({member["host"] for member in self.team.members})
        problem = Problem(layout, call, q.element_size(), mover.name, hosts)
        reason = "it was asked for"
        if method == "auto":
            method, reason = _fastest(problem, why_not)
        groups, plan = group_count(method, problem), None
        if method != "all_to_all":
            plan = planned(layout, self.team.rank, causal, window, method != "all_gather", groups)
        return Job(method, mover, layout, self.team.rank, plan, groups, call, reason)

    def _mover(self, method: str) -> tuple[CopyEngines | SendReceive, str | None]:
        """How bytes are moved, and one sentence on why not by copy engines where they cannot be."""
        why_not = None
        if method != "ring_send" and self.team.size > 1:
            if self.copying is None:
                self.copying = self._try_copying()
            if isinstance(self.copying, CopyEngines):
                return self.copying, None
            why_not = self.copying
        versions = [member["nccl"] for member in self.team.members]
        if sentence := difference("the version of NCCL", versions):
            raise RuntimeError(f"{sentence}{f', and {why_not}' if why_not else ''}")
        return self.sending, why_not

    def _try_copying(self) -> CopyEngines | str:
        """Copy engines where every rank found that they work, else one rank's sentence on why not."""
        why_not = symmetric.unavailable(self.team)
        every = [each["why_not"] for each in self.team.exchange({"why_not": why_not})]
        if not any(every):
            try:
                symmetric.rendezvous(self.team, symmetric.GRAIN)
            except (ImportError, RuntimeError) as error:
                why_not = f"the ranks cannot map each other's memory: {str(error).splitlines()[0][:200]}"
            every = [each["why_not"] for each in self.team.exchange({"why_not": why_not})]
        return next(filter(None, every), None) or CopyEngines(self.team)


def _fastest(problem: Problem, why_not: str | None) -> tuple[str, str]:
    """The method that the model says is fastest, and what it says."""
    names = ("ring_send" if why_not else "ring", "all_gather", "all_to_all")
    names = [each for each in names if not unserved(each, problem.layout, problem.call)]
    times = {each: seconds(each, problem) for each in names}
    best = min(names, key=times.get)
    others = ", ".join(f"{each} at {times[each] * 1e3:.3g}" for each in names if each != best)
    reason = f"on {problem.layout.ranks} ranks it is modelled at {times[best] * 1e3:.3g} ms forward, {others}"
    return best, f"{reason}; {why_not}" if why_not else reason


_desks: dict[Team, Desk] = {}


def desk_of(team: Team) -> Desk:
    """The desk of a team."""
    if team not in _desks:
        _desks[team] = Desk(team)
    return _desks[team]

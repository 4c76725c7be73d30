"""Which method is fastest, by a model of what each computes, moves and leaves exposed; see `seconds`.

The rates are an H200's, fitted to runs on 4 of them: the kernel's, and those of a link by copy engines and by
NCCL. Only the order that they put the methods in matters.
"""

from dataclasses import dataclass

from kernels.arguments import Call
from kernels.distributed.layout import Layout

GROUPS = 4  # of heads, in which gathered keys and exchanged heads come: the first alone is waited for
FLOPS = {1: 450e12, 2: 600e12, 4: 35e12}  # a second: head_dim up to 64, above, and float32
COPIED, SENT = 350e9, 155e9  # bytes a second into a GPU, by copy engines and by NCCL
BETWEEN_HOSTS = 45e9
LATENCY = {"copy engines": 15e-6, "send and receive": 40e-6}
SHARE = 0.15  # of the SMs, that NCCL's kernels take from the attention beside them
CALL = 25e-6  # a call of the kernel: its launch, its last wave, and what merging it takes on the host
MEMORY = 3.5e12  # bytes a second


@dataclass(frozen=True)
class Problem:
    """A call of all ranks: how it is laid out, what a rank computes, and how it moves bytes."""

    layout: Layout
    call: Call
    element: int
    mover: str
    hosts: int

    @property
    def rows(self) -> int:
        """Tokens of a rank."""
        return self.layout.most_rows

    @property
    def computing(self) -> float:
        """Seconds of the kernel on a rank that had all it needs."""
        tokens, call = self.layout.tokens, self.call
        keys = tokens / 2 if call.causal else tokens
        keys = min(keys, call.window or keys)
        rate = FLOPS[4 if self.element == 4 else 1 if call.head_dim <= 64 else 2]
        return 4.0 * call.batch * call.heads * self.rows * keys * call.head_dim / rate

    def moving(self, heads: float, rows: float) -> float:
        """Seconds to bring rows of so many heads to every rank."""
        rate = BETWEEN_HOSTS if self.hosts > 1 else COPIED if self.mover == "copy engines" else SENT
        return LATENCY[self.mover] + rows * heads * self.call.batch * self.call.head_dim * self.element / rate

    @property
    def interference(self) -> float:
        """The share of a transfer's time that computing beside it loses."""
        return 0.0 if self.mover == "copy engines" else SHARE


def group_count(heads: int) -> int:
    """Groups, at most GROUPS, that divide the heads."""
    return max(each for each in range(1, GROUPS + 1) if heads % each == 0)


def unserved(method: str, layout: Layout, call: Call) -> str | None:
    """One sentence on why a method does not serve a call, or None where it does."""
    if method == "all_to_all" and (call.heads % layout.ranks or call.kv_heads % layout.ranks):
        return (
            f"all_to_all gives each rank whole heads, and {layout.ranks} ranks do not divide"
            f" {call.heads} heads and {call.kv_heads} key heads"
        )
    return None


def seconds(method: str, problem: Problem) -> float:
    """The modelled time of a forward pass.

    ring: a step's transfer is hidden under a step's computing, and partial results are merged. all_gather: the
    first group of heads is waited for. all_to_all: the first group on its way there and the last on its way
    back, and every tensor is copied twice.
    """
    call, ranks, computing = problem.call, problem.layout.ranks, problem.computing
    kv_heads, others = 2 * call.kv_heads, ranks - 1
    if method == "all_to_all":
        groups = group_count(call.kv_heads // ranks)
        heads = 2 * call.heads + kv_heads
        exchange = problem.moving(heads * others / ranks, problem.rows)
        copies = 4 * heads * problem.rows * call.batch * call.head_dim * problem.element / MEMORY
        return computing + exchange * (1 / groups + problem.interference) + copies + groups * CALL
    rows = others * problem.rows
    if call.window is not None:
        rows = min(rows, (call.window - 1) * len(problem.layout.spans[0]))
    if method == "all_gather" or call.window is not None:
        groups = group_count(call.kv_heads)
        calls = groups * len(problem.layout.spans[0])
        return computing + problem.moving(kv_heads, rows) * (1 / groups + problem.interference) + calls * CALL
    step, transfer = computing / ranks, problem.moving(kv_heads, problem.rows)
    partial = problem.rows * call.heads * call.batch * call.head_dim * problem.element
    hidden = max(step + problem.interference * min(step, transfer), transfer)
    return step + others * hidden + ranks * CALL + (ranks + 1) * partial / MEMORY

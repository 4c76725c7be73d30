"""Which method is fastest, by a model of what each computes, moves and leaves exposed; see `seconds`.

The rates are an H200's, fitted to runs on 4 of them. Only the order that they put the methods in matters.
A card's power limit makes computing longer in a long call, where transfers hide: it changes no choice.
"""

from dataclasses import dataclass

from kernels.call.call import Call
from kernels.distributed.layout import Layout
from kernels.tilings.methods import CALLING, COPYING, TAIL, groups_of

FLOPS = {4: 35e12, 2: 670e12}  # a second, by the bytes of an element
FLOPS_OF_FEW_COLUMNS = 500e12  # at a head_dim up to 64
COPIED, SENT, BETWEEN_HOSTS = 350e9, 155e9, 45e9  # bytes/s into a GPU: copy engines, NCCL, InfiniBand
LATENCY = {"copy engines": 15e-6, "send and receive": 40e-6}
# of a transfer's time, what computing beside it loses: NCCL's kernels take SMs
LOST = {"copy engines": 0.0, "send and receive": 0.15}
MEMORY = 3.5e12  # bytes/s


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
    def row(self) -> int:
        """Bytes of a head's row, of all batches."""
        return self.call.batch * self.call.head_dim * self.element

    @property
    def fetched(self) -> int:
        """Others' rows of keys that a rank needs, where it fetches no others."""
        rows = (self.layout.ranks - 1) * self.rows
        window = self.call.window
        return rows if window is None else min(rows, (window - 1) * len(self.layout.spans[0]))

    @property
    def computing(self) -> float:
        """Seconds of the kernel on a rank that had all it needs."""
        tokens, call = self.layout.tokens, self.call
        keys = min(tokens / 2 if call.causal else tokens, call.window or tokens)
        rate = FLOPS_OF_FEW_COLUMNS if self.element == 2 and call.head_dim <= 64 else FLOPS[self.element]
        return 4.0 * call.batch * call.heads * self.rows * keys * call.head_dim / rate

    def moving(self, rows: float) -> float:
        """Seconds to bring every rank so many rows of a head."""
        rate = BETWEEN_HOSTS if self.hosts > 1 else COPIED if self.mover == "copy engines" else SENT
        return LATENCY[self.mover] + rows * self.row / rate


def group_count(method: str, problem: Problem) -> int:
    """Groups of heads, which they divide, each worth a transfer of its own."""
    call, ranks = problem.call, problem.layout.ranks
    if method.startswith("ring") and call.window is None:
        return 1
    swapped = method == "all_to_all"
    heads = call.kv_heads // ranks if swapped else call.kv_heads
    rows = _swapped(problem) if swapped else 2 * call.kv_heads * problem.fetched
    return groups_of(heads, rows * problem.row)


def unserved(method: str, layout: Layout, call: Call) -> str | None:
    """One sentence on why a method does not serve a call, or None where it does."""
    if method == "all_to_all" and (call.heads % layout.ranks or call.kv_heads % layout.ranks):
        return (
            f"all_to_all gives each rank whole heads, and {layout.ranks} ranks do not divide"
            f" {call.heads} heads and {call.kv_heads} key heads"
        )
    return None


def seconds(method: str, problem: Problem) -> float:
    """The modelled time of a forward pass: the GPU's, or the host's where that is more."""
    if method == "all_to_all":
        return _exchanged(problem)
    if method == "all_gather" or problem.call.window is not None:
        return _gathered(method, problem)
    return _by_steps(problem)


def _by_steps(problem: Problem) -> float:
    """A step's transfer is hidden under a step's computing, and partial results are merged."""
    call, ranks = problem.call, problem.layout.ranks
    step, transfer = problem.computing / ranks, problem.moving(2 * call.kv_heads * problem.rows)
    hidden = max(step + LOST[problem.mover] * min(step, transfer), transfer)
    merged = (ranks + 1) * problem.rows * call.heads * problem.row / MEMORY
    host = ranks * CALLING + 2 * (ranks - 1) * COPYING
    return max(step + (ranks - 1) * hidden + ranks * TAIL + merged, host)


def _gathered(method: str, problem: Problem) -> float:
    """The first group of heads is waited for, the others come meanwhile."""
    groups, spans = group_count(method, problem), len(problem.layout.spans[0])
    transfer = problem.moving(2 * problem.call.kv_heads * problem.fetched)
    blocks = 2 * -(-problem.fetched * problem.layout.chunks // problem.layout.tokens)
    host = groups * (spans * CALLING + blocks * COPYING)
    return max(_staged(problem, groups, transfer) + groups * spans * TAIL, host)


def _exchanged(problem: Problem) -> float:
    """The first group is waited for on its way there, the last on its way back; all is copied twice."""
    groups = group_count("all_to_all", problem)
    rows = _swapped(problem)
    packing = 4 * rows * problem.row / MEMORY
    host = groups * (CALLING + 5 * problem.layout.chunks * COPYING)
    return max(_staged(problem, groups, problem.moving(rows)) + packing + groups * TAIL, host)


def _staged(problem: Problem, groups: int, transfer: float) -> float:
    """A group of heads comes while the one before is computed: the slower of the two sets the pace."""
    computing = problem.computing + LOST[problem.mover] * transfer
    return (computing + transfer + (groups - 1) * max(computing, transfer)) / groups


def _swapped(problem: Problem) -> int:
    """Rows of a head that all_to_all brings a rank: of Q, K, V, and O on the way back."""
    ranks, call = problem.layout.ranks, problem.call
    return 2 * (call.heads + call.kv_heads) * problem.rows * (ranks - 1) // ranks

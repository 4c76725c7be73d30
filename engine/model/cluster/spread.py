"""A problem over several GPUs by one method: rows, bytes and messages of each GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.algorithms.ring import Order
from engine.model.cluster.fabric import USUAL, Fabric, Way, way
from engine.problem.problem import Problem
from kernels.tilings.methods import groups_of

RING, RING_SEND, ALL_GATHER, ALL_TO_ALL, TWO_LEVEL = METHODS = (
    "ring",  # K and V pulled from their owners by copy engines, a block per round
    "ring_send",  # the same by NCCL
    "all_gather",  # all K and V, a group of heads after another
    "all_to_all",  # tokens exchanged for heads and back (Ulysses), by NCCL
    "two_level",  # a ring of hosts, in each of which a ring of GPUs turns: modelled only
)
RINGS = (RING, RING_SEND, TWO_LEVEL)


@dataclass(frozen=True)
class Spread:
    """One sequence over `gpus`; problem is the whole of it, with as many keys as queries.

    `modelled(Spread(problem, 4)).efficiency` is what four GPUs make of it by a ring, beside one.
    """

    problem: Problem
    gpus: int
    method: str = RING
    zigzag: bool = True  # of 2 G chunks GPU r holds r and 2 G - 1 - r; else chunk r of G
    fabric: Fabric = USUAL
    hardware: str = "h200"  # the key of the GPU

    def __post_init__(self):
        if not self.problem.mask.kinds <= {"causal"} or self.problem.seq_q != self.problem.seq_kv:
            raise ValueError("a spread problem has as many keys as queries, and a causal mask or none")
        if self.method not in METHODS:
            raise ValueError(f"method is {self.method!r}; it must be one of {', '.join(METHODS)}")
        if not 1 <= self.gpus <= self.problem.seq_q:
            raise ValueError(f"gpus is {self.gpus}; it must be from 1 to {self.problem.seq_q:,}, the tokens")

    @property
    def order(self) -> Order:
        """Which GPU holds which chunks."""
        return Order(self.gpus, self.zigzag)

    @property
    def by_steps(self) -> bool:
        """Whether the blocks of one GPU after another are met, their results merged: by a ring."""
        return self.method in RINGS

    @property
    def rows(self) -> int:
        """Tokens of the GPU that holds most."""
        chunks = 2 * self.gpus if self.zigzag else self.gpus
        return -(-self.problem.seq_q // chunks) * (chunks // self.gpus)

    @property
    def row(self) -> int:
        """Bytes of a head's row, of all batches: of K and of V on average."""
        both = self.problem.head_dim + self.problem.v_dim
        return self.problem.batch * both * self.problem.itemsize // 2

    @property
    def block(self) -> int:
        """Bytes of a GPU's K and V: what comes in a round of a ring, at most."""
        return 2 * self.problem.kv_heads * self.rows * self.row

    @property
    def way(self) -> Way:
        """How its bytes come into a GPU, from the farthest."""
        return way(self.fabric, self.gpus, self.method not in (RING_SEND, ALL_TO_ALL))

    @property
    def inner_way(self) -> Way:
        """How a block comes in a round: in a ring of hosts from another GPU of the same host."""
        gpus = min(self.fabric.host, self.gpus) if self.method == TWO_LEVEL else self.gpus
        return way(self.fabric, gpus, self.method != RING_SEND)

    def passed(self, backward: bool) -> int:
        """Bytes that a round of a ring brings at most: K and V, and backward as many to their owners."""
        return (1 + backward) * self.block

    @property
    def groups(self) -> int:
        """Groups of heads whose keys are gathered, each worth a transfer of its own."""
        gathered = (self.gpus - 1) * self.block
        return groups_of(self.problem.kv_heads, gathered) if self.method == ALL_GATHER else 1

    @property
    def unserved(self) -> str | None:
        """Why the method does not serve the problem, in one sentence; None where it does."""
        problem, gpus = self.problem, self.gpus
        if self.method == ALL_TO_ALL and (problem.heads % gpus or problem.kv_heads % gpus):
            return (
                f"All-to-all gives each GPU whole heads, and {gpus:,} GPUs do not divide"
                f" {problem.heads} heads and {problem.kv_heads} KV heads."
            )
        if self.method == TWO_LEVEL and gpus % self.fabric.host:
            return f"A ring of hosts takes whole hosts of {self.fabric.host} GPUs, and {gpus:,} are none."
        return None

    def on(self, gpus: int) -> Spread:
        """The same on another number of GPUs."""
        return replace(self, gpus=gpus)

    def by(self, method: str, zigzag: bool | None = None) -> Spread:
        """The same by another method, or in another order."""
        return replace(self, method=method, zigzag=self.zigzag if zigzag is None else zigzag)

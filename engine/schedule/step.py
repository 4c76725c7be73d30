"""One step of a schedule: what it does, which tensor it moves, and how much of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from engine.problem.dtype import dtype_named
from engine.problem.problem import Problem

STATISTIC_BYTES = 4  # m, l and lse are float32 in memory whatever the dtype of the tensors
PARTIAL_BYTES = 4  # and so is the O of a split


class Tensor(IntEnum):
    """What a load or a store moves.

    STATISTICS are m and l together; D_O is the gradient of O, and so on; DELTA is rowsum(dO o O); LSE_LOG2 is
    lse in units of log2, as the backward kernels read it. D_P and D_S are never in memory, only on the chip.
    PARTIAL and PARTIAL_LSE are O and lse over the keys of one split.
    """

    NONE = 0
    # the forward pass
    Q = 1
    K = 2
    V = 3
    S = 4
    P = 5
    O = 6  # noqa: E741 - the field's name
    STATISTICS = 7
    LSE = 8
    # the backward pass
    D_O = 9
    D_Q = 10
    D_K = 11
    D_V = 12
    DELTA = 13
    D_P = 14
    D_S = 15
    LSE_LOG2 = 16
    # split keys
    PARTIAL = 17
    PARTIAL_LSE = 18


class Operation(IntEnum):
    LOAD = 0
    # the forward pass, FlashAttention-2's Algorithm 1
    SCORES = 1  # S = scale Q K^T, masked
    MAXIMUM = 2  # m' = max(m, rowmax S)
    RESCALE = 3  # alpha = exp(m - m'), P = exp(S - m')
    ACCUMULATE = 4  # l = alpha l + rowsum P, O = alpha O + P V
    STORE = 5
    SOFTMAX = 6  # unfused: P = softmax of whole rows of S
    # the backward pass, its Algorithm 2
    ROW_TERMS = 7  # delta = rowsum(dO o O), and lse in units of log2
    WEIGHTS = 8  # P = exp(S - lse)
    VALUE_GRADIENT = 9  # dV += P^T dO
    WEIGHT_GRADIENT = 10  # dP = dO V^T
    SCORE_GRADIENT = 11  # dS = P o (dP - delta)
    KEY_GRADIENT = 12  # dK += dS^T Q
    QUERY_GRADIENT = 13  # dQ += dS K
    # split keys
    COMBINE = 14  # lse = log sum of exp(lse_i), O = sum of exp(lse_i - lse) O_i over the splits


MATRIX_PRODUCTS = (
    *(Operation.SCORES, Operation.ACCUMULATE, Operation.VALUE_GRADIENT, Operation.WEIGHT_GRADIENT),
    *(Operation.KEY_GRADIENT, Operation.QUERY_GRADIENT),
)
EXPONENTIALS = (Operation.RESCALE, Operation.SOFTMAX, Operation.WEIGHTS)  # one a score
BY_KEY = (Tensor.K, Tensor.V, Tensor.D_K, Tensor.D_V)  # a row a key; there are as many as key heads
BY_QUERY = (Tensor.Q, Tensor.O, Tensor.D_O, Tensor.D_Q)  # a row a query
BY_V_DIM = (Tensor.V, Tensor.O, Tensor.D_O, Tensor.D_V)  # rows of as many numbers as V's
INPUTS = (Tensor.Q, Tensor.K, Tensor.V)  # in the problem's dtype, whatever the results are kept in
PARTIALS = (Tensor.PARTIAL, Tensor.PARTIAL_LSE)  # as many as there are splits


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a loop body, with the tensor that it moves, if any, and how many blocks of it."""

    operation: Operation
    tensor: Tensor = Tensor.NONE
    times: int = 1
    # a block counts whole though it hangs over the tensor's end, or lies past it: TMA requests of L2 those
    # rows too, as counters of an H200 and an H100 say, and has zeros for them; so it does of a block that
    # hangs over the beginning
    boxed: bool = False


def load(tensor: Tensor, times: int = 1, boxed: bool = False) -> Step:
    """Bring a block of a tensor, or that of so many splits, from memory to the chip."""
    return Step(Operation.LOAD, tensor, times, boxed)


def store(tensor: Tensor) -> Step:
    """Bring one block of a tensor from the chip to memory."""
    return Step(Operation.STORE, tensor)


@dataclass(frozen=True, slots=True)
class Amount:
    """What a step has of something: a factor times the rows of its query block, its key block, or both."""

    factor: int
    by_query: bool = False
    by_key: bool = False

    def of(self, query_rows, key_rows):
        """The amount where the blocks have so many rows; numbers or arrays that broadcast."""
        return self.factor * (query_rows if self.by_query else 1) * (key_rows if self.by_key else 1)


def block_bytes(problem: Problem, tensor: Tensor) -> Amount:
    """Bytes that one load or store of a block moves."""
    return block_amounts(problem)[tensor]


def block_amounts(problem: Problem) -> Mapping[Tensor, Amount]:
    """The same of every tensor."""
    sizes = problem.itemsize, dtype_named(problem.stored).bytes
    return _amounts((problem.head_dim, problem.v_dim), sizes)


@lru_cache(maxsize=64)
def _amounts(dims: tuple[int, int], sizes: tuple[int, int]) -> Mapping[Tensor, Amount]:
    """Of rows of Q's and of V's head dim, whose numbers take so many bytes in inputs and elsewhere."""
    return {tensor: _amount(tensor, dims, sizes) for tensor in Tensor if tensor != Tensor.NONE}


def _amount(tensor: Tensor, dims: tuple[int, int], sizes: tuple[int, int]) -> Amount:
    dim, size = dims[tensor in BY_V_DIM], sizes[tensor not in INPUTS]
    if tensor in BY_KEY:
        return Amount(dim * size, by_key=True)
    if tensor in BY_QUERY:
        return Amount(dim * size, by_query=True)
    if tensor in (Tensor.S, Tensor.P):
        return Amount(size, by_query=True, by_key=True)
    if tensor == Tensor.PARTIAL:
        return Amount(dims[1] * PARTIAL_BYTES, by_query=True)
    return Amount(STATISTIC_BYTES * (2 if tensor == Tensor.STATISTICS else 1), by_query=True)


def copies(problem: Problem, tensor: Tensor, splits: int) -> int:
    """How many times a head's tensor lies in memory: once a head or key head; partial ones once a split."""
    each = splits * (splits > 1) if tensor in PARTIALS else 1
    return problem.batch * each * (problem.kv_heads if tensor in BY_KEY else problem.heads)


def matrix_flops(problem: Problem, operation: Operation) -> Amount:
    """FLOPs of a matrix product of a tile: a multiplication and an addition each."""
    of_v = (Operation.ACCUMULATE, Operation.VALUE_GRADIENT, Operation.WEIGHT_GRADIENT)
    dim = problem.v_dim if operation in of_v else problem.head_dim
    return Amount(2 * dim, by_query=True, by_key=True)

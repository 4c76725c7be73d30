"""Answers that a tour computes for the scenario on screen: small expressions over named quantities.

An expression holds numbers, quantities, + - * / and brackets: `k_reads`, `dram_bytes / ideal_bytes`,
`standard.modelled_seconds / flash2.modelled_seconds`. Before a dot stands an algorithm: the quantity is then
that of the same problem and tiling under that algorithm.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from engine.algorithms import ALGORITHMS
from engine.experiment import Experiment
from engine.model.footprint import largest_context, memory_bytes
from engine.model.simulation import simulate
from engine.model.traffic import Traffic
from engine.problem.bounds import blocks
from engine.schedule.step import STATISTIC_BYTES, Tensor

GIVEN, COUNTED, MODELLED = "given", "counted", "modelled"  # how much a number rests on, from least to most
BYTES, FLOPS, SECONDS, INTENSITY, NUMBER = "B", "FLOP", "s", "FLOP/B", ""
CHIP_BYTES = "B of shared memory"  # bytes too, which the field tells in KiB


class AnswerError(ValueError):
    """An expression that cannot be computed; the message is one sentence."""


@dataclass(frozen=True)
class Quantity:
    """Something to be asked of a scenario: what it is, its unit, where it comes from, and how to get it."""

    words: str
    unit: str
    origin: str
    of: Callable[[Experiment], float]


@dataclass(frozen=True)
class Answer:
    """A computed value with its unit ("" for a plain number) and whether it is given, counted or modelled."""

    value: float
    unit: str
    origin: str


def _traffic(experiment: Experiment) -> Traffic:
    return simulate(experiment).traffic


def _passes(tensor: Tensor, written: bool = False) -> Callable[[Experiment], float]:
    """How many times one head's tiles ask for each element of a tensor, or write it: a mean."""

    def of(experiment: Experiment) -> float:
        problem = experiment.problem
        requested = _traffic(experiment).per_head.requested
        moved = (requested.written if written else requested.read)[tensor]
        rows = problem.seq_kv if tensor in (Tensor.K, Tensor.V) else problem.seq_q
        columns = problem.seq_kv if tensor in (Tensor.S, Tensor.P) else problem.head_dim
        return moved / (rows * columns * problem.itemsize)

    return of


def _ideal_bytes(experiment: Experiment) -> int:
    """Q, K and V read once, O written once, over batch and heads."""
    problem = experiment.problem
    queries = 2 * problem.batch * problem.heads * problem.seq_q
    keys = 2 * problem.batch * problem.kv_heads * problem.seq_kv
    return (queries + keys) * problem.head_dim * problem.itemsize


def _grid(experiment: Experiment) -> int:
    problem, tiling = experiment.problem, experiment.tiling
    return int(blocks(problem.seq_q, tiling.block_q) * blocks(problem.seq_kv, tiling.block_kv))


def _scores(experiment: Experiment) -> int:
    return experiment.problem.seq_q * experiment.problem.seq_kv


QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        # the scenario
        "queries": Quantity("queries", NUMBER, GIVEN, lambda e: e.problem.seq_q),
        "keys": Quantity("keys", NUMBER, GIVEN, lambda e: e.problem.seq_kv),
        "head_dim": Quantity("head dimension", NUMBER, GIVEN, lambda e: e.problem.head_dim),
        "heads": Quantity("query heads", NUMBER, GIVEN, lambda e: e.problem.heads),
        "block_q": Quantity("rows of a query block", NUMBER, GIVEN, lambda e: e.tiling.block_q),
        "block_kv": Quantity("rows of a key block", NUMBER, GIVEN, lambda e: e.tiling.block_kv),
        "sms": Quantity("SMs of the GPU", NUMBER, GIVEN, lambda e: e.gpu.sms),
        # tiles of one head
        "query_blocks": Quantity(
            "query blocks", NUMBER, COUNTED, lambda e: int(blocks(e.problem.seq_q, e.tiling.block_q))
        ),
        "key_blocks": Quantity(
            "key blocks", NUMBER, COUNTED, lambda e: int(blocks(e.problem.seq_kv, e.tiling.block_kv))
        ),
        "tiles": Quantity("tiles of the grid", NUMBER, COUNTED, _grid),
        "tiles_visited": Quantity(
            "tiles computed", NUMBER, COUNTED, lambda e: _traffic(e).per_head.tiles_visited
        ),
        "tiles_skipped": Quantity(
            "tiles never touched", NUMBER, COUNTED, lambda e: _traffic(e).per_head.tiles_skipped
        ),
        # how often the tiles of one head ask memory for each element
        "q_reads": Quantity("times that Q is read", NUMBER, COUNTED, _passes(Tensor.Q)),
        "k_reads": Quantity("times that K is read", NUMBER, COUNTED, _passes(Tensor.K)),
        "v_reads": Quantity("times that V is read", NUMBER, COUNTED, _passes(Tensor.V)),
        "s_reads": Quantity("times that S is read", NUMBER, COUNTED, _passes(Tensor.S)),
        "o_reads": Quantity("times that O is read", NUMBER, COUNTED, _passes(Tensor.O)),
        "o_writes": Quantity("times that O is written", NUMBER, COUNTED, _passes(Tensor.O, written=True)),
        # bytes and work over batch and heads
        "ideal_bytes": Quantity("Q, K, V read once, O written once", BYTES, COUNTED, _ideal_bytes),
        "requested_bytes": Quantity(
            "bytes that the tiles ask for", BYTES, COUNTED, lambda e: _traffic(e).requested.total
        ),
        "compulsory_bytes": Quantity(
            "every kernel's inputs and outputs once", BYTES, COUNTED, lambda e: _traffic(e).compulsory.total
        ),
        "dram_bytes": Quantity("bytes from and to DRAM", BYTES, MODELLED, lambda e: _traffic(e).dram.total),
        "score_bytes": Quantity(
            "S of one head in memory", BYTES, COUNTED, lambda e: _scores(e) * e.problem.itemsize
        ),
        "lse_bytes": Quantity(
            "the log-sum-exp of one head", BYTES, COUNTED, lambda e: e.problem.seq_q * STATISTIC_BYTES
        ),
        "memory_bytes": Quantity("memory that the tensors take", BYTES, MODELLED, memory_bytes),
        "gpu_memory_bytes": Quantity("memory of the GPU", BYTES, GIVEN, lambda e: e.gpu.memory_bytes),
        "sram_bytes": Quantity(
            "shared memory of one block", CHIP_BYTES, MODELLED, lambda e: simulate(e).footprint.shared_bytes
        ),
        "sram_capacity_bytes": Quantity(
            "shared memory a block may have", CHIP_BYTES, GIVEN, lambda e: e.gpu.shared_bytes_block
        ),
        "flops": Quantity("FLOPs of the matrix products", FLOPS, COUNTED, lambda e: _traffic(e).flops),
        "exponentials": Quantity("exponentials", NUMBER, COUNTED, lambda e: _traffic(e).exponentials),
        "largest_context": Quantity(
            "most keys that fit the GPU's memory", NUMBER, MODELLED, lambda e: largest_context(e)
        ),
        # rates and times
        "intensity": Quantity(
            "FLOPs a byte of DRAM traffic", INTENSITY, MODELLED, lambda e: _traffic(e).intensity("dram")
        ),
        "balance": Quantity(
            "FLOPs that the GPU can do while one byte comes",
            INTENSITY,
            GIVEN,
            lambda e: e.gpu.matrix_flops[e.problem.dtype] / e.gpu.memory_bytes_per_second,
        ),
        "modelled_seconds": Quantity(
            "modelled time", SECONDS, MODELLED, lambda e: simulate(e).modelled.seconds
        ),
        "matrix_seconds": Quantity(
            "time of the matrix products at the GPU's peak",
            SECONDS,
            MODELLED,
            lambda e: _traffic(e).flops / e.gpu.matrix_flops[e.problem.dtype],
        ),
        "exponential_seconds": Quantity(
            "time of the exponentials at the GPU's peak",
            SECONDS,
            MODELLED,
            lambda e: _traffic(e).exponentials / e.gpu.exponentials_per_second,
        ),
    }
)
OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


@lru_cache(maxsize=512)
def answer(text: str, experiment: Experiment) -> Answer:
    """The value of an expression for a scenario; raises AnswerError in one sentence."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        raise AnswerError(f"{text!r} is no expression; it must be like k_reads or bytes / bytes") from None
    return _value(tree.body, experiment)


def _value(node: ast.AST, experiment: Experiment) -> Answer:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return _combined(type(node.op), _value(node.left, experiment), _value(node.right, experiment))
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return Answer(node.value, NUMBER, GIVEN)
    if isinstance(node, ast.Name):
        return _asked(node.id, experiment)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        algorithm = node.value.id
        if algorithm not in ALGORITHMS:
            raise AnswerError(f"{algorithm!r} is no algorithm; it must be one of {', '.join(ALGORITHMS)}")
        return _asked(node.attr, experiment.changed(algorithm=algorithm))
    raise AnswerError(
        f"{ast.unparse(node)!r} cannot be computed; allowed are numbers, quantities, + - * / and brackets"
    )


def _asked(name: str, experiment: Experiment) -> Answer:
    if name not in QUANTITIES:
        raise AnswerError(f"{name!r} is no quantity; it must be one of {', '.join(QUANTITIES)}")
    quantity = QUANTITIES[name]
    return Answer(quantity.of(experiment), quantity.unit, quantity.origin)


def _combined(operation: type[ast.operator], left: Answer, right: Answer) -> Answer:
    """Two values put together, their units with them; the more modelled of the two says what it is."""
    if operation in (ast.Add, ast.Sub):
        if left.unit != right.unit:
            raise AnswerError(f"{left.unit or 'a number'} and {right.unit or 'a number'} cannot be added")
        unit = left.unit
    elif operation is ast.Mult:
        if left.unit and right.unit:
            raise AnswerError(f"{left.unit} times {right.unit} has no unit here")
        unit = left.unit or right.unit
    elif left.unit == right.unit:
        unit = NUMBER
    elif not right.unit:
        unit = left.unit
    else:
        raise AnswerError(f"{left.unit or 'a number'} over {right.unit} has no unit here")
    if operation is ast.Div and right.value == 0:
        raise AnswerError("the expression divides by 0 for this scenario")
    origins = (GIVEN, COUNTED, MODELLED)
    origin = max(left.origin, right.origin, key=origins.index)
    return Answer(OPERATIONS[operation](left.value, right.value), unit, origin)

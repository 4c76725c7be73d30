"""Answers that a tour computes for the scenario on screen: small expressions over named quantities.

An expression holds numbers, quantities, + - * / and brackets: `k_reads`, `dram_bytes / ideal_bytes`,
`standard.modelled_seconds / flash2.modelled_seconds`. Before a dot stands an algorithm: the quantity is then
that of the same problem and tiling under that algorithm. `flash2.recorded_seconds` is the time that the GPU's
newest recording has of the problem; there `eager`, `sdpa_flash` and whatever else it holds may stand too.
A condition is two expressions with <, >, <=, >= or == between them.
"""

import ast
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from engine.algorithms import ALGORITHMS, FORWARD
from engine.experiment import Experiment
from engine.problem.problem import Problem
from engine.recordings.file import is_of, recordings
from engine.studies.quantities import GIVEN, NUMBER, ORIGINS, QUANTITIES, RECORDED, SECONDS

RECORDED_SECONDS = "recorded_seconds"


LONGEST = 400  # characters of an expression
LARGEST = 1e30  # a number that is written or computed; bytes of the largest scenario have 24 digits
QUOTED = 80  # characters of what is wrong that a sentence quotes


class AnswerError(ValueError):
    """An expression that cannot be computed; the message is one sentence."""


def quoted(text: str) -> str:
    """What is wrong, as a sentence quotes it: in one line, and not all of a long one."""
    return repr(text if len(text) <= QUOTED else text[: QUOTED - 1] + "…")


@dataclass(frozen=True)
class Answer:
    """A computed value with its unit ("" for a plain number) and what it rests on, one of ORIGINS."""

    value: float
    unit: str
    origin: str


OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
COMPARISONS = {
    **{ast.Lt: operator.lt, ast.Gt: operator.gt, ast.LtE: operator.le, ast.GtE: operator.ge},
    ast.Eq: operator.eq,
}


@lru_cache(maxsize=512)
def answer(text: str, experiment: Experiment) -> Answer:
    """The value of an expression for a scenario; raises AnswerError in one sentence."""
    return _value(_parsed(text, "an expression", "k_reads or bytes / bytes"), experiment)


@lru_cache(maxsize=512)
def holds(text: str, experiment: Experiment) -> bool:
    """Whether a condition is true of a scenario; raises AnswerError in one sentence."""
    must = "flash2.flops < standard.flops"
    node = _parsed(text, "a condition", must)
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or type(node.ops[0]) not in COMPARISONS:
        raise AnswerError(f"{quoted(text)} is not a condition; it must be like {must}")
    left, right = _value(node.left, experiment), _value(node.comparators[0], experiment)
    if left.unit != right.unit:
        raise AnswerError(f"{_unit(left)} and {_unit(right)} cannot be compared")
    return COMPARISONS[type(node.ops[0])](left.value, right.value)


def _parsed(text: str, kind: str, must: str) -> ast.expr:
    if len(text) > LONGEST:
        raise AnswerError(f"{quoted(text)} has {len(text):,} characters; it must have at most {LONGEST}")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise AnswerError(f"{quoted(text)} is not {kind}; it must be like {must}") from None


def _value(node: ast.AST, experiment: Experiment) -> Answer:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return _combined(type(node.op), _value(node.left, experiment), _value(node.right, experiment))
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _bounded(Answer(node.value, NUMBER, GIVEN))
    if isinstance(node, ast.Name):
        return _asked(node.id, experiment)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        algorithm = node.value.id
        if node.attr == RECORDED_SECONDS:
            return _recorded(algorithm, experiment)
        if algorithm not in ALGORITHMS:
            raise AnswerError(
                f"{quoted(algorithm)} is not an algorithm; it must be one of {', '.join(ALGORITHMS)}"
            )
        return _asked(node.attr, experiment.changed(algorithm=algorithm))
    raise AnswerError(
        f"{quoted(ast.unparse(node))} cannot be computed; allowed are numbers, quantities, + - * / and "
        "brackets"
    )


def _asked(name: str, experiment: Experiment) -> Answer:
    if name not in QUANTITIES:
        raise AnswerError(f"{quoted(name)} is not a quantity; it must be one of {', '.join(QUANTITIES)}")
    quantity = QUANTITIES[name]
    try:
        return Answer(quantity.of(experiment), quantity.unit, quantity.origin)
    except ValueError as error:  # of a model that serves fewer scenarios, such as fewer tokens than GPUs
        raise AnswerError(str(error)) from None


def _recorded(provider: str, experiment: Experiment) -> Answer:
    _, seconds = recorded_times(experiment.problem, experiment.hardware)
    if not seconds:
        raise AnswerError(f"{experiment.gpu.with_article} has no recording; it must be a GPU that has one")
    if provider not in seconds:
        raise AnswerError(f"{quoted(provider)} is in no recording; it must be one of {', '.join(seconds)}")
    if seconds[provider] is None:
        raise AnswerError(f"{provider} was not recorded for this problem; it must be one that was")
    return Answer(seconds[provider], SECONDS, RECORDED)


def _unit(answer: Answer) -> str:
    return answer.unit or "a number"


def _combined(operation: type[ast.operator], left: Answer, right: Answer) -> Answer:
    """Two values put together, their units with them; the more modelled of the two says what it is."""
    unit = left.unit or right.unit if operation is ast.Mult else left.unit
    if operation in (ast.Add, ast.Sub) and left.unit != right.unit:
        raise AnswerError(f"{_unit(left)} and {_unit(right)} cannot be added")
    if operation is ast.Mult and left.unit and right.unit:
        raise AnswerError(f"{left.unit} times {right.unit} has no unit here")
    if operation is ast.Div and right.unit:
        if left.unit != right.unit:
            raise AnswerError(f"{_unit(left)} over {right.unit} has no unit here")
        unit = NUMBER
    if operation is ast.Div and right.value == 0:
        raise AnswerError("the expression divides by 0 for this scenario")
    origin = max(left.origin, right.origin, key=ORIGINS.index)
    return _bounded(Answer(OPERATIONS[operation](left.value, right.value), unit, origin))


def _bounded(found: Answer) -> Answer:
    """The same; raises AnswerError where its number is none, or larger than anything there is."""
    if not -LARGEST <= found.value <= LARGEST:
        raise AnswerError(f"a number of the expression is beyond {LARGEST:.0e}")
    return found


@lru_cache(maxsize=64)
def recorded_times(problem: Problem, hardware: str) -> tuple[str, Mapping[str, float | None]]:
    """Where and when a GPU, by a preset's key, was recorded, and the problem's forward times: median seconds
    by provider, None where one was not recorded for it."""
    recording = next((each for each in recordings() if is_of(each, hardware)), None)
    rows = [row for row in recording.timings if row.direction == FORWARD] if recording else []
    times: dict[str, float | None] = dict.fromkeys(row.provider for row in rows)
    times |= {row.provider: row.times.p50 for row in rows if row.problem == problem and row.times}
    return recording.origin if recording else "", times

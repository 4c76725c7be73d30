"""Attention in FP8 beside float16: its time, quantising included, and how far it is off.

Imports torch and kernels when called.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.measuring import clock
from engine.measuring.libraries import kernels, torch
from engine.measuring.trial import Checked, attempt, in_turns, not_timed, random_inputs
from engine.problem.problem import Problem
from engine.recordings.timing import Fp8Timing

OUTLIERS, OUTLIER_SIZE = 0.001, 10.0  # the share that is drawn from a distribution so much wider
WRONG = 0.5  # of O: no rounding takes as much


def timed(rows: Sequence[Fp8Timing], repeats: clock.Repeats, cuda: bool) -> list[Fp8Timing]:
    """The rows of one problem and its inputs with their errors, and times in turns; or with why none."""
    problem = rows[0].problem
    tensors = random_inputs(problem, cuda)
    if rows[0].inputs == "outliers":
        tensors = with_outliers(tensors)
    exact, found = _exact(tensors, problem), {}
    for row in rows:
        error, checked = _checked(row.numbers, tensors, problem, exact)
        found[row if error is None else replace(row, relative_error=error)] = checked
    return in_turns(found, repeats, cuda)


def checked_call(numbers: str, problem: Problem) -> Checked | str:
    """The call in these numbers on normally distributed inputs, if its result is right; else why not."""
    tensors = random_inputs(problem, cuda=True)
    return _checked(numbers, tensors, problem, _exact(tensors, problem))[1]


def _checked(
    numbers: str, tensors: Sequence, problem: Problem, exact: list
) -> tuple[float | None, Checked | str]:
    """The error of O, and the call; or None and why it is not timed."""
    call = _call(numbers, tensors, problem)
    out, reason = attempt(call, tensors[0].is_cuda)
    if reason:
        return None, reason
    error = _relative_error(out, exact)
    return (error, Checked(call)) if error < WRONG else (None, not_timed(f"it is off by {error:.2g} of O"))


def with_outliers(tensors: Sequence) -> tuple:
    """One number in a thousand of each gets another added that is ten times as wide."""
    generator = torch.Generator(tensors[0].device).manual_seed(1)

    def added(tensor):
        size, drawn = (
            function(tensor.shape, generator=generator, device=tensor.device)
            for function in (torch.randn, torch.rand)
        )
        return (OUTLIER_SIZE * size * (drawn < OUTLIERS)).to(tensor.dtype)

    return tuple(tensor + added(tensor) for tensor in tensors)


def line(rows: Sequence[Fp8Timing]) -> str:
    """A problem's rows as the command line prints them."""
    problem, mask = rows[0].problem, rows[0].problem.mask.text
    said = [
        f"{row.numbers} {row.skipped}" if row.times is None
        else f"{row.numbers} {row.tflops:.0f} TFLOP/s off by {row.relative_error:.2%}"
        for row in rows
    ]  # fmt: skip
    return f"N {problem.seq_kv} d {problem.head_dim} {mask}, {rows[0].inputs}: {', '.join(said)}"


def _call(numbers: str, tensors: Sequence, problem: Problem) -> Callable:
    causal = problem.mask.causal
    if numbers == "float16":
        return lambda: kernels.attention(*tensors, causal=causal, algorithm="flash3")
    scales = "tensor" if numbers == "tensor" else "block"
    return lambda: kernels.attention_fp8(*tensors, causal=causal, rotate=numbers == "rotated", scales=scales)


def _exact(tensors: Sequence, problem: Problem) -> list:
    """O of the first and the last head of the first sequence, float64."""
    own = ([tensor[:1, head : head + 1] for tensor in tensors] for head in _heads(problem.heads))
    return [kernels.reference_attention(*each, causal=problem.mask.causal)[0] for each in own]


def _heads(heads: int) -> list[int]:
    return sorted({0, heads - 1})


def _relative_error(out, exact: Sequence) -> float:
    differences = [
        out[:1, head : head + 1].double() - right
        for head, right in zip(_heads(out.shape[1]), exact, strict=True)
    ]
    squares = [sum(float(part.square().sum()) for part in parts) for parts in (differences, exact)]
    return (squares[0] / squares[1]) ** 0.5

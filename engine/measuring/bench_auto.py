"""python -m engine bench-kernels --auto: what `auto` takes against the fastest of this project's kernels."""

from collections.abc import Callable
from math import exp, inf, log

from engine.measuring.bench import LONGEST_RECORDED, Bench
from engine.measuring.clock import Repeats
from engine.measuring.implementations import implementations
from engine.measuring.libraries import kernels
from engine.measuring.machine import machine
from engine.measuring.trial import random_inputs
from engine.problem.problem import Mask, Problem
from engine.recordings.timing import Timing

CANDIDATES = ("flash2", "flash3", "split_kv")  # that auto takes one of
REPEATS = Repeats(8, 12, 0.05)
LIMIT = 1.5  # times the fastest one's, from which on a choice is a wrong one


def problems() -> list[Problem]:
    """Short and long sequences, few and many; one query and some, of heads that share keys and not."""
    square = [
        Problem(batch, 16, 16, n, n, d, "float16", Mask(causal))
        for d in (64, 128)
        for causal in (False, True)
        for batch in (1, 4)
        for n in (256, 1024, 4096)
    ]
    few_queries = [
        Problem(batch, 32, kv_heads, rows, keys, 128, "float16", Mask(rows > 1))
        for kv_heads in (8, 32)
        for rows in (1, 16, 64)
        for batch in (1, 16)
        for keys in (512, 4096, 16384)
    ]
    return square + few_queries


def auto_choice(problem: Problem) -> str:
    """The algorithm that auto takes on this machine."""
    return kernels.explain(*random_inputs(problem, cuda=True), causal=problem.mask.causal).split()[0]


def slowdown(choice: str, rows: list[Timing]) -> float:
    """How many times the fastest candidate's time the choice takes; infinity where it was not timed."""
    times = {row.provider: row.times.p50 for row in rows if row.times}
    return times[choice] / min(times.values()) if choice in times else inf


def line(problem: Problem, choice: str, rows: list[Timing]) -> str:
    """One problem: what auto takes, over the fastest, and every candidate's microseconds."""
    shape = f"batch {problem.batch:<2} heads {problem.heads}/{problem.kv_heads} d {problem.head_dim}"
    seen = problem.mask.text
    times = sorted((row.times.p50, row.provider) for row in rows if row.times)
    figures = "  ".join(f"{provider} {seconds * 1e6:.1f}" for seconds, provider in times)
    figures += "".join(f"  {row.provider}: {row.skipped}" for row in rows if row.skipped)
    factor = f"auto {choice} x{slowdown(choice, rows):.2f}"
    return f"{shape:<25} queries {problem.seq_q:<5} keys {problem.seq_kv:<6} {seen:<7} {factor:<20} {figures}"


def run(bench: Bench, wanted: list[Problem], choice_of: Callable[[Problem], str] = auto_choice) -> int:
    """Prints a line for each problem and what the choices cost in all; 1 where one is beyond LIMIT."""
    factors = []
    for problem in wanted:
        choice, rows = choice_of(problem), bench.timings(problem)
        print(line(problem, choice, rows), flush=True)
        factors.append(slowdown(choice, rows))
    mean = exp(sum(map(log, factors)) / len(factors))
    print(f"auto takes x{mean:.3f} of the fastest one's time on average, at most x{max(factors):.2f}")
    print(f"microseconds, medians, the L2 cold; at most x{LIMIT} is allowed")
    return int(max(factors) > LIMIT)


def candidates() -> Bench:
    """Those that auto takes one of, on this GPU."""
    known = implementations()
    return Bench(machine(), [known[name] for name in CANDIDATES], LONGEST_RECORDED, REPEATS, REPEATS)

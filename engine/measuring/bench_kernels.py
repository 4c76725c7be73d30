"""python -m engine bench-kernels: this project's kernels against what else there is on this GPU."""

import sys
from collections.abc import Callable
from dataclasses import replace
from math import exp, inf, log

from engine.algorithms import BACKWARD, FORWARD
from engine.measuring import bench_models
from engine.measuring.bench import LONGEST_RECORDED, Bench
from engine.measuring.clock import Repeats
from engine.measuring.exact import ALLOWED
from engine.measuring.implementations import contenders, implementations, present
from engine.measuring.libraries import kernels
from engine.measuring.machine import device, machine
from engine.measuring.scenarios import together
from engine.measuring.sections import timed
from engine.measuring.trial import random_inputs, training_problem
from engine.parser import Parser, to_write
from engine.problem.problem import Mask, Problem
from engine.recordings.timing import Timing, VariantTiming
from engine.studies.masks import beside
from engine.worker.jobs import JobError

PACKED = (  # windows to both sides; documents, the same causal, and of unequal lengths
    Mask(window=1025, ahead=1024),
    Mask(documents=16),
    Mask(causal=True, documents=16),
    Mask(causal=True, documents=(8192, 5000, 1, 2191, 1000)),
)
REPEATS = Repeats(15, 30, 0.15)
CANDIDATES = ("flash2", "flash3", "split_kv")  # that auto takes one of
AUTO_REPEATS = Repeats(8, 12, 0.05)
LIMIT = 1.5  # times the fastest one's, from which on a choice of auto is a wrong one


def shapes() -> list[Problem]:
    """The training shapes, then grouped heads, windows, documents and ragged lengths."""
    one = training_problem(4096, 128, causal=True)
    return [
        *(
            training_problem(n, d, causal)
            for d in (128, 64, 256)
            for n in (4096, 16384, 512, 1024, 2048)
            for causal in (False, True)
        ),
        replace(one, kv_heads=one.heads // 4),
        replace(training_problem(16384, 128, True), mask=Mask(True, 1024)),
        *(replace(training_problem(16384, 128, False), mask=mask) for mask in PACKED),
        replace(one, seq_q=4095, seq_kv=4095),
    ]


def line(rows: list[Timing], ours: set[str]) -> str:
    """One problem: TFLOP/s of each, best first, and how many times as fast our best is as the best peer."""
    problem = rows[0].problem
    what = problem.mask.text + ("" if problem.group == 1 else f" kv {problem.kv_heads}")
    head = f"{rows[0].direction:<8} d {problem.head_dim:<3} N {problem.seq_kv:<5} {what:<22}"
    timed = sorted((row for row in rows if row.times), key=lambda row: row.times.p50)
    own, peer = (
        next((row.times.p50 for row in timed if (row.provider in ours) == whose), None)
        for whose in (True, False)
    )
    ratio = f"x{peer / own:.3f}" if own and peer else "no peer" if own else "none of ours"
    return f"{head} {ratio:<13} {'  '.join(f'{row.provider} {row.tflops:.0f}' for row in timed)}"


def run() -> int:
    """Times every problem, forward and backward, then all masks; prints a line for each."""
    print("TFLOP/s in turns, medians, fastest first; x: ours over the best peer")
    bench = Bench(machine(), present(contenders()), LONGEST_RECORDED, REPEATS)
    ours = {one.name for one in bench.implementations if one.ours}
    for direction in (FORWARD, BACKWARD):
        for problem in shapes():
            if direction == FORWARD or problem.heads == problem.kv_heads:  # else no gradients are checked
                print(line(bench.timings(problem, direction), ours), flush=True)
    print(f"each result is held against float64 first, allowed is {ALLOWED}")
    return run_variants()


def run_variants() -> int:
    """Times what masks and terms cost; prints a line for each."""
    for planned in together("variants", "direction"):
        rows = timed(planned, REPEATS, cuda=True)
        for row in rows:
            print(variant_line(row, beside(row, rows)), flush=True)
    return 0


def variant_line(row: VariantTiming, plain: VariantTiming) -> str:
    """A row as the command line prints it: its time, its rate, and that rate over the plain one's."""
    name = row.problem.mask.text
    name += f", prefix {row.prefix:,}" if row.prefix else ""
    name += f", {row.term}" if row.term else ""
    name += f", d {row.problem.head_dim}/{row.v_dim}" if row.v_dim else ""
    if row.times is None:
        return f"{row.direction:<8} {name:<46} {row.skipped}"
    over = f"{row.tflops / plain.tflops:.2f} of plain" if plain.tflops else ""
    return f"{row.direction:<8} {name:<46} {row.times.p50 * 1e3:7.3f} ms {row.tflops:4.0f} TFLOP/s  {over}"


def auto_problems() -> list[Problem]:
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


def auto_line(problem: Problem, choice: str, rows: list[Timing]) -> str:
    """One problem: what auto takes, over the fastest, and every candidate's microseconds."""
    shape = f"batch {problem.batch:<2} heads {problem.heads}/{problem.kv_heads} d {problem.head_dim}"
    rows_and_mask = f"queries {problem.seq_q:<5} keys {problem.seq_kv:<6} {problem.mask.text:<7}"
    times = sorted((row.times.p50, row.provider) for row in rows if row.times)
    figures = "  ".join(f"{provider} {seconds * 1e6:.1f}" for seconds, provider in times)
    figures += "".join(f"  {row.provider}: {row.skipped}" for row in rows if row.skipped)
    factor = f"auto {choice} x{slowdown(choice, rows):.2f}"
    return f"{shape:<25} {rows_and_mask} {factor:<20} {figures}"


def run_auto(
    bench: Bench | None = None,
    wanted: list[Problem] | None = None,
    choice_of: Callable[[Problem], str] = auto_choice,
) -> int:
    """Prints a line for each problem and what the choices cost in all; 1 where one is beyond LIMIT."""
    known, factors = implementations(), []
    bench = bench or Bench(machine(), [known[name] for name in CANDIDATES], LONGEST_RECORDED, AUTO_REPEATS)
    for problem in wanted or auto_problems():
        choice, rows = choice_of(problem), bench.timings(problem)
        print(auto_line(problem, choice, rows), flush=True)
        factors.append(slowdown(choice, rows))
    mean = exp(sum(map(log, factors)) / len(factors))
    print(f"auto takes x{mean:.3f} of the fastest one's time on average, at most x{max(factors):.2f}")
    print(f"microseconds, medians, the L2 cold; at most x{LIMIT} is allowed")
    return int(max(factors) > LIMIT)


def main(arguments: list[str]) -> int:
    """Time our kernels and the peers present, in one process, in random order; check each first."""
    parser = Parser("engine bench-kernels", main.__doc__)
    ways = parser.add_mutually_exclusive_group()
    for name, (_, what) in WAYS.items():
        ways.add_argument(f"--{name}", dest="way", action="store_const", const=name, help=what)
    parser.add_argument("--json", type=to_write, metavar="FILE", help="write what --beyond finds")
    options = parser.parse_args(arguments)
    try:
        device()
        if options.way == "beyond":
            return bench_models.run_beyond(options.json)
        return WAYS[options.way][0]() if options.way else run()
    except JobError as error:
        print(error, file=sys.stderr)
        return 2


WAYS = {
    "variants": (run_variants, "what masks and terms cost flash2"),
    "auto": (run_auto, "what auto takes against the fastest of ours"),
    "models": (bench_models.run, "calls as models make them, and decoding"),
    "beyond": (bench_models.run_beyond, "chosen blocks of keys, and a latent, beside all keys"),
}

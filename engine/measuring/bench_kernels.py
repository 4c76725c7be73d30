"""python -m engine bench-kernels: this project's kernels against what else there is on this GPU."""

import sys
from collections.abc import Callable
from dataclasses import replace
from math import exp, inf, log
from pathlib import Path

from engine.algorithms import BACKWARD, FORWARD
from engine.measuring import bench_models, calibrate
from engine.measuring.bench import LONGEST_RECORDED, Bench
from engine.measuring.clock import Repeats
from engine.measuring.exact import ALLOWED
from engine.measuring.implementations import TUTORIAL, contenders, implementations, present
from engine.measuring.libraries import kernels
from engine.measuring.machine import device, machine
from engine.measuring.sections import run_variants
from engine.measuring.trial import random_inputs, training_problem
from engine.parser import Parser, to_write
from engine.problem.hardware import MIB, gpu_named
from engine.problem.problem import Mask, Problem
from engine.recordings.file import save
from engine.recordings.recording import Device, Recording
from engine.recordings.timing import Timing
from engine.worker.jobs import JobError

QUICK = ((128, 4096), (64, 4096))
FULL = tuple((d, n) for d in (128, 64, 256) for n in (4096, 16384, 512, 1024, 2048))
PACKED = (  # windows to both sides; documents, the same causal, and of unequal lengths
    Mask(window=1025, ahead=1024),
    Mask(documents=16),
    Mask(causal=True, documents=16),
    Mask(causal=True, documents=(8192, 5000, 1, 2191, 1000)),
)
LEFT_OUT = ("standard", "flash1", "eager")  # of a quick run: slow, and no rivals
QUICK_REPEATS = Repeats(10, 20, 0.05)
FULL_REPEATS = Repeats(15, 30, 0.15)
CANDIDATES = ("flash2", "flash3", "split_kv")  # that auto takes one of
AUTO_REPEATS = Repeats(8, 12, 0.05)
LIMIT = 1.5  # times the fastest one's, from which on a choice of auto is a wrong one


def shapes(quick: bool) -> list[Problem]:
    """The training shapes, then grouped heads, windows, documents and ragged lengths."""
    plain = [
        training_problem(n, d, causal) for d, n in (QUICK if quick else FULL) for causal in (False, True)
    ]
    if quick:
        return plain
    one = training_problem(4096, 128, causal=True)
    return [
        *plain,
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


def run(bench: Bench, problems: list[Problem], where: Device) -> Recording:
    """Times every problem, forward and backward; prints a line for each."""
    ours = {one.name for one in bench.implementations if one.ours}
    rows: list[Timing] = []
    for direction in (FORWARD, BACKWARD):
        for problem in problems:
            if direction == BACKWARD and problem.heads != problem.kv_heads:
                continue  # gradients of shared heads are not checked here
            rows += (found := bench.timings(problem, direction))
            print(line(found, ours), flush=True)
    missing = {row.label: row.skipped for row in rows if row.skipped}
    for label in missing.keys() - {row.label for row in rows if row.times}:
        print(f"not timed: {label}: {missing[label]}")
    return Recording(where, timings=tuple(rows))


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


def run_auto(bench: Bench, wanted: list[Problem], choice_of: Callable[[Problem], str] = auto_choice) -> int:
    """Prints a line for each problem and what the choices cost in all; 1 where one is beyond LIMIT."""
    factors = []
    for problem in wanted:
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
    parser.add_argument("--quick", action="store_true", help="N 4096 only, and only the fused kernels")
    parser.add_argument("--json", type=to_write, metavar="FILE", help="write a recording")
    parser.add_argument("--tutorial", default=TUTORIAL, help="module with Triton's tutorial 06; %(default)s")
    parser.add_argument("--variants", action="store_true", help="what masks and terms cost flash2")
    parser.add_argument("--auto", action="store_true", help="what auto takes against the fastest of ours")
    parser.add_argument("--models", action="store_true", help="calls as models make them, and decoding")
    parser.add_argument(
        "--beyond", action="store_true", help="chosen blocks of keys, and a latent, beside all keys"
    )
    parser.add_argument("--cache", action="store_true", help="what L2 alone delivers to the SMs")
    options = parser.parse_args(arguments)
    if options.cache:
        return measure_cache()
    try:
        where = device()
        if options.auto:
            candidates = [implementations()[name] for name in CANDIDATES]
            contest = Bench(machine(), candidates, LONGEST_RECORDED, AUTO_REPEATS)
            return run_auto(contest, auto_problems())
        if options.models:
            return bench_models.run()
        if options.beyond:
            return bench_models.run_beyond(options.json)
        repeats = QUICK_REPEATS if options.quick else FULL_REPEATS
        if options.variants:
            return _written(Recording(where, variants=tuple(run_variants(repeats))), options.json)
        print(f"{where.gpu}, driver {where.driver}, {dict(where.versions)}, clocks {dict(where.clocks)}")
        print("TFLOP/s in turns, medians, fastest first; x: ours over the best peer")
        known = contenders(options.tutorial)
        entered = present([one for one in known if not (options.quick and one.name in LEFT_OUT)])
        bench = Bench(machine(), entered, LONGEST_RECORDED, repeats)
        recording = run(bench, shapes(options.quick), where)
    except JobError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"each result is held against float64 first, allowed is {ALLOWED}")
    if not options.quick:
        recording = replace(recording, variants=tuple(run_variants(repeats)))
    return _written(recording, options.json)


def _written(recording: Recording, path: Path | None) -> int:
    if path:
        save(recording, path)
    return 0


def measure_cache() -> int:
    """Print what L2 alone delivers to the SMs for each size of buffer; 0, or 2 without a GPU.

    It is what the SMs take in: neighbours that request the same at once get one answer.
    """
    where = machine()
    if not where.cuda:
        print("the cache of a GPU is measured on a GPU: there is none", file=sys.stderr)
        return 2
    gpu = gpu_named(where.device)
    for name, points in calibrate.Bench().cache().items():
        for size, rate in points:
            share = "" if gpu is None else f", {rate / gpu.cache_bytes_per_second:.0%} of its preset's peak"
            print(f"{where.device}: {size / MIB:.0f} MiB, {name}: {rate / 1e12:.2f} TB/s{share}")
    return 0

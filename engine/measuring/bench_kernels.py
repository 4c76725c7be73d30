"""python -m engine bench-kernels: this project's kernels against what else there is on this GPU."""

import sys
from dataclasses import replace
from pathlib import Path

from engine.algorithms import BACKWARD, FORWARD
from engine.measuring import bench_auto, bench_beyond, bench_models, calibrate, variants
from engine.measuring.bench import LONGEST_RECORDED, Bench
from engine.measuring.clock import Repeats
from engine.measuring.exact import ALLOWED
from engine.measuring.implementations import TUTORIAL, Implementation, contenders
from engine.measuring.machine import device, machine
from engine.measuring.trial import training_problem
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
    """One problem: TFLOP/s in turns / alone of each, best first, and ours over the best peer."""
    problem = rows[0].problem
    what = problem.mask.text + ("" if problem.group == 1 else f" kv {problem.kv_heads}")
    head = f"{rows[0].direction:<8} d {problem.head_dim:<3} N {problem.seq_kv:<5} {what:<22}"
    timed = sorted((row for row in rows if row.times), key=lambda row: row.times.p50)
    alone = [f"{row.tflops * row.times.p50 / row.alone.p50:.0f}" if row.alone else "-" for row in timed]
    figures = [f"{row.provider} {row.tflops:.0f}/{rate}" for row, rate in zip(timed, alone, strict=True)]
    return f"{head} {_ratio(timed, ours):<22} {'  '.join(figures)}"


def _ratio(timed: list[Timing], ours: set[str]) -> str:
    """How many times as fast our best is as the best peer: in turns, and alone."""
    own = [row for row in timed if row.provider in ours]
    peers = [row for row in timed if row.provider not in ours]
    if not own or not peers:
        return "no peer" if own else "none of ours"
    turns = peers[0].times.p50 / own[0].times.p50
    alone = [min((row.alone.p50 for row in rows if row.alone), default=None) for rows in (peers, own)]
    return f"x{turns:.3f}" + (f" (alone x{alone[0] / alone[1]:.3f})" if all(alone) else "")


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


def installed_contenders(quick: bool, tutorial: str) -> list[Implementation]:
    """Those that take part; says which are not installed."""
    found = []
    for one in contenders(tutorial):
        if not one.installed:
            print(f"not here: {one.label} ({one.module} is not installed)")
        elif not (quick and one.name in LEFT_OUT):
            found.append(one)
    return found


def main(arguments: list[str]) -> int:
    """Time our kernels and the peers present, in one process, in random order and alone; check each first."""
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
            return bench_auto.run(bench_auto.candidates(), bench_auto.problems())
        if options.models:
            return bench_models.run()
        if options.beyond:
            return bench_beyond.run(options.json)
        repeats = QUICK_REPEATS if options.quick else FULL_REPEATS
        if options.variants:
            return _written(Recording(where, variants=tuple(variants.run(repeats))), options.json)
        print(f"{where.gpu}, driver {where.driver}, {dict(where.versions)}, clocks {dict(where.clocks)}")
        print("TFLOP/s in turns/alone, medians, fastest first; x: ours over the best peer")
        entered = installed_contenders(options.quick, options.tutorial)
        bench = Bench(machine(), entered, LONGEST_RECORDED, repeats, repeats)
        recording = run(bench, shapes(options.quick), where)
    except JobError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"each result is held against float64 first, allowed is {ALLOWED}")
    if not options.quick:
        recording = replace(recording, variants=tuple(variants.run(repeats)))
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

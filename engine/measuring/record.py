"""python -m engine record: measures this GPU into a recording, row by row, and goes on where it stopped.

What is already in the file is kept; every row is on the disk when the next is measured, so that a run may be
cut short.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path

from engine.algorithms import BACKWARD, FORWARD
from engine.measuring import clock, cluster, decoding, fp8, scenarios, sweep, timelines, variants
from engine.measuring.bench import LONGEST_RECORDED, Bench
from engine.measuring.counters import find_ncu, profiled_counters
from engine.measuring.implementations import contenders
from engine.measuring.machine import device, machine
from engine.measuring.precompile import Kernel, compile_all, smaller
from engine.measuring.random_calls import random_calls
from engine.measuring.ranks import Ranks, started
from engine.measuring.recorder import Recorder
from engine.measuring.trial import training_problem
from engine.parser import Parser, seconds
from engine.problem.problem import Problem
from engine.recordings.cluster import ClusterTimeline, ClusterTiming
from engine.recordings.file import RecordingError
from engine.recordings.recording import Counters, identity
from engine.recordings.timing import Timing
from engine.worker.jobs import JobError

LENGTHS = tuple(2**power for power in range(7, 17))
HEAD_DIMS = (64, 128, 256)
DEFAULT_BUDGET = 1800.0
COMPILING = 0.5  # of the time left, at most
REPEATED = 3  # a call drawn by lot, as what L2 keeps of it is chance in part
IN_TURNS = clock.Repeats(4, 20, 0.06)
ALONE = clock.Repeats(4, 10, 0.04)


def contenders_bench() -> Bench:
    """All that compete on this GPU, timed in turns and alone."""
    entered = [one for one in contenders() if one.installed]
    return Bench(machine(), entered, LONGEST_RECORDED, IN_TURNS, ALONE)


def record_timings(
    recorder: Recorder, bench: Bench | None = None, lengths=LENGTHS, head_dims=HEAD_DIMS
) -> None:
    """Every contender over N, head dim and mask, forward and backward; short sequences first."""
    bench = bench or contenders_bench()
    problems = [
        training_problem(n, d, causal) for n in lengths for d in head_dims for causal in (False, True)
    ]
    wanted = [(problem, direction) for problem in problems for direction in (FORWARD, BACKWARD)]
    wanted = [pair for pair in wanted if not _is_complete(recorder, bench, *pair)]
    if bench.cuda:
        compile_ahead(recorder, _timed_kernels(bench, wanted))
    for index, (problem, direction) in enumerate(wanted):
        if recorder.left <= 0:
            return
        rows = bench.timings(problem, direction)
        recorder.add("timings", rows)
        mask = problem.mask.text
        what = f"N {problem.seq_kv} d {problem.head_dim} {mask} {direction}"
        best = max((row for row in rows if row.times), key=lambda row: row.tflops, default=None)
        rate = f"best {best.provider} {best.tflops:.0f} TFLOP/s" if best else "nothing ran"
        recorder.tell(f"timings {index + 1}/{len(wanted)}: {what}: {rate}")


def record_variants(recorder: Recorder) -> None:
    """flash2 under many masks and terms, all of a direction in turns with the plain ones."""
    for direction in (FORWARD, BACKWARD):
        wanted = variants.plan(direction)
        if recorder.left > 0 and not all(recorder.has("variants", row) for row in wanted):
            rows = variants.timed(wanted, IN_TURNS, cuda=True)
            recorder.add("variants", rows)
            recorder.tell(f"variants: {len(rows)} {direction}")


def record_sweep(recorder: Recorder) -> None:
    """Every block size, warps and stages of the tiled kernels."""
    wanted = [one for one in sweep.plan() if not recorder.has("sweep", sweep.row_of(one))]
    done = compile_ahead(recorder, wanted)
    for problem in dict.fromkeys(one.problem for one in wanted):
        ready = [one for one in done if one.problem == problem]
        recorder.tell(f"sweep: {len(ready)} configurations at d {problem.head_dim}")
        for row in sweep.timed(ready, cuda=True):
            recorder.add("sweep", [row])
            if recorder.left <= 0:
                return


def record_decoding(recorder: Recorder) -> None:
    """One query against many keys, over the number of splits, and in pages."""
    for problem in decoding.plan():
        if recorder.left <= 0:
            return
        if not all(recorder.has("decoding", row) for row in decoding.planned(problem)):
            rows = decoding.rows_of(problem, cuda=True)
            recorder.add("decoding", rows)
            best = max((row for row in rows if row.times), key=lambda row: row.bytes_per_second)
            rate = f"{best.provider} {best.bytes_per_second / 1e12:.2f} TB/s"
            recorder.tell(f"decoding {problem.seq_kv} keys: fastest {rate}")


def record_fp8(recorder: Recorder) -> None:
    """Attention in FP8 beside float16: times in turns, and errors."""
    for rows in fp8.plan():
        if recorder.left <= 0:
            return
        if not all(recorder.has("fp8", row) for row in rows):
            found = fp8.timed(rows, IN_TURNS, cuda=True)
            recorder.add("fp8", found)
            recorder.tell(f"fp8: {fp8.line(found)}")


def record_counters(
    recorder: Recorder, plan: Callable[[], list[Counters]] = scenarios.plan, times: int = 1
) -> None:
    """The hardware's counters, read by ncu, the middle ones of so many calls alike."""
    find_ncu()
    wanted = [row for row in plan() if not recorder.has("counters", row)]
    kernels = [scenarios.kernel_of(row) for row in wanted if not row.provider.startswith("sdpa_")]
    compile_ahead(recorder, kernels)
    counted = profiled_counters([row for row in wanted for _ in range(times)], recorder.left)
    for index, row in enumerate(middle_rows(counted, times)):
        recorder.add("counters", [row])
        what = row.skipped or f"{row.total('dram_read') / 1e6:,.0f} MB of DRAM read"
        recorder.tell(f"counters {index + 1}/{len(wanted)}: {row.provider} N {row.problem.seq_kv}: {what}")


def middle_rows(rows: Iterator[Counters], times: int) -> Iterator[Counters]:
    """Of every so many rows of one call the middle one, by DRAM reads, of those that ran."""
    while alike := list(islice(rows, times)):
        ran = [row for row in alike if row.skipped is None] or alike
        yield sorted(ran, key=lambda row: row.total("dram_read"))[len(ran) // 2]


def record_timelines(recorder: Recorder) -> None:
    """Which SM ran each block of threads, and when."""
    wanted = [one for one in timelines.plan() if not recorder.has("timelines", timelines.row_of(one))]
    compile_ahead(recorder, wanted)
    for index, one in enumerate(wanted):
        if recorder.left <= 0:
            return
        row = timelines.traced_row(one)
        recorder.add("timelines", [row])
        what = row.skipped or f"{sum(len(kernel.sm) for kernel in row.kernels):,} blocks"
        recorder.tell(f"timelines {index + 1}/{len(wanted)}: {one.algorithm} N {one.problem.seq_q}: {what}")


def record_cluster(recorder: Recorder) -> None:
    """Every way to compute on several GPUs, and what each GPU did when; every rank runs this, one writes."""
    ranks = Ranks()
    for problem in cluster.lanes_plan():
        for one in cluster.contenders(ranks):
            row = ClusterTimeline(one.provider, FORWARD, problem, ranks.size)
            if one.sharded and not recorder.has("cluster_timelines", row):
                recorder.add("cluster_timelines", [cluster.timeline_of(ranks, problem, one)])
    known = {(row.problem, row.direction) for row in recorder.rows["cluster"].values()}
    for rows in cluster.recorded(ranks, known, recorder.left):
        recorder.add("cluster", rows)
        problem, best = rows[0].problem, min((row for row in rows if row.times), key=_median, default=None)
        what = f"N {problem.seq_q} {problem.mask.text} {rows[0].direction}"
        said = f"best {best.provider} {_median(best) * 1e3:.2f} ms" if best else "nothing ran"
        recorder.tell(f"cluster: {what}, {problem.kv_heads} key heads: {said}")
    ranks.close()


def _median(row: ClusterTiming) -> float:
    return row.times.median


def compile_ahead(recorder: Recorder, kernels: list[Kernel]) -> list[Kernel]:
    """Those compiled in time."""
    kernels = list(dict.fromkeys(kernels))
    done = list(compile_all(kernels, COMPILING * recorder.left))
    recorder.tell(f"compiled {len(done)} of {len(kernels)} kernels")
    return done


def _is_complete(recorder: Recorder, bench: Bench, problem: Problem, direction: str) -> bool:
    """Whether a problem's rows are all there; what they took is remembered."""
    entered, known = bench.entered(direction), recorder.rows["timings"]
    rows = [known.get(identity(Timing(one.name, one.label, direction, problem))) for one in entered]
    for one, row in zip(entered, rows, strict=True):
        if row is not None and row.times is not None:
            bench.remember(one, problem, direction, row.times.p50)
    return None not in rows


def _timed_kernels(bench: Bench, wanted: list[tuple[Problem, str]]) -> list[Kernel]:
    """What the timings need compiled, each on the least problem that compiles the same."""
    return [
        Kernel(one.name, smaller(problem, one.name), direction)
        for problem, direction in wanted
        for one in bench.entered(direction)
        if one.ours
    ]


RECORD = {
    "timings": record_timings,
    "variants": record_variants,
    "sweep": record_sweep,
    "decoding": record_decoding,
    "fp8": record_fp8,
    "counters": record_counters,
    "drawn": partial(record_counters, plan=random_calls, times=REPEATED),
    "timelines": record_timelines,
    "cluster": record_cluster,
}


def main(arguments: list[str]) -> int:
    """Measure this GPU into a recording that the dashboard shows; run again to go on where it stopped."""
    options = _parser().parse_args(arguments)
    sections = [name for name in options.only.split(",") if name]
    if unknown := [name for name in sections if name not in RECORD]:
        print(f"only is {unknown[0]!r}; it must be some of {','.join(RECORD)}", file=sys.stderr)
        return 2
    sections += [name for name in ("counters", "timelines") if getattr(options, name)]
    if "cluster" in sections and len(sections) > 1:
        print(
            "only is cluster and more; several GPUs are recorded alone, in a file of their own",
            file=sys.stderr,
        )
        return 2
    if "cluster" in sections and not started():
        return _under_torchrun(arguments)
    try:
        recorder = Recorder(options.out, device(options.commit), options.budget, _say)
        with closing(recorder):
            for name in dict.fromkeys(sections):
                RECORD[name](recorder)
    except (JobError, RecordingError) as error:
        print(error, file=sys.stderr)
        return 2
    counts = ", ".join(f"{len(rows)} {name}" for name, rows in recorder.rows.items())
    _say(f"{options.out}: {counts}{'' if recorder.left > 0 else '; the time was up: run it again to go on'}")
    return 0


def _say(line: str) -> None:
    """A line of progress, by the first of several processes."""
    if os.environ.get("RANK", "0") == "0":
        print(line, flush=True)


def _under_torchrun(arguments: list[str]) -> int:
    """The same command again, as a process per GPU, by PyTorch's own launcher."""
    import torch

    if not torch.cuda.is_available():
        print("there is no GPU here that PyTorch can use, and only GPUs are recorded", file=sys.stderr)
        return 2
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    gpus = torch.cuda.device_count()
    command = [*launcher, "--nproc-per-node", str(gpus), "-m", "engine", "record", *arguments]
    return subprocess.run(command, check=False).returncode


def _parser() -> Parser:
    parser = Parser("engine record", main.__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="file to write; .json, or .json.gz to pack it"
    )
    parser.add_argument(
        "--only",
        default="timings,variants,sweep,decoding",
        help=f"some of {','.join(RECORD)}; default %(default)s",
    )
    parser.add_argument("--counters", action="store_true", help="the hardware's counters too (needs ncu)")
    parser.add_argument("--timeline", dest="timelines", action="store_true", help="every block on its SM too")
    parser.add_argument("--budget", type=seconds, default=DEFAULT_BUDGET, help="seconds; default %(default)g")
    parser.add_argument("--commit", help="of this project, where git cannot tell")
    return parser

"""python -m engine record: measures this GPU into a recording, row by row, and goes on where it stopped.

What is already in the file is kept; every row is on the disk when the next is measured, so that a run may be
cut short.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path

from engine.algorithms import BACKWARD, FORWARD
from engine.decoded import FileError
from engine.measuring import cluster, layers, sampling, scenarios, sections
from engine.measuring.bench import LONGEST_RECORDED, Bench
from engine.measuring.clock import Repeats
from engine.measuring.counters import find_ncu, profiled_counters
from engine.measuring.implementations import contenders
from engine.measuring.libraries import torch
from engine.measuring.machine import device, machine
from engine.measuring.ranks import Ranks, started
from engine.measuring.recorder import Recorder
from engine.measuring.scenarios import random_calls
from engine.measuring.trial import training_problem
from engine.model.cluster.spread import RING, RING_SEND
from engine.parser import Parser, seconds
from engine.recordings.cluster import ClusterTimeline
from engine.recordings.recording import Counters, Row
from engine.recordings.samples import Samples
from engine.recordings.timing import Decoding, TilingTiming, Timing
from engine.worker.jobs import JobError

LENGTHS = tuple(2**power for power in range(7, 17))
HEAD_DIMS = (64, 128, 256)
DEFAULT_BUDGET = 1800.0
REPEATED = 3  # a call drawn by lot, as what L2 keeps of it is chance in part
IN_TURNS = Repeats(4, 20, 0.06)


def record_timings(
    recorder: Recorder, bench: Bench | None = None, lengths=LENGTHS, head_dims=HEAD_DIMS
) -> None:
    """Every contender over N, head dim and mask, forward and backward; short sequences first."""
    if bench is None:
        entered = [one for one in contenders() if one.installed]
        bench = Bench(machine(), entered, LONGEST_RECORDED, IN_TURNS)
    bench.remember(recorder.rows["timings"].values())
    problems = [
        training_problem(n, d, causal) for n in lengths for d in head_dims for causal in (False, True)
    ]

    def timed(rows: list[Timing]) -> list[list[Timing]]:
        return [bench.timings(rows[0].problem, rows[0].direction)]

    def said(rows: list[Timing]) -> str:
        problem = rows[0].problem
        best = max((row for row in rows if row.times), key=lambda row: row.tflops, default=None)
        rate = f"best {best.provider} {best.tflops:.0f} TFLOP/s" if best else "nothing ran"
        return f"N {problem.seq_kv} d {problem.head_dim} {problem.mask.text} {rows[0].direction}: {rate}"

    groups = [bench.planned(problem, way) for problem in problems for way in (FORWARD, BACKWARD)]
    recorder.measure("timings", groups, timed, said, compiled=bench.cuda)


def in_turns(recorder: Recorder, section: str, alike: Sequence[str], timed: Callable, said: Callable) -> None:
    """The calls of a section, those with these properties alike timed in turns."""
    groups = scenarios.together(section, *alike)
    recorder.measure(section, groups, lambda rows: [timed(rows, IN_TURNS, cuda=True)], said, compiled=False)


def record_sweep(recorder: Recorder) -> None:
    """Every block size, warps and stages of the tiled kernels, of those compiled in time."""
    groups = scenarios.together("sweep", "problem")
    ready = {*recorder.compile_ahead([row for row in chain(*groups) if not recorder.has("sweep", row)])}

    def timed(rows: list[TilingTiming]) -> Iterator[list[TilingTiming]]:
        return ([row] for row in sections.timed_sweep(rows, cuda=True))

    def said(rows: list[TilingTiming]) -> str:
        (row,) = rows
        return f"{row.algorithm} {row.block_q} x {row.block_kv} {row.skipped or ''}"

    groups = [[row for row in rows if row in ready] for rows in groups]
    recorder.measure("sweep", groups, timed, said, compiled=False)


def record_decoding(recorder: Recorder) -> None:
    """One query against many keys, over the number of splits, and in pages."""

    def timed(rows: list[Decoding]) -> list[list[Decoding]]:
        return [sections.timed_decoding(rows[0].problem, cuda=True)]

    def said(rows: list[Decoding]) -> str:
        best = max((row for row in rows if row.times), key=lambda row: row.bytes_per_second)
        rate = f"{best.provider} {best.bytes_per_second / 1e12:.2f} TB/s"
        return f"{best.problem.seq_kv} keys: fastest {rate}"

    problems = (rows[0].problem for rows in scenarios.together("decoding", "problem"))
    groups = [list(sections.planned_decoding(problem)) for problem in problems]
    recorder.measure("decoding", groups, timed, said, compiled=False)


def record_counters(recorder: Recorder, plan: Callable = random_calls, times: int = REPEATED) -> None:
    """The hardware's counters, read by ncu, the middle ones of so many calls alike; or bytes, by samples."""
    wanted = [row for row in plan() if not recorder.has("counters", row)]
    sampling_itself = False
    try:
        find_ncu()
    except JobError as error:
        sampling.library()
        recorder.tell(f"{error}; without it the chip samples the bytes of each call")
        sampling_itself = True
    recorder.compile_ahead(wanted)
    if sampling_itself:
        counted = (sampling.counted_row(row) for row in wanted if recorder.left > 0)
    else:
        alike = [row for row in wanted for _ in range(times)]
        counted = middle_rows(profiled_counters(alike, recorder.left), times)
    for index, row in enumerate(counted):
        recorder.add("counters", [row])
        what = row.skipped or f"{row.total('dram_read') / 1e6:,.0f} MB of DRAM read"
        recorder.tell(f"counters {index + 1}/{len(wanted)}: {row.provider} N {row.problem.seq_kv}: {what}")


def middle_rows(rows: Iterator[Counters], times: int) -> Iterator[Counters]:
    """Of every so many rows of one call the middle one, by DRAM reads, of those that ran."""
    while alike := list(islice(rows, times)):
        ran = [row for row in alike if row.skipped is None] or alike
        yield sorted(ran, key=lambda row: row.total("dram_read"))[len(ran) // 2]


def one_by_one(recorder: Recorder, section: str, measure: Callable[[Row], Row], said: Callable) -> None:
    """The calls that are planned for a section."""
    groups = [[row] for row in scenarios.plan(section)]

    def line(rows: list[Row]) -> str:
        (row,) = rows
        return f"{row.provider} N {row.problem.seq_kv}: {row.skipped or said(row)}"

    recorder.measure(section, groups, lambda rows: [[measure(row)] for row in rows], line)


def record_samples(recorder: Recorder) -> None:
    """What crosses HBM while calls run, as the chip samples itself."""

    def said(row: Samples) -> str:
        return f"{row.read_bytes / 1e6:,.1f} MB of DRAM read, {row.written_bytes / 1e6:,.1f} written"

    sampling.library()
    one_by_one(recorder, "samples", sampling.sampled_row, said)


def record_cluster(recorder: Recorder) -> None:
    """Every way to compute on several GPUs, and what each GPU did when; every rank runs this, one writes."""
    ranks = Ranks()
    for problem in cluster.LANES:
        for one in cluster.contenders(ranks):
            row = ClusterTimeline(one.provider, FORWARD, problem, ranks.size)
            if one.sharded and not recorder.has("cluster_timelines", row):
                recorder.add("cluster_timelines", [cluster.timeline_of(ranks, problem, one)])
    known = {(row.problem, row.direction) for row in recorder.rows["cluster"].values()}
    for rows in cluster.recorded(ranks, known, recorder.left):
        recorder.add("cluster", rows)
        timed, median = [row for row in rows if row.times], attrgetter("times.median")
        problem, best = rows[0].problem, min(timed, key=median, default=None)
        what = f"N {problem.seq_q} {problem.mask.text} {rows[0].direction}"
        said = f"best {best.provider} {median(best) * 1e3:.2f} ms" if best else "nothing ran"
        recorder.tell(f"cluster: {what}, {problem.kv_heads} key heads: {said}")
    ranks.close()


def record_links(recorder: Recorder) -> None:
    """What each GPU sends over NVLink while a ring runs, of the rings whose lanes are recorded."""
    for row in list(recorder.rows["cluster_timelines"].values()):
        if row.marks and row.provider in (RING, RING_SEND):
            _, found = cluster.ring_here(row.problem, row.direction, row.gpus, row.provider)
            marks = zip(row.marks, found.marks, strict=False)
            marks = tuple(replace(mark, sent=of.sent) for mark, of in marks) or row.marks
            recorder.add("cluster_timelines", [replace(row, marks=marks, interval=found.interval)])
            sent = found.skipped or ", ".join(f"{of.sent_bytes / 1e6:,.1f} MB" for of in marks)
            recorder.tell(f"links: {row.provider} N {row.problem.seq_q}: {sent}")


RECORD = {
    "timings": record_timings,
    # flash2 under many masks and terms, all of a direction in turns with the plain ones
    "variants": partial(
        in_turns,
        section="variants",
        alike=["direction"],
        timed=sections.timed_variants,
        said=lambda rows: f"{len(rows)} {rows[0].direction}",
    ),
    "sweep": record_sweep,
    "decoding": record_decoding,
    # FP8 beside float16: times in turns, and errors
    "fp8": partial(
        in_turns,
        section="fp8",
        alike=["problem", "inputs"],
        timed=sections.timed_fp8,
        said=sections.fp8_line,
    ),
    "counters": partial(record_counters, plan=partial(scenarios.plan, "counters"), times=1),
    "drawn": record_counters,
    # which SM ran each block of threads, and when
    "timelines": partial(
        one_by_one,
        section="timelines",
        measure=sections.traced_row,
        said=lambda row: f"{sum(len(kernel.sm) for kernel in row.kernels):,} blocks",
    ),
    "samples": record_samples,
    "layers": layers.record,
    "cluster": record_cluster,
    "links": record_links,
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
    except (JobError, FileError) as error:
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
    parser.add_argument("--counters", action="store_true", help="the hardware's counters too")
    parser.add_argument("--timeline", dest="timelines", action="store_true", help="every block on its SM too")
    parser.add_argument("--budget", type=seconds, default=DEFAULT_BUDGET, help="seconds; default %(default)g")
    parser.add_argument("--commit", help="of this project, where git cannot tell")
    return parser

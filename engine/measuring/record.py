"""python -m engine record: measures this GPU into a recording, row by row, and goes on where it stopped.

What is already in the file is kept; every row is on the disk when the next is measured, so that a run may be
cut short.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import product
from operator import attrgetter
from pathlib import Path

from engine.algorithms import BACKWARD, FORWARD
from engine.measuring import cluster, layers, sampling, sections
from engine.measuring.bench import LONGEST_RECORDED, Bench
from engine.measuring.clock import Repeats
from engine.measuring.counters import find_ncu, profiled_counters
from engine.measuring.implementations import contenders
from engine.measuring.machine import device, machine, torch
from engine.measuring.ranks import Ranks, started
from engine.measuring.recorder import Recorder
from engine.measuring.trial import training_problem
from engine.model.cluster.spread import RING, RING_SEND
from engine.parser import Parser, seconds
from engine.recordings.cluster import ClusterTimeline
from engine.recordings.file import CLUSTERS, JUDGES
from engine.recordings.recording import Row
from engine.recordings.timing import Timing
from engine.worker.jobs import JobError

LENGTHS = tuple(2**power for power in range(7, 17))
HEAD_DIMS = (64, 128, 256)
DEFAULT_BUDGET = 1800.0
IN_TURNS = Repeats(4, 20, 0.06)
SWEPT = Repeats(3, 8, 0.02)
DECODED = Repeats(10, 30, 0.03)


def fastest(rows: list[Row]) -> str:
    """Rows that were measured together, in a line: of what, and the fastest, or why there is none."""
    best = min((row for row in rows if row.times), key=lambda row: row.times.p50, default=None)
    one, problem = best or rows[0], rows[0].problem
    name = getattr(one, "provider", None) or one.algorithm
    found = f"fastest {name} {one.times.p50 * 1e6:,.1f} us" if best else f"{name} {one.skipped or 'measured'}"
    return f"{len(rows)} of N {problem.seq_kv} d {problem.head_dim} {problem.mask.text}: {found}"


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

    def timed(rows: list[Timing]) -> list[Timing]:
        return bench.timings(rows[0].problem, rows[0].direction)

    groups = [bench.planned(problem, way) for problem in problems for way in (FORWARD, BACKWARD)]
    recorder.measure("timings", groups, timed, fastest, compiled=bench.cuda)


def calls(
    section: str, measure: Callable[[list[Row]], list[Row]], *alike: str, compiled: bool = False
) -> Callable[[Recorder], None]:
    """What records the calls of a section, those with these properties alike together, else one by one."""

    def record(recorder: Recorder) -> None:
        if section == "samples":
            sampling.library()
        recorder.measure(section, sections.together(section, *alike), measure, fastest, compiled)

    return record


def in_turns(rows: list[Row], repeats: Repeats = IN_TURNS) -> list[Row]:
    """Rows with times that are taken in turns, on the GPU."""
    return sections.timed(rows, repeats, cuda=True)


def record_decoding(recorder: Recorder) -> None:
    """One query against many keys, over the number of splits, and in pages."""
    groups = [list(map(sections.own_blocks, rows)) for rows in sections.together("decoding", "problem")]
    timed = partial(sections.timed_decoding, repeats=DECODED, cuda=True)
    recorder.measure("decoding", groups, timed, fastest, compiled=False)


def record_counters(recorder: Recorder, *folders: Path) -> None:
    """The hardware's counters, read by ncu; or bytes, by samples."""
    wanted = [row for row in sections.plan("counters", *folders) if not recorder.has("counters", row)]
    try:
        find_ncu()
        counted = partial(profiled_counters, wanted)
    except JobError as error:
        sampling.library()
        recorder.tell(f"{error}; without it the chip samples the bytes of each call")
        counted = lambda _: (sampling.counted_row(row) for row in wanted if recorder.left > 0)  # noqa: E731
    recorder.compile_ahead(wanted)
    for index, row in enumerate(counted(recorder.left)):
        recorder.add("counters", [row])
        what = row.skipped or f"{row.total('dram_read') / 1e6:,.0f} MB of DRAM read"
        recorder.tell(f"counters {index + 1}/{len(wanted)}: {row.provider} N {row.problem.seq_kv}: {what}")


def record_cluster(recorder: Recorder) -> None:
    """Every way to compute on several GPUs, and what each GPU did when; every rank runs this, one writes."""
    ranks = Ranks()
    entered = cluster.contenders(ranks)
    lanes, cells = (sections.plan(name, CLUSTERS) for name in ("cluster_timelines", "cluster"))
    for problem, one in product(dict.fromkeys(row.problem for row in lanes), entered):
        row = ClusterTimeline(one.provider, FORWARD, problem, ranks.size)
        if one.sharded and not recorder.has("cluster_timelines", row):
            recorder.add("cluster_timelines", [cluster.timeline_of(ranks, problem, one)])
    known = {(row.problem, row.direction) for row in recorder.rows["cluster"].values()}
    for problem, direction in dict.fromkeys((row.problem, row.direction) for row in cells):
        if problem.seq_q % (2 * ranks.size) or (problem, direction) in known:
            continue
        if ranks.over(recorder.left < 0):
            break
        rows = cluster.rows_of(ranks, problem, direction, entered)
        recorder.add("cluster", rows)
        timed, median = [row for row in rows if row.times], attrgetter("times.median")
        best = min(timed, key=median, default=None)
        what = f"N {problem.seq_q} {problem.mask.text} {direction}"
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
    "variants": calls("variants", in_turns, "direction"),
    # every block size, warps and stages of the tiled kernels, of those compiled in time
    "sweep": calls("sweep", partial(in_turns, repeats=SWEPT), "problem", compiled=True),
    "decoding": record_decoding,
    # FP8 beside float16: times, and errors
    "fp8": calls("fp8", in_turns, "problem", "inputs"),
    "counters": record_counters,
    # those of calls drawn by lot, on which no constant of the model may be set
    "drawn": lambda recorder: record_counters(recorder, JUDGES),
    # which SM ran each block of threads, and when
    "timelines": calls("timelines", lambda rows: [sections.traced_row(*rows)], compiled=True),
    # what crosses HBM while calls run, as the chip samples itself
    "samples": calls("samples", lambda rows: [sampling.sampled_row(*rows)], compiled=True),
    "layers": layers.record,
    "cluster": record_cluster,
    "links": record_links,
}


def main(arguments: list[str]) -> int | None:
    """Measure this GPU into a recording that the dashboard shows; run again to go on where it stopped."""
    parser = Parser("engine record", main.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    known, usual = ",".join(RECORD), "timings,variants,sweep,decoding"
    parser.add_argument("--only", default=usual, help=f"some of {known}; default %(default)s")
    parser.add_argument("--budget", type=seconds, default=DEFAULT_BUDGET, help="seconds; default %(default)g")
    parser.add_argument("--commit", help="of this project, where git cannot tell")
    options = parser.parse_args(arguments)
    wanted = [name for name in options.only.split(",") if name]
    if unknown := [name for name in wanted if name not in RECORD]:
        raise JobError(f"only is {unknown[0]!r}; it must be some of {known}")
    if "cluster" in wanted and len(wanted) > 1:
        raise JobError("only is cluster and more; several GPUs are recorded alone, in a file of their own")
    if "cluster" in wanted and not started():
        return _under_torchrun(arguments)
    recorder = Recorder(options.out, device(options.commit), options.budget, _say)
    with closing(recorder):
        for name in dict.fromkeys(wanted):
            RECORD[name](recorder)
    counts = ", ".join(f"{len(rows)} {name}" for name, rows in recorder.rows.items())
    _say(f"{options.out}: {counts}{'' if recorder.left > 0 else '; the time was up: run it again to go on'}")


def _say(line: str) -> None:
    """A line of progress, by the first of several processes."""
    if os.environ.get("RANK", "0") == "0":
        print(line, flush=True)


def _under_torchrun(arguments: list[str]) -> int:
    """The same command again, as a process per GPU, by PyTorch's own launcher."""
    if not torch.cuda.is_available():
        raise JobError("there is no GPU here that PyTorch can use, and only GPUs are recorded")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    gpus = torch.cuda.device_count()
    command = [*launcher, "--nproc-per-node", str(gpus), "-m", "engine", "record", *arguments]
    return subprocess.run(command, check=False).returncode

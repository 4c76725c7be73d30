"""Times the real kernels, and PyTorch's own attention, on this machine: for the Speed page and the terminal.

Nothing here imports torch or kernels before it measures; it runs in the worker process or the command line.
"""

import argparse
import json
import sys
from collections.abc import Generator
from dataclasses import asdict
from typing import Any

from engine.algorithms import FORWARD, flash2
from engine.experiment import PARAMETERS, Experiment
from engine.measuring.bench import INTERPRETED, Bench
from engine.measuring.cluster import contenders, rows_of
from engine.measuring.exact import ALLOWED
from engine.measuring.implementations import implementations
from engine.measuring.machine import machine, now
from engine.measuring.ranks import Ranks
from engine.parser import Parser, whole
from engine.recordings.cluster import BOTH
from engine.studies.drawable import at_length
from engine.worker.jobs import JobError, Update

Row = dict[str, Any]

SWEEP = "engine.measuring.measure:sweep"
SMALLEST_SEQUENCE = 64
LARGEST_SWEEP = {"cuda": 16384, "cpu": 2048}  # keys, at least; the scenario's own length if longer
LONGEST_CALL = {"cuda": 3.0, "cpu": 2.0}  # seconds; what would take longer is skipped


def sweep_payload(experiment: Experiment) -> dict[str, Any]:
    """What a sweep depends on: equal payloads share one run, whatever the algorithm and GPU on the page."""
    return experiment.changed(algorithm=flash2.ALGORITHM.key, hardware="h200", splits=1, stages=2).flat()


def sizes(experiment: Experiment, cuda: bool) -> list[int]:
    """Key lengths of a sweep: powers of two, and the scenario's own."""
    own = experiment.problem.seq_kv
    largest = max(own, LARGEST_SWEEP["cuda" if cuda else "cpu"])
    powers = {2**power for power in range(SMALLEST_SEQUENCE.bit_length() - 1, largest.bit_length())}
    return sorted(powers | {own})


def ladder(keys: int) -> list[int]:
    """Lengths up to this one, each a quarter of the next, which foretell whether the last takes too long."""
    return [*ladder(keys // 4), keys] if keys >= 1024 else [keys]


def sweep(payload: dict[str, Any]) -> Generator[Update, None, list[Row]]:
    """The job behind the Speed page: every provider over the sequence length, a row each as it comes."""
    experiment = Experiment.of(**payload)
    yield Update(0.0, "Importing PyTorch and Triton")
    bench = this_bench()
    lengths = sizes(experiment, bench.cuda)
    return (yield from measured(bench, [at_length(experiment, keys) for keys in lengths]))


def this_bench(algorithm: str | None = None) -> Bench:
    """The kernels that take a scenario's blocks, or the one of an algorithm, and PyTorch's attention.

    Raises JobError without PyTorch, and for an algorithm without a kernel to measure.
    """
    known = implementations().values()
    kernels = [one.name for one in known if one.ours]
    if algorithm not in (None, *kernels):
        raise JobError(f"algorithm is {algorithm}; measured on one device is one of {', '.join(kernels)}")
    here = machine()
    fitting = [
        one
        for one in known
        if one.cuda in (None, here.cuda)
        if (one.takes_blocks if algorithm is None else one.name == algorithm) or not (one.ours or one.module)
    ]
    return Bench(here, fitting, LONGEST_CALL["cuda" if here.cuda else "cpu"])


def measured(bench: Bench, experiments: list[Experiment]) -> Generator[Update, None, list[Row]]:
    """Rows of every implementation for every experiment, in order; experiments of growing length."""
    rows: list[Row] = []
    for index, experiment in enumerate(experiments):
        keys = f"N = {experiment.problem.seq_kv:,}"
        yield Update(index / len(experiments), f"Measuring {keys}")
        for row in measured_rows(bench, experiment):
            rows.append(row)
            yield Update((index + 1) / len(experiments), f"Measured {keys}", row)
    return rows


def measured_rows(bench: Bench, experiment: Experiment) -> list[Row]:
    """One row an implementation: as JSON has it, with what measured it and when."""
    problem, here = experiment.problem, bench.machine
    shared = {
        "keys": problem.seq_kv,
        "queries": problem.seq_q,
        "experiment": experiment.flat(),
        "date": now(),
    }
    shared |= {name: getattr(here, name) for name in ("device", "cuda", "l2", "versions")}
    rows, timings = [], bench.timings(problem, tiling=experiment.asked)
    for one, timing in zip(bench.implementations, timings, strict=True):
        row = {name: getattr(timing, name) for name in ("provider", "label", "skipped")} | shared
        row["note"] = INTERPRETED if one.ours and not bench.cuda else ""
        if timing.times is not None:
            row |= {"repeats": timing.times.repeats, **timing.figures}
            row |= {"error": timing.error, "allowed": timing.allowed}
        rows.append(row)
    return rows


def main(arguments: list[str]) -> None:
    """`python -m engine measure`: prints a table, or JSON rows; exit code 2 with one line for a bad value.

    The lengths at work are told on stderr. split_kv and flash3 take blocks and splits of their own.
    """
    parser = Parser("engine measure", main.__doc__)
    parser.scenario()
    parser.add_argument(
        "--gpus", type=whole, help="on so many GPUs: started by torchrun --nproc-per-node GPUS"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    options = parser.parse_args(arguments)
    experiment = Experiment.of(**{name: getattr(options, name) for name in PARAMETERS})
    if options.gpus is not None:
        return _measure_cluster(experiment, options)
    bench = this_bench(options.algorithm)
    own = experiment.problem.seq_kv
    for update in measured(bench, [at_length(experiment, keys) for keys in ladder(own)]):
        if update.row is not None and update.row["keys"] == own:
            print(json.dumps(update.row) if options.json else _line(update.row), flush=True)
        elif update.row is None:
            print(update.message, file=sys.stderr)
    if not options.json:
        print(f"{bench.machine.device}; each result is held against float64, allowed is {ALLOWED}")


def _measure_cluster(experiment: Experiment, options: argparse.Namespace) -> None:
    """Every way to compute the problem on several GPUs, forward and backward; one process speaks for all."""
    ranks = Ranks()
    problem = experiment.problem
    if options.gpus != ranks.size:
        raise JobError(f"gpus is {options.gpus}; torchrun started {ranks.size} processes")
    plain = problem.mask.kinds <= {"causal"}
    if not plain or problem.seq_q != problem.seq_kv or problem.seq_q % (2 * ranks.size):
        raise JobError(
            f"seq is {problem.seq_q}; it must be a multiple of {2 * ranks.size}, without a window or "
            "documents, with as many keys"
        )
    for direction in (FORWARD, BOTH):
        for row in rows_of(ranks, problem, direction, contenders(ranks)):
            if ranks.first:
                said = {**asdict(row), "cuda": ranks.cuda}
                line = f"skipped: {row.skipped}"
                if row.times:
                    spent = f"{row.times.median * 1e3:10.3f} ms (from {row.times.least * 1e3:.3f})"
                    line = f"{spent}  error {row.error:.1e}"
                line = f"{row.label:<32} {row.gpus} GPUs {row.direction:<8} {line}"
                print(json.dumps(said) if options.json else line, flush=True)
    ranks.close()


def _line(row: Row) -> str:
    start = f"{row['label']:<26} N = {row['keys']:>9,} "
    if row["skipped"]:
        return start + "skipped: " + row["skipped"]
    times = f"{row['p50'] * 1e3:10.3f} ms (p20 {row['p20'] * 1e3:.3f}, p80 {row['p80'] * 1e3:.3f})"
    return f"{start}{times} {row['tflops']:9.3f} TFLOP/s  error {row['error']:.1e}  {row['note']}".rstrip()

"""How fast the model is: every figure in a fresh process or as a median, printed beside its limit."""

import math
import statistics
import subprocess
import sys
import timeit
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from engine.algorithms import compared
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.parser import Parser
from engine.problem.bounds import key_bounds
from engine.problem.inputs import make_inputs
from engine.root import ROOT
from engine.studies.masks import density
from engine.trace.rows import row_statistics

MOST_UNROLLED, MOST_MEMORY = 500, 300  # ms, MB
MOST_SWEEP, MOST_LONGEST, MOST_DRAWN, MOST_STATISTICS = 50, 1000, 50, 50  # ms
REPEATS = 9
LENGTHS = tuple(2**power for power in range(6, 15))
UNROLL = """
import sys, time
from engine.experiment import Experiment
from engine.measuring.bench_model import peak_bytes
from engine.model.launch import schedule_of
experiment = Experiment.of(algorithm=sys.argv[1], heads=1, seq=65_536, block_q=64, block_kv=64)
start = time.perf_counter()
total = schedule_of(experiment).columns.moved().total
seconds = time.perf_counter() - start
print(seconds, peak_bytes())
"""


def peak_bytes() -> float:
    """Most memory that this process has held, bytes; NaN where the platform does not say."""
    if sys.platform == "linux":  # getrusage there counts what the parent held when it started this process
        status = Path("/proc/self/status").read_text()
        return float(status.split("VmHWM:")[1].split()[0]) * 1024
    if find_spec("resource") is None:
        return math.nan
    import resource

    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def median(run: Callable[[], object]) -> float:
    """Median milliseconds of a call, after one that does not count."""
    run()
    return 1e3 * statistics.median(timeit.repeat(run, number=1, repeat=REPEATS))


def unrolled(algorithm: str, times: int = 3) -> tuple[float, float]:
    """Seconds and peak bytes of a fresh process that unrolls 1,048,576 tiles and sums their traffic."""
    results = []
    for _ in range(times):
        command = [sys.executable, "-c", UNROLL, algorithm]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        seconds, peak = done.stdout.split()
        results.append((float(seconds), float(peak)))
    return statistics.median(seconds for seconds, _ in results), max(peak for _, peak in results)


def figures() -> Iterator[tuple[str, float, float, str]]:
    """What, its value, its limit and their unit; NaN where the platform does not say."""
    million = Experiment.of(seq=2**20, block_q=128, block_kv=64, causal=True)
    bounds = key_bounds(million.problem, million.tiling)
    drawn = Experiment.of(heads=1, seq=4096, head_dim=64)
    q, k, _ = (array[0] for array in make_inputs(drawn.problem))
    rows = np.arange(0, 4096, 64)
    for algorithm in compared():
        seconds, peak = unrolled(algorithm)
        longest = Experiment.of(algorithm=algorithm, heads=16, seq=131_072, head_dim=128)

        def sweep(algorithm=algorithm) -> None:
            simulate.cache_clear()
            for length in LENGTHS:
                assert simulate(Experiment.of(algorithm=algorithm, seq=length, causal=True)).modelled

        yield f"traffic of 1,048,576 tiles, {algorithm}", seconds * 1e3, MOST_UNROLLED, "ms"
        yield f"memory it takes at most, {algorithm}", peak / 1e6, MOST_MEMORY, "MB"
        yield f"model at {len(LENGTHS)} lengths to 16,384, {algorithm}", median(sweep), MOST_SWEEP, "ms"
        at_most = median(lambda longest=longest: simulate.__wrapped__(longest).modelled)
        yield f"model at 131,072 tokens, {algorithm}", at_most, MOST_LONGEST, "ms"
    pixels = median(lambda: density(bounds, 2**14))
    yield "picture of 134,217,728 tiles under a mask", pixels, MOST_DRAWN, "ms"
    statistics_of_rows = median(lambda: row_statistics(drawn, q, k, rows))
    yield "statistics of 64 rows, 4,096 keys, d 64", statistics_of_rows, MOST_STATISTICS, "ms"


def main(arguments: list[str]) -> int:
    """Print every figure of the model's speed beside its limit, and return 1 where one is passed."""
    Parser("engine bench", main.__doc__).parse_args(arguments)
    slow = False
    for what, value, limit, unit in figures():
        slow |= value > limit
        print(f"{what:<48} {value:7.1f} {unit} (< {limit:g}): {'OVER' if value > limit else 'ok'}")
    return int(slow)

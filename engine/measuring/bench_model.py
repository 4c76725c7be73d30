"""How fast the model is: every figure as a median, printed beside its limit."""

import statistics
import timeit
from collections.abc import Callable, Iterator

import numpy as np

from engine.algorithms import compared
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.parser import Parser
from engine.problem.bounds import key_bounds
from engine.problem.inputs import make_inputs
from engine.studies.masks import density
from engine.trace.rows import row_statistics

REPEATS = 9
LENGTHS = tuple(2**power for power in range(6, 15))


def median(run: Callable[[], object]) -> float:
    """Median milliseconds of a call, after one that does not count."""
    run()
    return 1e3 * statistics.median(timeit.repeat(run, number=1, repeat=REPEATS))


def figures() -> Iterator[tuple[str, float, float]]:
    """What, its milliseconds, and their limit."""
    million = Experiment.of(seq=2**20, block_q=128, block_kv=64, causal=True)
    bounds = key_bounds(million.problem, million.tiling)
    drawn = Experiment.of(heads=1, seq=4096, head_dim=64)
    q, k, _ = (array[0] for array in make_inputs(drawn.problem))
    for algorithm in compared():
        tiles = Experiment.of(algorithm=algorithm, heads=1, seq=65_536, block_q=64, block_kv=64)
        longest = Experiment.of(algorithm=algorithm, heads=16, seq=131_072, head_dim=128)
        lengths = [Experiment.of(algorithm=algorithm, seq=length, causal=True) for length in LENGTHS]

        def unrolled(one: Experiment = tiles) -> None:
            one.record.schedule(one.problem, one.tiling).columns.moved()

        def sweep(some: list[Experiment] = lengths) -> None:
            for each in some:
                assert simulate.__wrapped__(each).modelled

        yield f"traffic of 1,048,576 tiles, {algorithm}", median(unrolled), 500
        yield f"model at {len(LENGTHS)} lengths to 16,384, {algorithm}", median(sweep), 50
        yield f"model at 131,072 tokens, {algorithm}", median(lambda one=longest: sweep([one])), 1000
    yield "picture of 134,217,728 tiles under a mask", median(lambda: density(bounds, 2**14)), 50
    rows = np.arange(0, 4096, 64)
    yield "statistics of 64 rows, 4,096 keys, d 64", median(lambda: row_statistics(drawn, q, k, rows)), 50


def main(arguments: list[str]) -> int:
    """Print every figure of the model's speed beside its limit, and return 1 where one is passed."""
    Parser("engine bench", main.__doc__).parse_args(arguments)
    slow = False
    for what, value, limit in figures():
        slow |= value > limit
        print(f"{what:<48} {value:7.1f} ms (< {limit:g}): {'OVER' if value > limit else 'ok'}")
    return int(slow)

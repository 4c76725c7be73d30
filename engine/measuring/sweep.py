"""The block sizes of a kernel, one by one: how fast each is, or why it cannot run."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from engine.measuring import clock
from engine.measuring.shapes import training_problem
from engine.measuring.trial import Trial, mask_arguments
from engine.problem.problem import Problem
from engine.recordings.timing import TilingTiming

BLOCKS = (16, 32, 64, 128, 256)
WARPS = (4, 8)
STAGES = {
    "flash2": (1, 2, 3),
    "flash1": (1,),
    "standard": (2,),
}  # flash1's loop stores what it loads: no stages
LENGTH = 4096
HEAD_DIMS = (64, 128)
REPEATS = clock.Repeats(3, 8, 0.02)
LONGEST = 0.1  # seconds per call; slower is recorded from one call


@dataclass(frozen=True)
class Config:
    """One way to launch a kernel."""

    algorithm: str
    block_q: int
    block_kv: int
    warps: int
    stages: int


def configs(algorithm: str) -> list[Config]:
    """All of an algorithm's, small blocks first."""
    return [
        Config(algorithm, rows, keys, warps, stages)
        for rows in BLOCKS
        for keys in BLOCKS
        for warps in WARPS
        for stages in STAGES[algorithm]
    ]


def plan() -> list[tuple[Problem, Config]]:
    """Everything a recording tries; every block size at its first number of stages before the others."""
    problems = [training_problem(LENGTH, head_dim, causal=False) for head_dim in HEAD_DIMS]
    everything = [(problem, config) for name in STAGES for problem in problems for config in configs(name)]
    return sorted(everything, key=lambda pair: pair[1].stages != STAGES[pair[1].algorithm][0])


def row_of(problem: Problem, config: Config) -> TilingTiming:
    """The row of a configuration before it ran."""
    return TilingTiming(
        config.algorithm, problem, config.block_q, config.block_kv, config.warps, config.stages
    )


def call_of(config: Config, q, k, v, problem: Problem):
    """One launch; raises OutOfSharedMemoryError and what else the compiler finds."""
    from kernels import attention, launch_options

    def call():
        with launch_options(config.warps, config.stages):
            return attention(
                q, k, v,
                **mask_arguments(problem),
                algorithm=config.algorithm,
                block_q=config.block_q,
                block_kv=config.block_kv,
            )  # fmt: skip

    return call


def timed_configs(problem: Problem, wanted: list[Config], cuda: bool) -> Iterator[TilingTiming]:
    """A row for each configuration, in random order so that clock drift favours no block size."""
    if not wanted:
        return
    trial, seconds = Trial.of(problem, cuda), clock.stopwatch(cuda)
    for config in random.Random(0).sample(wanted, len(wanted)):
        row, found = row_of(problem, config), trial.checked(partial(call_of, config))
        if isinstance(found, str):
            yield replace(row, skipped=_short(found))
            continue
        spent = [seconds(found.call)]
        while spent[0] < LONGEST and clock.wants_more(spent, REPEATS):
            spent.append(seconds(found.call))
        yield replace(row, times=clock.percentiles(spent))


def _short(reason: str) -> str:
    """As a heat map says it: "out of shared memory: 288 KB of 227 KB"."""
    found = re.search(r"needs (\d+) bytes of shared memory.* has (\d+)", reason)
    if found is None:
        return reason
    needed, limit = (int(number) / 1024 for number in found.groups())
    return f"out of shared memory: {needed:.0f} KB of {limit:.0f} KB"

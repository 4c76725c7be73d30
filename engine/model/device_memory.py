"""What an experiment's tensors take of device memory, and the longest context that fits."""

from bisect import bisect
from collections.abc import Mapping
from dataclasses import replace

from engine.experiment import Experiment
from engine.problem.problem import Problem
from engine.schedule.step import BY_KEY, Tensor, block_bytes, copies

ENTRY_BYTES = 4  # of the table of pages, an int32


def memory_parts(experiment: Experiment) -> Mapping[Tensor, int]:
    """Bytes of device memory that each tensor takes, over batch and heads."""
    return _memory_parts(experiment, experiment.problem)


def memory_bytes(experiment: Experiment) -> int:
    """Bytes of device memory that all tensors take together, and the table of their pages."""
    problem = experiment.problem
    table = problem.batch * problem.slots // problem.page_size * ENTRY_BYTES if problem.page_size else 0
    return sum(memory_parts(experiment).values()) + table


def largest_context(experiment: Experiment) -> int:
    """The most keys whose tensors fit the GPU's memory; queries grow along where there are as many."""
    problem = experiment.problem

    def taken(keys: int) -> int:
        queries = keys if problem.seq_q == problem.seq_kv else problem.seq_q
        return sum(_memory_parts(experiment, replace(problem, seq_q=queries, seq_kv=keys)).values())

    most = experiment.gpu.memory_bytes  # no key takes less than a byte
    return bisect(range(1, most), most, key=taken)


def _memory_parts(experiment: Experiment, problem: Problem) -> dict[Tensor, int]:
    return {
        tensor: block_bytes(problem, tensor).of(
            problem.seq_q, problem.slots if tensor in BY_KEY else problem.seq_kv
        )
        * copies(problem, tensor, experiment.asked.splits)
        for tensor in experiment.record.tensors
        if not (problem.latent and tensor in (Tensor.V, Tensor.D_V))  # part of K
    }

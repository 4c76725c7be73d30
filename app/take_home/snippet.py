"""A few lines of Python that do what the dashboard shows: the model with `engine`, the run with `kernels`."""

from __future__ import annotations

from engine.experiment import PARAMETERS, Experiment

FORWARD_KERNELS = ("standard", "flash1", "flash2", "split_kv")  # that take the scenario's blocks as they are


def model(experiment: Experiment) -> str:
    """Lines that print the scenario's modelled numbers."""
    flat = experiment.flat()
    follows = {"kv_heads": flat["heads"], "seq_kv": flat["seq"]}
    values = {
        parameter.name: flat[parameter.name]
        for parameter in PARAMETERS
        if flat[parameter.name] != follows.get(parameter.name, parameter.default)
        or parameter.name in ("algorithm", "seq")
    }
    return f"""from engine import Experiment, simulate

experiment = Experiment.of({_arguments(values)})
simulation = simulate(experiment)
print(f"{{simulation.traffic.dram.total:,}} bytes from and to DRAM, modelled")
print(f"{{simulation.traffic.flops:,}} FLOPs, counted")
print(f"{{simulation.modelled.seconds:.3g}} s, modelled")
"""


def kernel(experiment: Experiment) -> str:
    """Lines that run the real kernel on random tensors: on a GPU, or in Triton's interpreter."""
    problem = experiment.problem
    if problem.mask.documents > 1:
        return "# The kernels take no mask of documents: there is nothing to run for this scenario.\n"
    q = (problem.batch, problem.heads, problem.seq_q, problem.head_dim)
    kv = (problem.batch, problem.kv_heads, problem.seq_kv, problem.head_dim)
    options = {"causal": True} if problem.mask.causal else {}
    if problem.mask.window is not None:
        options["window"] = problem.mask.window
    backward = experiment.algorithm == "backward"
    if not backward:
        options["algorithm"] = experiment.algorithm
    if experiment.algorithm in FORWARD_KERNELS:
        options |= {"block_q": experiment.tiling.block_q, "block_kv": experiment.tiling.block_kv}
    if experiment.algorithm == "split_kv":
        options["splits"] = experiment.tiling.splits
    last = "o.sum().backward()\nprint(q.grad.shape, q.grad.dtype)" if backward else "print(o.shape, o.dtype)"
    return f"""import torch

from kernels import attention

device = "cuda" if torch.cuda.is_available() else "cpu"
options = {{"dtype": torch.{problem.dtype}, "device": device{_flag(backward)}}}
q = torch.randn({_shape(q)}, **options)
k = torch.randn({_shape(kv)}, **options)
v = torch.randn({_shape(kv)}, **options)
o = attention(q, k, v{"".join(f", {name}={value!r}" for name, value in options.items())})
{last}
"""


def _flag(backward: bool) -> str:
    return ', "requires_grad": True' if backward else ""


def _arguments(values: dict) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _shape(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))

"""A few lines of Python that do what the dashboard shows: the model with `engine`, the run with `kernels`."""

from engine.algorithms import BACKWARD, split_kv
from engine.experiment import Experiment
from engine.problem.problem import Problem
from engine.problem.terms import SINK, SLOPE


def model(experiment: Experiment) -> str:
    """Lines that print the scenario's modelled numbers."""
    unusual = experiment.unusual()
    always = ("algorithm", "seq")
    values = {name: v for name, v in experiment.flat().items() if name in always or name in unusual}
    arguments = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return f"""from engine import Experiment, simulate

experiment = Experiment.of({arguments})
simulation = simulate(experiment)
print(f"{{simulation.traffic.dram.total:,}} bytes from and to DRAM, modelled")
print(f"{{simulation.traffic.flops:,}} FLOPs, counted")
print(f"{{simulation.modelled.seconds:.3g}} s, modelled")
"""


def kernel(experiment: Experiment) -> str:
    """Lines that run the real kernel on random tensors: on a GPU, or in Triton's interpreter."""
    problem, record, tiling = experiment.problem, experiment.record, experiment.tiling
    if record.several_gpus:
        return _several(problem)
    backward = record.direction == BACKWARD
    if record.kernel is None and not backward:
        return f"# No kernel computes {record.label}: there is nothing to run for this scenario.\n"
    unserved = problem.unserved or ((problem.page_size or problem.latent) and experiment.unserved)
    if unserved:
        return f"# {unserved}\n"
    q, k, v = _shapes(problem)
    options = {name: value for name, value in problem.mask.arguments(problem.seq_kv).items() if value}
    options |= {} if backward else {"algorithm": record.kernel}
    if not backward and not record.chooses_tiling:
        options |= {"block_q": tiling.block_q, "block_kv": tiling.block_kv}
    if record is split_kv.ALGORITHM:
        options["splits"] = tiling.splits
    name, tables, more = "attention", "", ""
    if problem.page_size:
        batch, each = problem.batch, problem.slots // problem.page_size
        k, v = (
            f"{batch * each}, {problem.page_size}, {problem.kv_heads}, {dim}"
            for dim in (problem.head_dim, problem.v_dim)
        )
        name, more = "attention_paged", ", table, lengths"
        tables = (
            f"table = torch.arange({batch * each}, dtype=torch.int32, device=device).view({batch}, {each})\n"
            f"lengths = torch.full(({batch},), {problem.seq_kv}, dtype=torch.int32, device=device)\n"
        )
    if problem.page_size or problem.latent:  # for which auto knows a kernel
        taken = ("causal", "window", "splits") if problem.page_size else ("causal",)
        options = {name: value for name, value in options.items() if name in taken}
    gradient = ', "requires_grad": True' if backward else ""
    last = "o.sum().backward()\nprint(q.grad.shape, q.grad.dtype)" if backward else "print(o.shape, o.dtype)"
    return f"""import torch

from kernels import {name}

device = "cuda" if torch.cuda.is_available() else "cpu"
options = {{"dtype": torch.{problem.dtype}, "device": device{gradient}}}
q = torch.randn({q}, **options)
k = torch.randn({k}, **options)
v = {f"k[..., :{problem.v_dim}]" if problem.latent else f"torch.randn({v}, **options)"}
{tables}o = {name}(q, k, v{more}{_options(options)}{_terms(problem)})
{last}
"""


def _options(options: dict) -> str:
    """Named arguments, lengths of documents that are all alike as a product."""
    lengths = options.get("documents", ())
    texts = {name: repr(value) for name, value in options.items()}
    if len(lengths) > 2 and len(set(lengths)) == 1:
        texts["documents"] = f"[{lengths[0]}] * {len(lengths)}"
    return "".join(f", {name}={text}" for name, text in texts.items())


def _terms(problem: Problem) -> str:
    """What becomes of the scores, as named arguments."""
    every = {"sinks": ("sinks", SINK), "slopes": ("alibi_slopes", SLOPE)}
    texts = [f", softcap={problem.softcap:g}"] if problem.softcap else []
    for term in sorted(problem.terms & every.keys()):
        name, value = every[term]
        texts.append(f", {name}=torch.full(({problem.heads},), {value}, device=device)")
    return "".join(texts)


def _several(problem: Problem) -> str:
    """Lines that a process per GPU runs, each on its own tokens."""
    if not problem.mask.kinds <= {"causal", "window"} or problem.seq_q != problem.seq_kv:
        return "# ring_attention takes one document with as many keys as queries: there is nothing to run.\n"
    if problem.terms or problem.head_dim_v:
        return "# ring_attention takes no cap, sinks, slopes or V of another head dim: nothing is run.\n"
    q, kv, _ = _shapes(problem)
    options = problem.mask.arguments(problem.seq_kv)
    causal, window = options["causal"], f", window={options['window']}" if options["window"] else ""
    return f"""# torchrun --nproc-per-node GPUS this_file.py
import torch
import torch.distributed as dist

from kernels.distributed import ring_attention, shard

dist.init_process_group()
device = torch.device("cuda", dist.get_rank()) if torch.cuda.is_available() else torch.device("cpu")
options = {{"dtype": torch.{problem.dtype}, "device": device}}
torch.manual_seed(0)
q = shard(torch.randn({q}, **options), causal={causal})
k = shard(torch.randn({kv}, **options), causal={causal})
v = shard(torch.randn({kv}, **options), causal={causal})
o = ring_attention(q, k, v, causal={causal}{window})
print(dist.get_rank(), o.shape, o.dtype)
dist.destroy_process_group()
"""


def _shapes(problem: Problem) -> tuple[str, str, str]:
    """Of Q, of K and of V."""
    q, kv = (problem.heads, problem.seq_q), (problem.kv_heads, problem.seq_kv)
    every = ((*q, problem.head_dim), (*kv, problem.head_dim), (*kv, problem.v_dim))
    return tuple(", ".join(map(str, (problem.batch, *each))) for each in every)

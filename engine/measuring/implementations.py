"""What can be timed, in one table: this project's kernels, PyTorch's attention, and what else is importable.

Imports torch and kernels when called.
"""

from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from engine.algorithms import ALGORITHMS, Algorithm
from engine.measuring.exact import hidden_keys, options_of
from engine.measuring.machine import kernels, torch
from engine.problem.bounds import field_flops
from engine.problem.problem import Problem, Tiling
from engine.problem.terms import SINK, SLOPE
from engine.schedule.nest import HEAD
from engine.worker.jobs import JobError

PROGRAMS = 100  # a kernel of one per head takes as long with fewer

Call = Callable[[], Any]
Prepare = Callable[..., Call]


@dataclass(frozen=True)
class Implementation:
    """One implementation of attention."""

    name: str  # key in rows and on the command line
    label: str  # name on a page
    # (q, k, v, problem) -> the call to be timed, which returns O like q; raises JobError with a sentence
    # where it cannot serve the problem. A kernel of this project takes block_q, block_kv and splits, too.
    prepare: Prepare
    ours: bool = False  # whether it is a kernel of this project, interpreted where there is no GPU
    takes_blocks: bool = False  # whether it takes the blocks of a scenario; others choose for themselves
    decoding: bool = False  # whether it is for few queries
    # whether it exists on a GPU only (True), on a CPU only (False), or on both (None)
    cuda: bool | None = None
    backward: bool = False  # whether its backward pass is measured too
    module: str | None = None  # the package it needs besides torch and triton, if any
    score_matrices: int = 0  # how many matrices of all scores a call holds in memory
    mask_tensor: bool = False  # whether it takes the mask as a tensor
    skips_hidden: bool = True  # whether it leaves out what the mask hides
    program_per_head: bool = False  # whether few heads leave the GPU idle
    of_models: bool = False  # whether it is timed beside calls as models make them alone

    @property
    def installed(self) -> bool:
        """Whether its package is there."""
        try:
            return self.module is None or find_spec(self.module) is not None
        except ModuleNotFoundError:  # not even the package around it
            return False

    def work(self, problem: Problem) -> float:
        """What its time grows with."""
        heads = problem.batch * problem.heads
        if self.program_per_head:
            heads = PROGRAMS * -(-heads // PROGRAMS)
        elif self.skips_hidden:
            return max(field_flops(problem), 1)
        return heads * problem.seq_q * problem.seq_kv * problem.head_dim

    def working_bytes(self, problem: Problem) -> int:
        """Memory that a call takes beside Q, K, V and O, bytes, about: scores, weights and the mask."""
        scores = problem.batch * problem.heads * problem.seq_q * problem.seq_kv
        mask = problem.seq_q * problem.seq_kv * (self.mask_tensor and problem.mask.hides)
        return self.score_matrices * scores * problem.itemsize + mask


def implementations() -> dict[str, Implementation]:
    """All of them, by name."""
    gpu = {"cuda": True, "backward": True, "mask_tensor": True}
    whole = {"mask_tensor": True, "skips_hidden": False}
    dao = {
        "fa2": ("FlashAttention-2 (Dao-AILab)", "flash_attn", "flash_attn_2_cuda"),
        "fa3": ("FlashAttention-3 (Dao-AILab)", *["flash_attn_interface"] * 2),
        "fa4": ("FlashAttention-4 (CuTe)", *["flash_attn.cute"] * 2),
    }
    backends = {
        "sdpa_flash": ("PyTorch, flash backend", "FLASH_ATTENTION"),
        "sdpa_cudnn": ("PyTorch, cuDNN backend", "CUDNN_ATTENTION"),
        "sdpa_efficient": ("PyTorch, memory-efficient", "EFFICIENT_ATTENTION"),
    }
    flex = "torch.nn.attention.flex_attention"
    found = [
        *(_of_record(record) for record in ALGORITHMS.values() if record.kernel is not None),
        Implementation("eager", "PyTorch, unfused", unfused, score_matrices=3, **whole),
        Implementation("sdpa", "PyTorch, fused", partial(fused, None), cuda=False, **whole),
        *(Implementation(name, label, partial(fused, how), **gpu) for name, (label, how) in backends.items()),
        *(
            Implementation(
                name, label, partial(_dao_ailab, module), backward=True, module=part, of_models=name == "fa2"
            )
            for name, (label, module, part) in dao.items()
        ),
        Implementation("flex", "FlexAttention", _flex, cuda=True, module=flex, of_models=True),
    ]
    return {one.name: one for one in found}


def contenders() -> list[Implementation]:
    """Those that compete on a GPU for many queries."""
    known = implementations().values()
    return [one for one in known if one.cuda is not False and not (one.decoding or one.of_models)]


def present(known: Collection[Implementation]) -> list[Implementation]:
    """Those whose package is there; says of the others that it is not."""
    missing = [one for one in known if not one.installed]
    for one in missing:
        print(f"not here: {one.label} ({one.module} is not installed)")
    return [one for one in known if one not in missing]


def input_bytes(problem: Problem) -> int:
    """Q, K, V and O, bytes."""
    rows = problem.heads * problem.seq_q + problem.kv_heads * problem.seq_kv
    return problem.batch * rows * (problem.head_dim + problem.v_dim) * problem.itemsize


def _of_record(record: Algorithm) -> Implementation:
    """One of this project's, as its algorithm's record has it."""
    words = "unfused" if record.unfused else record.label if record.offered else record.short.lower()
    phases = record.schedule(Problem(), Tiling()).phases
    return Implementation(
        record.key,
        f"{record.language}, {words}",
        partial(own_kernel, record.kernel),
        ours=True,
        takes_blocks=record.compared,
        decoding=not record.offered,
        backward=record.differentiable,
        score_matrices=2 if record.unfused else 0,
        skips_hidden=not record.unfused,
        program_per_head=any(phase.launched == HEAD for phase in phases),
    )


def own_kernel(algorithm: str, q, k, v, problem: Problem, **options) -> Call:
    """A call of this project's attention."""
    algorithm = "auto" if problem.latent else algorithm  # which knows the kernel over a latent
    return partial(kernels.attention, q, k, v, algorithm=algorithm, **options_of(problem), **options)


def _dao_ailab(module: str, q, k, v, problem: Problem) -> Call:
    """`flash_attn_func` of Dao-AILab's packages, which takes [batch, sequence, heads, head_dim].

    Packed sequences are one, in `flash_attn_varlen_func`.
    """
    mask = problem.mask
    if problem.slopes or mask.prefix:
        raise JobError(f"{module} is timed without slopes and prefixes only")
    how: dict[str, Any] = {"causal": mask.causal}
    if mask.window is not None:
        how["window_size"] = mask.window - 1, mask.keys_after
    if problem.softcap:
        how["softcap"] = problem.softcap
    if problem.sinks:
        how["learnable_sink"] = q.new_full((problem.heads,), SINK)
    turned = [tensor.transpose(1, 2) for tensor in (q, k, v)]
    if mask.packed:
        lengths = problem.batch * list(mask.document_lengths(problem.seq_kv))
        edges = torch.tensor([0, *lengths], device=q.device).cumsum(0).int()
        rows = [tensor.flatten(0, 1) for tensor in turned]
        varlen = _imported(module, "flash_attn_varlen_func")
        ends = {"cu_seqlens": edges, "max_seqlen": max(lengths)}
        named = {f"{name}_{of}": each for name, each in ends.items() for of in "qk"}
        function = partial(varlen, *rows, **named)
    else:
        function = partial(_imported(module, "flash_attn_func"), *turned)

    def call():
        try:
            out = function(**how)
        except RuntimeError:
            raise
        except Exception as error:  # of anybody's code, which may not serve a problem
            raise JobError(f"{module}: {' '.join(str(error).split())}") from error
        out = out[0] if isinstance(out, tuple) else out
        return out.view(problem.batch, problem.seq_q, *out.shape[-2:]).transpose(1, 2)

    return call


def _flex(q, k, v, problem: Problem) -> Call:
    """PyTorch's FlexAttention, compiled; square problems without slopes and prefixes."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.compiler.reset()  # of more kinds of calls than eight, none is compiled
    mask, keys, cap = problem.mask, problem.seq_kv, problem.softcap
    lengths = torch.tensor(mask.document_lengths(keys) if mask.packed else [keys], device=q.device)
    document = torch.repeat_interleave(torch.arange(len(lengths), device=q.device), lengths)

    def seen(_batch, _head, query, key):
        inside = document[query] == document[key]
        if mask.window is not None:
            inside = inside & (key > query - mask.window)
        return inside if mask.keys_after is None else inside & (key <= query + mask.keys_after)

    def capped(score, *_places):
        return cap * torch.tanh(score / cap)

    blocks = create_block_mask(seen, None, None, keys, keys, device=q.device)
    how = {"block_mask": blocks, "enable_gqa": problem.group > 1, "return_lse": problem.sinks}
    call = partial(torch.compile(flex_attention), q, k, v, capped if cap else None, **how)
    if not problem.sinks:
        return call

    def with_sinks():
        out, lse = call()
        return out * torch.sigmoid(lse - SINK)[..., None].to(out.dtype)

    return with_sinks


def _imported(module: str, name: str):
    try:
        return getattr(import_module(module), name)
    except ImportError:
        raise JobError(f"{module} is not installed") from None
    except AttributeError:
        raise JobError(f"{module} has no {name}") from None


def unfused(q, k, v, problem: Problem) -> Callable[[], Any]:
    """Matmul, scale, mask, softmax, matmul; the query heads of one key head share its matrix products."""
    hidden = hidden_keys(problem, torch.arange(problem.seq_q, device=q.device))
    blind = hidden is not None and bool(hidden.all(1).any())
    group = problem.group
    positions = torch.arange(problem.seq_q, device=q.device)[:, None] + problem.offset
    distance = (positions - torch.arange(problem.seq_kv, device=q.device)).abs() if problem.slopes else None
    rows = (problem.batch, problem.kv_heads, group * problem.seq_q)
    split = (problem.batch, problem.kv_heads, group, problem.seq_q, problem.seq_kv)

    def call():
        scores = (q.reshape(*rows, -1) @ k.mT) * problem.scale
        if problem.softcap:
            scores = problem.softcap * torch.tanh(scores / problem.softcap)
        if problem.slopes:
            scores.view(split).sub_(SLOPE * distance)
        if hidden is not None:
            scores.view(split).masked_fill_(hidden, -torch.inf)
        if problem.sinks:  # one more key, without a value
            scores = torch.nn.functional.pad(scores, (0, 1), value=SINK)
        weights = torch.softmax(scores, -1)[..., : problem.seq_kv]
        if blind:
            weights = weights.nan_to_num(0.0)
        return (weights @ v).view(*q.shape[:3], -1)

    return call


def fused(backend: str | None, q, k, v, problem: Problem) -> Call:
    """scaled_dot_product_attention by one of its backends, or by the one that PyTorch chooses."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    arguments = sdpa_arguments(problem, q.device)

    def call():
        with nullcontext() if backend is None else sdpa_kernel(getattr(SDPBackend, backend)):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **arguments)

    return call


def sdpa_arguments(problem: Problem, device: Any) -> dict[str, Any]:
    """What PyTorch's attention is given beside Q, K and V; raises JobError where scores have terms."""
    if problem.terms:
        raise JobError(f"it is not asked for {' and '.join(sorted(problem.terms))}; unfused PyTorch is")
    whole = problem.mask.kinds <= {"causal"}
    square = whole and problem.seq_q == problem.seq_kv
    arguments: dict[str, Any] = {"enable_gqa": problem.heads != problem.kv_heads}
    if problem.mask.causal and square:
        arguments["is_causal"] = True  # PyTorch aligns the first query with the first key
    elif not (whole and problem.seq_q == 1):  # one query, the last, sees every key
        hidden = hidden_keys(problem, torch.arange(problem.seq_q, device=device))
        arguments["attn_mask"] = None if hidden is None else ~hidden
    return arguments

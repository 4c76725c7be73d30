"""python -m engine bench-kernels --models: calls as models make them, beside the peers that are installed."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from engine.measuring.clock import Repeats, in_turns
from engine.measuring.implementations import fused
from engine.measuring.libraries import kernels, torch
from engine.measuring.trial import random_inputs
from engine.problem.flops import BACKWARD_FLOPS, pair_flops
from engine.problem.problem import Mask, Problem
from engine.worker.jobs import JobError

REPEATS = Repeats(10, 20, 0.05)
COPIED = 2**31  # bytes, of which a copy's rate is taken
CLOSE = 4 * 2**-7  # of the largest value: four of bfloat16's steps
PAGED_KEYS = 65536


class Case(NamedTuple):
    """A call as a model makes it. sinks: whether there are some."""

    name: str
    problem: Problem
    softcap: float | None = None
    sinks: bool = False

    def options(self, cuda: bool) -> dict:
        """As `kernels.attention` takes them."""
        terms = {} if self.softcap is None else {"softcap": self.softcap}
        if self.sinks:
            terms["sinks"] = torch.randn(self.problem.heads, device="cuda" if cuda else "cpu")
        return {**self.problem.mask.arguments(self.problem.seq_kv), **terms}


def _of(heads: int, kv_heads: int, keys: int, d: int, mask: Mask) -> Problem:
    return Problem(1, heads, kv_heads, keys, keys, d, "bfloat16", mask)


CAUSAL, WINDOW = Mask(causal=True), Mask(causal=True, window=128)
CASES = (
    Case("plain, d 128", _of(16, 16, 16384, 128, CAUSAL)),
    Case("plain, d 64, 64 heads on 8", _of(64, 8, 8192, 64, CAUSAL)),
    Case("plain, d 256", _of(16, 8, 8192, 256, CAUSAL)),
    *(
        Case(
            f"{count} documents, d {d}, {'causal' if causal else 'both ways'}",
            _of(2048 // d, 2048 // d, keys, d, Mask(causal=causal, documents=count)),
        )
        for count, keys in ((8, 16384), (64, 32768))
        for d in (64, 128)
        for causal in (True, False)
    ),
    *(Case(f"d {d}", _of(16, 16, 8192, d, CAUSAL)) for d in (80, 96, 112)),
    Case("192/128", replace(_of(16, 16, 8192, 192, CAUSAL), head_dim_v=128)),
    Case("softcap 50, d 256", _of(16, 8, 8192, 256, CAUSAL), softcap=50.0),
    Case("softcap 30, d 128", _of(16, 16, 8192, 128, CAUSAL), softcap=30.0),
    Case("sinks, d 64", _of(64, 8, 8192, 64, CAUSAL), sinks=True),
    Case("sinks, window 128", _of(64, 8, 8192, 64, WINDOW), sinks=True),
    Case("window 512 + 512", _of(32, 32, 16384, 64, Mask(window=513, ahead=512))),
)


def sdpa(case: Case, q, k, v, options: dict) -> Callable:
    """PyTorch's own, by cuDNN."""
    if case.softcap or case.sinks or not case.problem.mask.kinds <= {"causal"}:
        raise JobError("has a plain mask alone")
    return fused("CUDNN_ATTENTION", q, k, v, case.problem)


def flex(case: Case, q, k, v, options: dict) -> Callable:
    """PyTorch's FlexAttention, compiled."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.compiler.reset()  # of more kinds of calls than eight, none is compiled
    mask, keys, cap = case.problem.mask, case.problem.seq_kv, case.softcap
    lengths = torch.tensor(options.get("documents") or [keys], device=q.device)
    document = torch.repeat_interleave(torch.arange(len(lengths), device=q.device), lengths)

    def seen(_batch, _head, query, key):
        inside = document[query] == document[key]
        if mask.window is not None:
            inside = inside & (key > query - mask.window)
        return inside if mask.keys_after is None else inside & (key <= query + mask.keys_after)

    def capped(score, *_places):
        return cap * torch.tanh(score / cap)

    blocks = create_block_mask(seen, None, None, keys, keys, device=q.device)
    how = {"block_mask": blocks, "enable_gqa": case.problem.group > 1, "return_lse": case.sinks}
    call = partial(torch.compile(flex_attention), q, k, v, capped if cap else None, **how)
    if not case.sinks:
        return call

    def with_sinks():
        out, lse = call()
        return out * torch.sigmoid(lse - options["sinks"][:, None])[..., None].to(out.dtype)

    return with_sinks


def dao_ailab(module: str, case: Case, q, k, v, options: dict) -> Callable:
    """FlashAttention by one of its packages, which name things alike."""
    library, mask = import_module(module), case.problem.mask
    q, k, v = (each[0].transpose(0, 1) for each in (q, k, v))
    how = {"causal": mask.causal} | {name: options[name] for name in options.keys() & {"softcap"}}
    if mask.window is not None:
        how["window_size"] = mask.window - 1, mask.keys_after
    if case.sinks:
        how["learnable_sink"] = options["sinks"].to(q.dtype)
    if documents := options.get("documents"):
        edges, longest = torch.tensor([0, *documents], device=q.device).cumsum(0).int(), max(documents)
        call = partial(library.flash_attn_varlen_func, q, k, v, edges, edges, longest, longest, **how)
    else:
        call = partial(library.flash_attn_func, q[None], k[None], v[None], **how)

    def turned():
        out = call()
        out = out[0] if isinstance(out, tuple) else out
        return out.view(1, *out.shape[-3:]).transpose(1, 2)

    return turned


PEERS = {  # and the module that is there where they are installed
    "PyTorch, cuDNN": (sdpa, "torch"),
    "FlexAttention": (flex, "torch.nn.attention.flex_attention"),
    "FlashAttention-2": (partial(dao_ailab, "flash_attn"), "flash_attn_2_cuda"),
    "FlashAttention-3": (partial(dao_ailab, "flash_attn_interface"), "flash_attn_interface"),
    "FlashAttention-4": (partial(dao_ailab, "flash_attn.cute"), "flash_attn.cute"),
}


def installed() -> dict[str, Callable]:
    """The peers that are; says which are not."""
    found = {}
    for name, (prepare, module) in PEERS.items():
        parents = module.split(".")[0]
        if find_spec(parents) is not None and find_spec(module) is not None:
            found[name] = prepare
        else:
            print(f"not here: {name} ({module} is not installed)")
    return found


def line(case: Case, peers: dict[str, Callable], cuda: bool = True, repeats: Repeats = REPEATS) -> str:
    """Time a case: TFLOP/s of each, ours over the best peer, and our backward pass."""
    q, k, v = random_inputs(case.problem, cuda)
    options = case.options(cuda)
    ours = partial(kernels.attention, **options)
    first = {name: each[:1] if name == "sinks" else each for name, each in options.items()}
    exact, _ = kernels.reference_attention(q[:, :1], k[:, :1], v[:, :1], **first)
    calls, others = {"ours": partial(ours, q, k, v)}, []
    for name, prepare in peers.items():
        try:
            call = prepare(case, q, k, v, options)
            call()
        except Exception as reason:  # of anybody's code, which may not serve a case: the line says so
            others.append(f"{name}: {' '.join(str(reason).split())[:60]}")
        else:
            calls[name] = call
    for name, call in list(calls.items()):
        error = (call()[:, :1].double() - exact).abs().max().item()
        if not error <= CLOSE * v.abs().max().item():
            others.append(f"{name}: {error:.3g} from float64")
            del calls[name]
    flops = pair_flops(case.problem) / 1e12
    rates = {name: flops / times.p50 for name, times in in_turns(calls, repeats, cuda).items()}
    best = max((rate for name, rate in rates.items() if name != "ours"), default=None)
    ratio = f"x{rates['ours'] / best:.2f}" if best and "ours" in rates else "no peer"
    leaves = [each.requires_grad_() for each in (q, k, v)]
    out = ours(*leaves)
    back = partial(torch.autograd.grad, out, leaves, torch.randn_like(out), retain_graph=True)
    others.append(f"ours backward {BACKWARD_FLOPS * flops / in_turns({0: back}, repeats, cuda)[0].p50:.0f}")
    return f"{case.name:<30} {ratio:<8} {'  '.join([*(f'{n} {r:.0f}' for n, r in rates.items()), *others])}"


def latent(batch: int, keys: int) -> tuple[Callable, int, float]:
    """Decoding by 128 heads over a latent: the call, bytes that it reads, and its FLOPs."""
    make = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
    q, latents = make(batch, 128, 1, 576), make(batch, 1, keys, 576)
    call = partial(kernels.attention, q, latents, latents[..., :512])
    return call, latents.nbytes, 2 * 128 * (576 + 512) * batch * keys


def paged(batch: int, page: int) -> tuple[Callable, int, float]:
    """Decoding by 32 heads on 8 over shuffled pages: the same."""
    make = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
    k, v = (make(batch * PAGED_KEYS // page, page, 8, 128) for _ in range(2))
    table = torch.randperm(len(k), device="cuda").int().view(batch, -1)
    held = torch.full((batch,), PAGED_KEYS, dtype=torch.int32, device="cuda")
    call = partial(kernels.attention_paged, make(batch, 32, 1, 128), k, v, table, held)
    return call, k.nbytes + v.nbytes, 4 * 32 * 128 * batch * PAGED_KEYS


DECODING = (
    *(("keys of a latent", latent, b, keys) for b in (1, 16, 64, 128) for keys in (4096, 32768, 131072)),
    *(("keys a page", paged, batch, page) for batch in (1, 4, 32) for page in (16, 64, 256)),
)


def run() -> int:
    """Print a line for each case and for decoding; 0."""
    print("TFLOP/s over the scores that the mask leaves, medians in turns; x: ours over the best peer")
    peers = installed()
    for case in CASES:
        print(line(case, peers), flush=True)
        torch.cuda.empty_cache()
    source = torch.empty(COPIED, dtype=torch.uint8, device="cuda")
    copy = partial(torch.empty_like(source).copy_, source)
    copied = 2 * COPIED / in_turns({0: copy}, REPEATS, cuda=True)[0].p50
    print(f"decoding over a copy's rate, {copied / 1e12:.2f} TB/s read and written")
    for what, make, batch, size in DECODING:
        call, moved, flops = make(batch, size)
        seconds = in_turns({0: call}, REPEATS, cuda=True)[0].p50
        rate = f"x{moved / seconds / copied:.2f}  {flops / seconds / 1e12:.0f} TFLOP/s"
        print(f"batch {batch:<4} {size:>6} {what:<17} {seconds * 1e6:8.1f} us  {rate}", flush=True)
    return 0

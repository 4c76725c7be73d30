"""python -m engine bench-kernels --models: calls as models make them, beside the peers that are installed."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from engine.measuring.bench import LONGEST_RECORDED, Bench
from engine.measuring.clock import Repeats, in_turns
from engine.measuring.implementations import Implementation, implementations, own_kernel, present
from engine.measuring.libraries import kernels, torch
from engine.measuring.machine import machine
from engine.measuring.sections import copying
from engine.measuring.trial import random_inputs
from engine.problem.flops import BACKWARD_FLOPS, pair_flops
from engine.problem.problem import Mask, Problem

REPEATS = Repeats(10, 20, 0.05)
COPIED = 2**32  # bytes read and written, of which a copy's rate is taken
PAGED_KEYS = 65536
OURS = Implementation("ours", "ours", partial(own_kernel, "auto"), ours=True)
PEERS = ("sdpa_cudnn", "flex", "fa2", "fa3", "fa4")


def _of(heads: int, kv_heads: int, keys: int, d: int, mask: Mask, **more) -> Problem:
    return Problem(1, heads, kv_heads, keys, keys, d, "bfloat16", mask, **more)


CAUSAL, WINDOW = Mask(causal=True), Mask(causal=True, window=128)
CASES = {
    "plain, d 128": _of(16, 16, 16384, 128, CAUSAL),
    "plain, d 64, 64 heads on 8": _of(64, 8, 8192, 64, CAUSAL),
    "plain, d 256": _of(16, 8, 8192, 256, CAUSAL),
    **{
        f"{count} documents, d {d}, {'causal' if causal else 'both ways'}": _of(
            2048 // d, 2048 // d, keys, d, Mask(causal=causal, documents=count)
        )
        for count, keys in ((8, 16384), (64, 32768))
        for d in (64, 128)
        for causal in (True, False)
    },
    **{f"d {d}": _of(16, 16, 8192, d, CAUSAL) for d in (80, 96, 112)},
    "192/128": _of(16, 16, 8192, 192, CAUSAL, head_dim_v=128),
    "softcap 50, d 256": _of(16, 8, 8192, 256, CAUSAL, softcap=50.0),
    "softcap 30, d 128": _of(16, 16, 8192, 128, CAUSAL, softcap=30.0),
    "sinks, d 64": _of(64, 8, 8192, 64, CAUSAL, sinks=True),
    "sinks, window 128": _of(64, 8, 8192, 64, WINDOW, sinks=True),
    "window 512 + 512": _of(32, 32, 16384, 64, Mask(window=513, ahead=512)),
}


def line(name: str, problem: Problem, bench: Bench) -> str:
    """Time a case: TFLOP/s of each, ours over the best peer, who is not timed, and our backward pass."""
    plain = problem.mask.kinds <= {"causal"}  # else a mask is a tensor of 2^30 numbers to some
    entered = [one for one in bench.implementations if plain or not one.mask_tensor]
    rows, flops = replace(bench, implementations=entered).timings(problem), pair_flops(problem) / 1e12
    rates = {row.provider: flops / row.times.p50 for row in rows if row.times}
    best = max((rate for one, rate in rates.items() if one != OURS.name), default=None)
    ratio = f"x{rates[OURS.name] / best:.2f}" if best and OURS.name in rates else "no peer"
    leaves = [each.requires_grad_() for each in random_inputs(problem, bench.cuda)]
    out = OURS.prepare(*leaves, problem)()
    back = partial(torch.autograd.grad, out, leaves, torch.randn_like(out), retain_graph=True)
    spent = in_turns({0: back}, bench.repeats, bench.cuda)[0].p50
    told = [f"{one} {rate:.0f}" for one, rate in rates.items()]
    told += [f"{row.provider}: {row.skipped[:60]}" for row in rows if row.skipped]
    return f"{name:<30} {ratio:<8} {'  '.join(told)}  ours backward {BACKWARD_FLOPS * flops / spent:.0f}"


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
    peers = present([one for name, one in implementations().items() if name in PEERS])
    bench = Bench(machine(), [OURS, *peers], LONGEST_RECORDED, REPEATS)
    for name, problem in CASES.items():
        print(line(name, problem, bench), flush=True)
        torch.cuda.empty_cache()

    def spent(call: Callable) -> float:
        return in_turns({0: call}, REPEATS, cuda=True)[0].p50

    copied = COPIED / spent(copying(COPIED, cuda=True))
    print(f"decoding over a copy's rate, {copied / 1e12:.2f} TB/s read and written")
    for what, make, batch, size in DECODING:
        call, moved, flops = make(batch, size)
        seconds = spent(call)
        rate = f"x{moved / seconds / copied:.2f}  {flops / seconds / 1e12:.0f} TFLOP/s"
        print(f"batch {batch:<4} {size:>6} {what:<17} {seconds * 1e6:8.1f} us  {rate}", flush=True)
    return 0

"""python -m engine bench-kernels: this project's kernels against what else there is on this GPU.

--models: calls as models make them, and decoding; --beyond: chosen blocks of keys, and a latent, beside all
keys.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from math import exp, inf, log
from pathlib import Path
from typing import Any

from engine.algorithms import BACKWARD, FORWARD
from engine.measuring.bench import LONGEST_RECORDED, Bench
from engine.measuring.clock import Repeats, in_turns
from engine.measuring.exact import ALLOWED
from engine.measuring.implementations import Implementation, contenders, implementations, own_kernel, present
from engine.measuring.machine import device, kernels, machine, torch
from engine.measuring.sections import copying, paged, timed, together
from engine.measuring.trial import Trial, random_inputs, training_problem
from engine.parser import Parser, to_write
from engine.problem.bounds import BACKWARD_FLOPS, pair_flops
from engine.problem.problem import Mask, Problem
from engine.recordings.timing import Times, Timing, VariantTiming
from engine.studies.masks import beside
from engine.worker.jobs import JobError

PACKED = (  # windows to both sides; documents, the same causal, and of unequal lengths
    Mask(window=1025, ahead=1024),
    Mask(documents=16),
    Mask(causal=True, documents=16),
    Mask(causal=True, documents=(8192, 5000, 1, 2191, 1000)),
)
REPEATS = Repeats(10, 20, 0.05)
CANDIDATES = ("flash2", "flash3", "split_kv")  # that auto takes one of
LIMIT = 1.5  # times the fastest one's, from which on a choice of auto is a wrong one
COPIED = 2**32  # bytes read and written, of which a copy's rate is taken
PAGED_KEYS = 65536
HEADS, KV_HEADS, HEAD_DIM, KEYS = 64, 4, 128, 1024  # the last that a query visits, in blocks of any size
PREFILL = tuple(product((8192, 16384, 32768, 65536), ((1, 64), (64, 64))))
BLOCKS = (16, 32, 128)  # at the third length, one query to a choice
DECODED = ((4096, 64), (65536, 64))  # keys of each of so many sequences
LATENTS, LATENT_HEADS, GROUPS = ((64, 4096), (64, 32768), (8, 131072)), 128, 8
CHECKED, CLOSE = 48, 4 * 2.0**-7  # queries; of the largest value of V: four of bfloat16's steps
OURS = Implementation("ours", "ours", partial(own_kernel, "auto"), ours=True)
PEERS = ("sdpa_cudnn", "flex", "fa2", "fa3", "fa4")


def shapes() -> list[Problem]:
    """The training shapes, then grouped heads, windows, documents and ragged lengths."""
    one = training_problem(4096, 128, causal=True)
    return [
        *(
            training_problem(n, d, causal)
            for d in (128, 64, 256)
            for n in (4096, 16384, 512, 1024, 2048)
            for causal in (False, True)
        ),
        replace(one, kv_heads=one.heads // 4),
        replace(training_problem(16384, 128, True), mask=Mask(True, 1024)),
        *(replace(training_problem(16384, 128, False), mask=mask) for mask in PACKED),
        replace(one, seq_q=4095, seq_kv=4095),
    ]


def told(rows: list[Timing], figure: Callable[[Timing], str]) -> str:
    """Who was timed, each with its figure, the fastest first; and why the others were not."""
    timed = sorted((row for row in rows if row.times), key=lambda row: row.times.p50)
    said = [f"{row.provider} {figure(row)}" for row in timed]
    return "  ".join(said + [f"{row.provider}: {row.skipped[:60]}" for row in rows if row.skipped])


def ratio(rows: list[Timing], ours: set[str]) -> str:
    """How many times as fast our best is as the best peer."""
    own, peer = (
        min((row.times.p50 for row in rows if row.times and (row.provider in ours) == whose), default=None)
        for whose in (True, False)
    )
    return f"x{peer / own:.3f}" if own and peer else "no peer" if own else "none of ours"


def run() -> None:
    """Times every problem, forward and backward, then all masks; prints a line for each."""
    print("TFLOP/s in turns, medians, fastest first; x: ours over the best peer")
    bench = Bench(machine(), present(contenders()), LONGEST_RECORDED, REPEATS)
    ours = {one.name for one in bench.implementations if one.ours}
    for direction, problem in product((FORWARD, BACKWARD), shapes()):
        if direction == FORWARD or problem.heads == problem.kv_heads:  # else no gradients are checked
            rows = bench.timings(problem, direction)
            what = problem.mask.text + ("" if problem.group == 1 else f" kv {problem.kv_heads}")
            head = f"{direction:<8} d {problem.head_dim:<3} N {problem.seq_kv:<5} {what:<22}"
            print(f"{head} {ratio(rows, ours):<13} {told(rows, '{0.tflops:.0f}'.format)}", flush=True)
    print(f"each result is held against float64 first, allowed is {ALLOWED}")
    run_variants()


def run_variants() -> None:
    """Times what masks and terms cost; prints a line for each."""
    for planned in together("variants", "direction"):
        rows = timed(planned, REPEATS, cuda=True)
        for row in rows:
            print(variant_line(row, beside(row, rows)), flush=True)


def variant_line(row: VariantTiming, plain: VariantTiming) -> str:
    """A row as the command line prints it: its time, its rate, and that rate over the plain one's."""
    name = row.problem.mask.text
    name += f", prefix {row.prefix:,}" if row.prefix else ""
    name += f", {row.term}" if row.term else ""
    name += f", d {row.problem.head_dim}/{row.v_dim}" if row.v_dim else ""
    if row.times is None:
        return f"{row.direction:<8} {name:<46} {row.skipped}"
    over = f"{row.tflops / plain.tflops:.2f} of plain" if plain.tflops else ""
    return f"{row.direction:<8} {name:<46} {row.times.p50 * 1e3:7.3f} ms {row.tflops:4.0f} TFLOP/s  {over}"


def auto_problems() -> list[Problem]:
    """Short and long sequences, few and many; one query and some, of heads that share keys and not."""
    square = [
        Problem(batch, 16, 16, n, n, d, "float16", Mask(causal))
        for d in (64, 128)
        for causal in (False, True)
        for batch in (1, 4)
        for n in (256, 1024, 4096)
    ]
    few_queries = [
        Problem(batch, 32, kv_heads, rows, keys, 128, "float16", Mask(rows > 1))
        for kv_heads in (8, 32)
        for rows in (1, 16, 64)
        for batch in (1, 16)
        for keys in (512, 4096, 16384)
    ]
    return square + few_queries


def auto_choice(problem: Problem) -> str:
    """The algorithm that auto takes on this machine."""
    return kernels.explain(*random_inputs(problem, cuda=True), causal=problem.mask.causal).split()[0]


def run_auto(bench: Bench | None = None, wanted: list[Problem] | None = None) -> int:
    """Prints a line for each problem and what the choices cost in all; 1 where one is beyond LIMIT."""
    known, factors = implementations(), []
    bench = bench or Bench(machine(), [known[name] for name in CANDIDATES], LONGEST_RECORDED, REPEATS)
    for problem in wanted or auto_problems():
        choice, rows = auto_choice(problem), bench.timings(problem)
        times = {row.provider: row.times.p50 for row in rows if row.times}
        factors.append(times[choice] / min(times.values()) if choice in times else inf)
        shape = f"batch {problem.batch:<2} heads {problem.heads}/{problem.kv_heads} d {problem.head_dim}"
        lengths = f"queries {problem.seq_q:<5} keys {problem.seq_kv:<6} {problem.mask.text:<7}"
        figures = told(rows, lambda row: f"{row.times.p50 * 1e6:.1f}")
        factor = f"auto {choice} x{factors[-1]:.2f}"
        print(f"{shape:<25} {lengths} {factor:<20} {figures}", flush=True)
    mean = exp(sum(map(log, factors)) / len(factors))
    print(f"auto takes x{mean:.3f} of the fastest one's time on average, at most x{max(factors):.2f}")
    print(f"microseconds, medians, the L2 cold; at most x{LIMIT} is allowed")
    return int(max(factors) > LIMIT)


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


def model_line(name: str, problem: Problem, bench: Bench) -> str:
    """Time a case: TFLOP/s of each, ours over the best peer, who is not timed, and our backward pass."""
    plain = problem.mask.kinds <= {"causal"}  # else a mask is a tensor of 2^30 numbers to some
    entered = [one for one in bench.implementations if plain or not one.mask_tensor]
    rows, flops = replace(bench, implementations=entered).timings(problem), pair_flops(problem)
    leaves = [each.requires_grad_() for each in random_inputs(problem, bench.cuda)]
    out = OURS.prepare(*leaves, problem)()
    back = partial(torch.autograd.grad, out, leaves, torch.randn_like(out), retain_graph=True)
    figures = told(rows, lambda row: f"{row.times.tflops(flops):.0f}")
    backward = _spent(back, bench.cuda).tflops(BACKWARD_FLOPS * flops)
    return f"{name:<30} {ratio(rows, {OURS.name}):<8} {figures}  ours backward {backward:.0f}"


def over_latent(batch: int, keys: int) -> Problem:
    """A query of each of LATENT_HEADS heads over a latent."""
    sizes = {"head_dim_v": 512, "latent": True}
    return Problem(batch, LATENT_HEADS, 1, 1, keys, 576, "bfloat16", **sizes)


DECODING = (  # what the size is, batch, size, problem, keys of a page
    *(
        ("keys of a latent", batch, keys, over_latent(batch, keys), None)
        for batch in (1, 16, 64, 128)
        for keys in (4096, 32768, 131072)
    ),
    *(
        ("keys a page", batch, page, Problem(batch, 32, 8, 1, PAGED_KEYS, 128, "bfloat16"), page)
        for batch in (1, 4, 32)
        for page in (16, 64, 256)
    ),
)


def run_models() -> None:
    """Print a line for each case and for decoding."""
    print("TFLOP/s over the scores that the mask leaves, medians in turns; x: ours over the best peer")
    peers = present([one for name, one in implementations().items() if name in PEERS])
    bench = Bench(machine(), [OURS, *peers], LONGEST_RECORDED, REPEATS)
    for name, problem in CASES.items():
        print(model_line(name, problem, bench), flush=True)
        torch.cuda.empty_cache()
    copied = COPIED / _spent(copying(COPIED, cuda=True)).p50
    print(f"decoding over a copy's rate, {copied / 1e12:.2f} TB/s read and written")
    for what, batch, size, problem, page in DECODING:
        given = random_inputs(problem, cuda=True)
        call = paged(*given, problem, page) if page else OURS.prepare(*given, problem)
        times, moved = _spent(call), given[1].nbytes * (1 if problem.latent else 2)
        rate = f"x{moved / times.p50 / copied:.2f}  {times.tflops(pair_flops(problem)):.0f} TFLOP/s"
        print(f"batch {batch:<4} {size:>6} {what:<17} {times.p50 * 1e6:8.1f} us  {rate}", flush=True)


def _spent(call: Callable, cuda: bool = True) -> Times:
    return in_turns({0: call}, REPEATS, cuda)[0]


def choice(batch: int, seq_q: int, seq_kv: int, block_q: int, block_kv: int, where: str):
    """[batch, kv_heads, choices, KEYS / block_kv] int32: a query's own block and others drawn before it."""
    count, chosen = -(-seq_q // block_q), KEYS // block_kv
    last = (torch.arange(count, device=where) * block_q + seq_kv - seq_q) // block_kv
    found = torch.empty(batch, KV_HEADS, count, chosen, dtype=torch.int32, device=where)
    for row, head in product(range(batch), range(KV_HEADS)):  # apart: the draws of all would not fit
        drawn = torch.rand(count, -(-seq_kv // block_kv), device=where)
        places = torch.arange(drawn.shape[1], device=where)
        drawn[places[None, :] > last[:, None]] = -1
        drawn[torch.arange(count, device=where), last] = 2
        some = drawn.topk(min(chosen, drawn.shape[1]))
        found[row, head] = -1
        found[row, head, :, : some.indices.shape[1]] = torch.where(some.values < 0, -1, some.indices)
    return found


def error(q, k, v, out, blocks, block_q: int, block_kv: int) -> float:
    """The largest difference from float64 with the same choice, in the first head of CHECKED queries."""
    worst, seq_q, seq_kv = 0.0, q.shape[2], k.shape[2]
    for query in torch.linspace(0, seq_q - 1, min(CHECKED, seq_q)).long().tolist():
        keys = torch.cat([
            torch.arange(block * block_kv, min((block + 1) * block_kv, query + seq_kv - seq_q + 1))
            for block in blocks[0, 0, query // block_q].tolist() if block >= 0
        ]).to(q.device)  # fmt: skip
        scores = k[0, 0, keys].double() @ q[0, 0, query].double() * HEAD_DIM**-0.5
        exact = scores.softmax(0) @ v[0, 0, keys].double()
        worst = max(worst, (out[0, 0, query].double() - exact).abs().max().item())
    return worst


def selected_row(
    batch: int, seq_q: int, seq_kv: int, block_q: int, block_kv: int, where: str = "cuda"
) -> dict[str, Any]:
    """One shape, checked, and timed in turns with attention over all keys; raises JobError where wrong."""
    make = partial(torch.randn, device=where, dtype=torch.bfloat16)
    q, k, v = make(batch, HEADS, seq_q, HEAD_DIM), *(make(batch, KV_HEADS, seq_kv, HEAD_DIM) for _ in "kv")
    blocks = choice(batch, seq_q, seq_kv, block_q, block_kv, where)
    how = {"block_q": block_q, "block_kv": block_kv, "causal": True}
    selected = partial(kernels.attention_selected, q, k, v, blocks, **how)
    off = error(q, k, v, selected(), blocks, block_q, block_kv)
    if not off <= CLOSE * v.abs().max().item():
        raise JobError(f"attention_selected is {off:.3g} from float64 over {seq_kv:,} keys")
    calls = {"all": partial(kernels.attention, q, k, v, causal=True), "selected": selected}
    shape = {"batch": batch, "seq_q": seq_q, "seq_kv": seq_kv, "block_q": block_q, "block_kv": block_kv}
    return shape | {"error": off} | _timed(calls, v.is_cuda)


def latent_row(batch: int, keys: int) -> dict[str, Any]:
    """Heads over a latent, beside the same over grouped heads of 128."""
    problem = over_latent(batch, keys)
    found = Trial.of(problem, cuda=True).checked(OURS.prepare)
    if isinstance(found, str):
        raise JobError(found)
    grouped = Problem(batch, LATENT_HEADS, GROUPS, 1, keys, HEAD_DIM, "bfloat16")
    calls = {"latent": found.call, "grouped": OURS.prepare(*random_inputs(grouped, cuda=True), grouped)}
    return {"batch": batch, "seq_kv": keys, "error": found.error} | _timed(calls, cuda=True)


def _timed(calls: dict[str, Callable], cuda: bool) -> dict[str, dict[str, float]]:
    return {name: asdict(each) for name, each in in_turns(calls, REPEATS, cuda).items()}


def run_beyond(path: Path | None) -> None:
    """Print a line for each shape, and write all into a file."""
    shapes = [(1, keys, keys, *blocks) for keys, blocks in PREFILL]
    shapes += [(1, PREFILL[4][0], PREFILL[4][0], 1, block_kv) for block_kv in BLOCKS]
    shapes += [(batch, 1, keys, 1, 64) for keys, batch in DECODED]
    rows = {"selected": [], "latents": []}
    for kind, measure, of in (("selected", selected_row, shapes), ("latents", latent_row, LATENTS)):
        for shape in of:
            rows[kind].append(measure(*shape))
            print(kind, rows[kind][-1], flush=True)
            torch.cuda.empty_cache()
    if path:
        problem = {"heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM, "keys": KEYS}
        problem |= {"latent_heads": LATENT_HEADS, "groups": GROUPS, "dtype": "bfloat16"}
        found = {"device": asdict(device()), "problem": problem, **rows}
        path.write_text(json.dumps(found, indent=1) + "\n")


def main(arguments: list[str]) -> int | None:
    """Time our kernels and the peers present, in one process, in random order; check each first."""
    parser = Parser("engine bench-kernels", main.__doc__)
    ways = parser.add_mutually_exclusive_group()
    for name, (run_way, what) in WAYS.items():
        ways.add_argument(f"--{name}", dest="way", action="store_const", const=run_way, help=what)
    parser.add_argument("--json", type=to_write, metavar="FILE", help="write what --beyond finds")
    options = parser.parse_args(arguments)
    device()
    way = options.way or run
    return way(options.json) if way is run_beyond else way()


WAYS = {
    "variants": (run_variants, "what masks and terms cost flash2"),
    "auto": (run_auto, "what auto takes against the fastest of ours"),
    "models": (run_models, "calls as models make them, and decoding"),
    "beyond": (run_beyond, "chosen blocks of keys, and a latent, beside all keys"),
}

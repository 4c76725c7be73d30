"""python -m engine bench-kernels --beyond: chosen blocks of keys, and a latent, beside all keys, on a GPU."""

import json
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from engine.measuring.clock import Repeats, in_turns
from engine.measuring.libraries import kernels, torch
from engine.measuring.machine import device
from engine.worker.jobs import JobError

REPEATS = Repeats(5, 20, 0.1)
HEADS, KV_HEADS, HEAD_DIM, KEYS = 64, 4, 128, 1024  # the last that a query visits, in blocks of any size
PREFILL = tuple(product((8192, 16384, 32768, 65536), ((1, 64), (64, 64))))
BLOCKS = (16, 32, 128)  # at the third length, one query to a choice
DECODED = ((4096, 64), (65536, 64))  # keys of each of so many sequences
LATENTS, LATENT_HEADS, GROUPS = ((64, 4096), (64, 32768), (8, 131072)), 128, 8
CHECKED, CLOSE = 48, 4 * 2.0**-7  # queries; of the largest value of V: four of bfloat16's steps


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


def row(
    batch: int, seq_q: int, seq_kv: int, block_q: int, block_kv: int, where: str = "cuda"
) -> dict[str, Any]:
    """One shape, checked, and timed in turns with attention over all keys; raises JobError where wrong."""
    make = partial(torch.randn, device=where, dtype=torch.bfloat16)
    q, k, v = make(batch, HEADS, seq_q, HEAD_DIM), *(make(batch, KV_HEADS, seq_kv, HEAD_DIM) for _ in "kv")
    blocks = choice(batch, seq_q, seq_kv, block_q, block_kv, where)
    how = {"block_q": block_q, "block_kv": block_kv, "causal": True}
    selected = partial(kernels.attention_selected, q, k, v, blocks, **how)
    off = error(q, k, v, selected(), blocks, block_q, block_kv)
    calls = {"all": partial(kernels.attention, q, k, v, causal=True), "selected": selected}
    shape = {"batch": batch, "seq_q": seq_q, "seq_kv": seq_kv, "block_q": block_q, "block_kv": block_kv}
    return _timed("attention_selected", shape, off, v, calls)


def latent(batch: int, keys: int, where: str = "cuda") -> dict[str, Any]:
    """A query of each of LATENT_HEADS heads over a latent, beside the same over grouped heads of 128."""
    make = partial(torch.randn, device=where, dtype=torch.bfloat16)
    q, latents = make(batch, LATENT_HEADS, 1, 576), make(batch, 1, keys, 576)
    k, v = (make(batch, GROUPS, keys, HEAD_DIM) for _ in "kv")
    calls = {
        "latent": partial(kernels.attention, q, latents, latents[..., :512]),
        "grouped": partial(kernels.attention, q[..., :HEAD_DIM], k, v),
    }
    exact, _ = kernels.reference_attention(q[:1, :1], latents[:1], latents[:1, ..., :512])
    off = (calls["latent"]()[:1, :1].double() - exact).abs().max().item()
    return _timed("attention over a latent", {"batch": batch, "seq_kv": keys}, off, latents, calls)


def _timed(what: str, shape: dict[str, int], off: float, v: Any, calls: dict[str, Any]) -> dict[str, Any]:
    """A shape with its error and its calls' times in turns; raises JobError where it is too far off."""
    if not off <= CLOSE * v.abs().max().item():
        raise JobError(f"{what} is {off:.3g} from float64 over {shape['seq_kv']:,} keys")
    times = in_turns(calls, REPEATS, v.is_cuda)
    return shape | {"error": off} | {name: asdict(each) for name, each in times.items()}


def run(path: Path | None) -> int:
    """Print a line for each shape, and write all into a file; 0."""
    shapes = [(1, keys, keys, *blocks) for keys, blocks in PREFILL]
    shapes += [(1, PREFILL[4][0], PREFILL[4][0], 1, block_kv) for block_kv in BLOCKS]
    shapes += [(batch, 1, keys, 1, 64) for keys, batch in DECODED]
    rows = {"selected": [], "latents": []}
    for kind, measure, of in (("selected", row, shapes), ("latents", latent, LATENTS)):
        for shape in of:
            rows[kind].append(measure(*shape))
            print(kind, rows[kind][-1], flush=True)
            torch.cuda.empty_cache()
    if path:
        problem = {"heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM, "keys": KEYS}
        problem |= {"latent_heads": LATENT_HEADS, "groups": GROUPS, "dtype": "bfloat16"}
        found = {"device": asdict(device()), "problem": problem, **rows}
        path.write_text(json.dumps(found, indent=1) + "\n")
    return 0

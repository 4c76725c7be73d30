"""What a call would do and what it did: `explain`, and `attention` with its blocks probed or traced."""

from dataclasses import dataclass
from typing import Unpack

import torch

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.record import PLAIN
from kernels.call.call import Call
from kernels.call.device import device_of
from kernels.call.key_ranges import late_see_more, plain_mask, ranges_for, seen_of
from kernels.call.options import Explained, Options, Probing, asked, signed
from kernels.call.terms import Terms, terms_with
from kernels.call.value_checks import as_autocast, resolved, shown
from kernels.dispatch.dispatch import check, chosen, fallback
from kernels.launch.block_times import BlockTimes
from kernels.launch.launch import interpreted


@dataclass(frozen=True)
class Probed:
    """What a kernel computed, and what it held after every tile it visited.

    out and lse as `attention` returns them. m (running maximum of the scaled scores), l (running sum of
    exp(s - m)) and alpha (the factor that rescaled what was there) are float32 [batch, heads, query_blocks,
    key_blocks, block_q]; NaN where a tile is not visited and in rows past the last query. `standard` takes
    a row at once: its key_blocks is 1 and its alpha NaN, for nothing is rescaled.
    """

    out: torch.Tensor
    lse: torch.Tensor
    m: torch.Tensor
    l: torch.Tensor  # noqa: E741 (the papers' name)
    alpha: torch.Tensor


@dataclass(frozen=True)
class Traced:
    """What a call computed, and which SM ran each of its blocks of threads, and when.

    out and lse as `attention` returns them. blocks, by the kernel's name in the order they ran ("attention",
    or "scores", "softmax" and "output"), is int64 [blocks, 3] in launch order: the SM, and the start and end
    in nanoseconds of the GPU's clock (%globaltimer), which ticks every 32 of them on an H200.
    """

    out: torch.Tensor
    lse: torch.Tensor
    blocks: dict[str, torch.Tensor]


@signed
def explain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **given: Unpack[Explained]) -> str:
    """Which algorithm `attention` runs for these arguments and why, in one sentence; runs nothing."""
    options = asked(given, Explained)
    _, (call, reason), _ = _prepared(*as_autocast(q, k, v), options)
    if half := call.memory.get("halved"):
        reason += f", {half.in_blocks} where {call.block_q} x {call.block_kv} do not fit"
    found = device_of(q.device)
    if not (found.multiplies or interpreted()):
        reason += f"; Triton multiplies without tensor cores on {found.architecture}"
    return f"{call.algorithm} runs: {reason}"


@signed
def probe_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **given: Unpack[Probing]) -> Probed:
    """`attention` with the probe on: also m, l and alpha after every tile, see `Probed`."""
    (q, k, v), call, terms = _looked_into(q, k, v, given, "probe")
    record = ALGORITHMS[call.algorithm]
    key_blocks = 1 if record.whole_rows else call.key_blocks
    shape = (call.batch, call.heads, call.query_blocks, key_blocks, call.block_q)
    probe = tuple(torch.full(shape, torch.nan, dtype=torch.float32, device=q.device) for _ in range(3))
    out, lse = record.forward(q, k, v, call, probe=probe, terms=terms)
    return Probed(out, lse, *probe)


@signed
def trace_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, heavy_first: bool = True, **given: Unpack[Probing]
) -> Traced:
    """`attention` with every block of threads written down, see `Traced`; it costs less than 3 % of the time.

    Of flash3, whose blocks of threads stay and draw tiles, these are written down. heavy_first False has
    flash2 launch the query blocks of a causal head from the first to the last, which its kernel otherwise
    turns around. Raises RuntimeError where the kernels are interpreted: there is no SM to name and no clock
    to read.
    """
    (q, k, v), call, terms = _looked_into(q, k, v, given, "trace")
    if interpreted():
        raise RuntimeError(
            "blocks cannot be traced in Triton's interpreter, which has no SMs and no GPU clock"
        )
    if device_of(q.device).amd:
        raise RuntimeError(
            f"blocks cannot be traced on {device_of(q.device).architecture}, only by NVIDIA's clock"
        )
    times = BlockTimes(heavy_first)
    out, lse = ALGORITHMS[call.algorithm].forward(q, k, v, call, times=times, terms=terms)
    # of packed sequences some numbers are no tile
    return Traced(out, lse, {name: blocks[blocks[:, 2] > 0] for name, blocks in times.kernels.items()})


def _looked_into(q, k, v, given: dict, how: str) -> tuple[tuple, Call, Terms | None]:
    """The tensors, the call and its terms, if any; ValueError where the algorithm has no probe or trace."""
    options = asked(given, Probing)
    algorithm = fallback().key if options.algorithm == "auto" else options.algorithm
    able = [key for key, record in ALGORITHMS.items() if getattr(record, f"{how}d")]
    if algorithm in ALGORITHMS and algorithm not in able:
        raise ValueError(
            f"algorithm is {shown(algorithm)}, which has no {how}: it must be auto, {', '.join(able)}"
        )
    tensors, (call, _), terms = _prepared(q, k, v, options._replace(algorithm=algorithm))
    return tensors, call, terms


def _prepared(q, k, v, options: Options) -> tuple[tuple, tuple[Call, str], Terms | None]:
    """The tensors, the call with the reason for its algorithm, and its terms, if any, as that takes them."""
    mask, terms, features = plain_mask(options), None, PLAIN
    if mask is None:
        check(q, k, v, options)
        mask = late_see_more(options), None
        if options.algorithm == "auto" or ALGORITHMS[options.algorithm].takes_seen:
            terms = terms_with(None, q, options, seen_of(q, k, options))
        else:
            terms = terms_with(ranges_for(q, k, options), q, options)
        features = terms.features(q.shape[2])
    q, k, v = resolved(q, k, v)
    return (q, k, v), chosen(q, k, v, *mask, *options.how, features), terms

"""Three ways to compute one attention, compared tile by tile: the scheduler, the real kernel, and float64.

Its gradients too, as whole tensors, and what the real kernel requests of memory. It runs in the worker;
torch and kernels are imported inside functions.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from engine.algorithms import backward
from engine.algorithms.flash2 import ALGORITHM
from engine.experiment import Experiment
from engine.measuring.bench import quick
from engine.measuring.exact import gradients, options_of
from engine.measuring.implementations import unfused
from engine.measuring.machine import kernels, machine, now, torch
from engine.measuring.trial import refusals
from engine.model.launch import schedule_of
from engine.model.simulation import simulate
from engine.problem.bounds import blocks, visible
from engine.problem.dtype import dtype_named
from engine.problem.inputs import make_inputs, make_output_gradient
from engine.problem.problem import Problem
from engine.root import ROOT
from engine.schedule.step import Tensor
from engine.trace.dense import Held, exact_tiles
from engine.trace.execute import execute, execute_backward
from engine.watch.attention import watched
from engine.watch.process import Limits, run
from engine.watch.steps import NAMED, of_schedule, tile_bytes
from engine.worker.jobs import JobError, Update

KEPT = ROOT / "assets" / "agreement.npz"
AGREE = "engine.measuring.agreement:agree"
MOST_SECONDS, MOST_SCORES, MOST_HEADS = 3.0, 2**22, 4  # of the query heads that share a key head
QUANTITIES = ("O", "lse", "m", "l", "alpha")
PAIRS = (("kernel", "float64"), ("trace", "float64"), ("kernel", "trace"))
ROUNDING = 2.0**-23  # u, of float32; not halved, because tensor cores truncate where a CPU rounds
ORIGIN = {
    "O": "twice the error of unfused PyTorch in this dtype on the same numbers, plus one rounding unit",
    "lse": "the bounds of m and l together",
    "m": "a float32 dot product of d terms, roundings at random: (sqrt(d) + 4) u max|q| max|k| scale",
    "l": "relative: twice the bound of m, plus (sqrt(N) + 8) u for sum and exp",
    "alpha": "twice the bound of m, plus 8 u for exp",
}
CHECK = "engine.measuring.agreement:check"
GRADIENTS = ("dQ", "dK", "dV")
TIMES = 4  # the unfused formulas' error, and rounding units, that a gradient may be off
GRADIENTS_ORIGIN = (
    f"{TIMES} times the error of the unfused formulas, matrices rounded to the dtype, on the same numbers, "
    f"plus {TIMES} rounding units of the largest value, plus what float32 leaves where dP − δ should be 0 "
    "and in the exponents of P"
)

Gradients = Mapping[str, np.ndarray]
Tiles = Mapping[tuple[str, tuple[str, str]], np.ndarray]


@dataclass(frozen=True)
class Agreement:
    """Largest differences between the three, and how large they may be."""

    experiment: Experiment  # what was run
    # device, interpreted: where the kernel ran
    device: str
    interpreted: bool
    tolerance: Mapping[str, float]  # by quantity; l's is relative to l, the others are absolute
    # by quantity and pair, the largest difference in each tile, [query blocks, key blocks]; NaN where not
    # visited, infinite where one of the two lacks a number. O and lse belong to a query block: [query blocks,
    # 1]; gradients to no tile: [1, 1].
    tiles: Tiles
    date: str = field(default_factory=now)  # when, ISO 8601

    @property
    def quantities(self) -> tuple[str, ...]:
        """What was compared; unfused attention has no alpha."""
        return tuple(dict.fromkeys(quantity for quantity, _ in self.tiles))

    def largest(self, quantity: str, pair: tuple[str, str]) -> float:
        """The largest difference of all tiles; infinite where one of the two lacks a number."""
        return float(np.nanmax(self.tiles[quantity, pair], initial=0.0))

    def holds(self, quantity: str) -> bool:
        """Whether every pair is within the tolerance."""
        return all(self.largest(quantity, pair) <= self.tolerance[quantity] for pair in PAIRS)

    @property
    def agrees(self) -> bool:
        """Whether every quantity does."""
        return all(map(self.holds, self.quantities))


def keep(found: Agreement) -> None:
    """Write a comparison down in `KEPT`, for whoever has run none yet."""
    about = {name: getattr(found, name) for name in ("device", "interpreted", "tolerance", "date")}
    named = {" ".join((quantity, *pair)): tiles for (quantity, pair), tiles in found.tiles.items()}
    told = json.dumps({**about, "experiment": found.experiment.flat()})
    columns = {name: tiles.astype(np.float32) for name, tiles in named.items()}
    np.savez_compressed(KEPT, about=told, **columns)


@lru_cache(maxsize=1)
def kept() -> Agreement:
    """The comparison that lies in `KEPT`, of the usual scenario."""
    with np.load(KEPT) as file:
        about = json.loads(str(file["about"]))
        named = {name: file[name] for name in file.files if name != "about"}
    tiles = {(name.split()[0], tuple(name.split()[1:])): values for name, values in named.items()}
    return Agreement(Experiment.of(**about.pop("experiment")), tiles=tiles, **about)


def small_sibling(experiment: Experiment) -> Experiment:
    """What is run for an experiment: one head, and flash2 where an algorithm has no probe of every tile."""
    return _alone(experiment, experiment.algorithm if experiment.record.probed else ALGORITHM.key, 1)


def small_backward(experiment: Experiment) -> Experiment:
    """What is run for an experiment's backward pass: one key head with its query heads."""
    return _alone(experiment, backward.ALGORITHM.key, min(experiment.problem.group, MOST_HEADS))


def _alone(experiment: Experiment, algorithm: str, heads: int) -> Experiment:
    """So many heads on one key head, shortened until even the interpreter takes seconds."""
    alone = {"batch": 1, "heads": heads, "kv_heads": 1, "splits": 1, "stages": 2}
    return quick(experiment.changed(algorithm=algorithm, **alone), MOST_SECONDS, MOST_SCORES)


def agree(payload: dict[str, Any]) -> Generator[Update, None, Agreement]:
    """The job behind the Agreement page; its payload is a small sibling's flat values."""
    experiment = Experiment.of(**payload)
    if experiment.problem.unserved or experiment.problem.page_size:
        pages = "no kernel reports its tiles of keys in pages: leave out page_size"
        raise JobError(experiment.problem.unserved or pages)
    inputs = tuple(array[0] for array in make_inputs(experiment.problem))

    def probed(experiment: Experiment, *tensors) -> Held:
        found = kernels.probe_attention(*(each[None, None] for each in tensors), **_options(experiment))
        parts = (found.out, found.lse, found.m, found.l, found.alpha)
        return Held(*(part[0, 0].double().cpu().numpy() for part in parts))

    kernel, trace, where = yield from _run(probed, partial(execute, experiment), experiment, inputs)
    exact = exact_tiles(experiment, *inputs)
    tiles = compare(experiment, {"kernel": kernel, "trace": trace, "float64": exact})
    return Agreement(experiment, *where, tolerances(experiment, exact, inputs), tiles)


def check(payload: dict[str, Any]) -> Generator[Update, None, Agreement]:
    """The job behind the Backward page; its payload is a small backward's flat values."""
    experiment = Experiment.of(**payload)
    problem = experiment.problem
    if problem.unserved:
        raise JobError(problem.unserved)
    q, k, v = make_inputs(problem, heads=problem.heads)
    inputs = (q, k[0], v[0], make_output_gradient(problem, heads=problem.heads))
    run = _run(_kernel_gradients, partial(_trace_gradients, experiment), experiment, inputs)
    kernel, trace, where = yield from run
    exact, rounded = (unfused_gradients(problem, *inputs, dtype=of) for of in ("float64", problem.dtype))
    floors = cancellation(problem, *inputs) | exponents(problem, *inputs)
    allowed = {name: _allowed(problem, rounded[name], exact[name], floors[name]) for name in GRADIENTS}
    held = {"kernel": kernel, "trace": trace, "float64": exact}
    tiles = {
        (name, (one, other)): np.array([[np.max(_apart(held[one][name], held[other][name]))]])
        for name in GRADIENTS
        for one, other in PAIRS
    }
    return Agreement(experiment, *where, allowed, tiles)


def _run(kernel: Callable, trace: Callable, experiment: Experiment, inputs: tuple) -> Generator:
    """What the real kernel and the scheduler hold; the device, and whether the kernel was interpreted."""
    yield Update(0.0, "Importing PyTorch and Triton, running the kernel")
    with refusals():
        here = machine()
        place = {"device": "cuda" if here.cuda else "cpu", "dtype": getattr(torch, experiment.problem.dtype)}
        found = kernel(experiment, *(torch.from_numpy(array).to(**place) for array in inputs))
    yield Update(0.6, "Running the scheduler")
    with refusals():
        executed = trace(*inputs)
    yield Update(0.8, "Computing in float64")
    return found, executed, (here.device, kernels.interpreted())


def _options(experiment: Experiment) -> dict[str, Any]:
    """What `kernels.attention` is given beside tensors: an experiment's algorithm and blocks."""
    tiling = experiment.tiling
    own = {"algorithm": experiment.algorithm, "block_q": tiling.block_q, "block_kv": tiling.block_kv}
    return options_of(experiment.problem) | own


def compare(experiment: Experiment, held: Mapping[str, Held]) -> Tiles:
    """The largest difference of every quantity and pair in every tile."""
    quantities = [name for name in QUANTITIES if name != "alpha" or not experiment.record.unfused]
    return {
        (name, (one, other)): _tile_differences(experiment, name, held[one], held[other], held["float64"])
        for name in quantities
        for one, other in PAIRS
    }


def tolerances(experiment: Experiment, exact: Held, inputs) -> dict[str, float]:
    """How large a difference may be, by quantity; ORIGIN says where each comes from."""
    problem, (q, k, _) = experiment.problem, inputs
    norms = [np.sqrt((array.astype(np.float64) ** 2).sum(1)).max() for array in (q, k)]
    largest = norms[0] * norms[1] * problem.head_dim**-0.5
    score = (problem.head_dim**0.5 + 4) * ROUNDING * largest
    if experiment.record.unfused:
        score += dtype_named(problem.dtype).eps / 2 * largest  # S goes through memory in the tensors' dtype
    total = 2 * score + (problem.seq_kv**0.5 + 8) * ROUNDING
    dtype = getattr(torch, problem.dtype)
    rounded = unfused(*(torch.from_numpy(each)[None, None].to(dtype) for each in inputs), problem)()
    error, unit = np.abs(rounded[0, 0].double().numpy() - exact.out).max(), dtype_named(problem.dtype).eps
    return {
        "O": float(2 * error + unit * np.abs(exact.out).max()),
        "lse": score + total,
        "m": score,
        "l": total,
        "alpha": 2 * score + 8 * ROUNDING,
    }


def _apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Absolute differences, infinite where one of the two is no number and NaN where neither is."""
    a, b = (np.asarray(each, np.float64) for each in (one, other))
    with np.errstate(invalid="ignore"):
        differences = np.where(a == b, 0.0, np.abs(a - b))
    differences[np.isnan(a) != np.isnan(b)] = np.inf
    return differences


def _tile_differences(
    experiment: Experiment, quantity: str, one: Held, other: Held, exact: Held
) -> np.ndarray:
    """[query blocks, key blocks] largest difference of a quantity in each tile; NaN where neither has one."""
    name = "out" if quantity == "O" else quantity
    differences = _apart(getattr(one, name), getattr(other, name))
    if quantity == "l":
        differences = differences / np.where(exact.l > 0, exact.l, 1.0)
    if quantity in ("O", "lse"):  # [query blocks, 1, values], NaN past the last row
        height, rows = experiment.tiling.block_q, differences.reshape(len(differences), -1)
        padded = np.full((blocks(len(rows), height) * height, rows.shape[1]), np.nan)
        padded[: len(rows)] = rows
        differences = padded.reshape(-1, 1, height * rows.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a tile that nobody visits is NaN throughout
        return np.nanmax(differences, axis=2)


def unfused_gradients(problem: Problem, q, k, v, d_out, dtype: str = "float64") -> Gradients:
    """dQ [heads, seq_q, d], dK and dV [seq_kv, d] from whole matrices, which all have this dtype."""
    q, k, v, d_out = (torch.from_numpy(each).to(getattr(torch, dtype)) for each in (q, k, v, d_out))
    heads = [gradients(own, k, v, gradient, problem) for own, gradient in zip(q, d_out, strict=True)]
    d_q, d_k, d_v = zip(*heads, strict=True)
    found = {"dQ": torch.stack(d_q), "dK": sum(d_k), "dV": sum(d_v)}
    return {name: gradient.double().numpy() for name, gradient in found.items()}


def cancellation(problem: Problem, q, k, v, d_out) -> dict[str, float]:
    """What dQ and dK may be where dP - delta is 0: a float32 dot product of d terms, roundings at random."""
    q_norm, k_norm, v_norm, d_norm = (float(np.linalg.norm(each, axis=-1).max()) for each in (q, k, v, d_out))
    difference = (problem.head_dim**0.5 + 4) * ROUNDING * d_norm * v_norm
    return {"dQ": difference * k_norm * problem.scale, "dK": difference * q_norm * problem.scale}


def exponents(problem: Problem, q, k, v, d_out) -> dict[str, float]:
    """What dV may be off by as P is exp2 of the difference of two float32s, s and lse: roundings at random.

    d products are summed to s, whose partial sums grow, and s is scaled once; lse is a sum's logarithm,
    turned to natural units and back, and subtracted; exp2 is off by 2^-22.5 on a GPU (PTX ISA, ex2.approx).
    """
    k, squares, seen = k.astype(np.float64), 0.0, visible(problem)
    for own, gradient in zip(q.astype(np.float64), d_out.astype(np.float64), strict=True):
        scores = own @ k.T * problem.scale
        lse = np.logaddexp.reduce(np.where(seen, scores, -np.inf), axis=1, keepdims=True)
        lse = np.where(np.isneginf(lse), 0.0, lse)  # of a row that sees no key
        weights = np.where(seen, np.exp(np.where(seen, scores, 0.0) - lse), 0.0)
        units = (problem.head_dim / 3 + 1) * scores**2 + 5 * lse**2 + 2
        squares = squares + (weights**2 * units).T @ gradient**2
    return {"dV": float(ROUNDING * np.sqrt(np.max(squares)))}


def _allowed(problem: Problem, rounded: np.ndarray, exact: np.ndarray, floor: float) -> float:
    error, unit = np.abs(rounded - exact).max(), dtype_named(problem.dtype).eps * np.abs(exact).max()
    return float(TIMES * (error + unit) + floor)


def _kernel_gradients(experiment: Experiment, q, k, v, d_out) -> Gradients:
    """What PyTorch's autograd gets from the real kernels."""
    forward = experiment.changed(algorithm=ALGORITHM.key)
    tensors = [tensor.requires_grad_() for tensor in (q[None], k[None, None], v[None, None])]
    kernels.attention(*tensors, **_options(forward)).backward(d_out[None])
    d_q, d_k, d_v = (tensor.grad.double().cpu().numpy() for tensor in tensors)
    return {"dQ": d_q[0], "dK": d_k[0, 0], "dV": d_v[0, 0]}


def _trace_gradients(experiment: Experiment, q, k, v, d_out) -> Gradients:
    """What the scheduler's own execution gets, forward and backward."""
    forward = experiment.changed(algorithm=ALGORITHM.key)
    heads = [execute(forward, own, k, v) for own in q]
    out, lse = np.stack([head.out for head in heads]), np.stack([head.lse for head in heads])
    trace = execute_backward(experiment, q, k, v, out, lse, d_out)
    return {"dQ": trace.d_q, "dK": trace.d_k, "dV": trace.d_v}


COUNT = "engine.measuring.agreement:count"
NAMES = {  # the kernels' own names of what they read and write
    "Q": Tensor.Q, "K": Tensor.K, "V": Tensor.V, "O": Tensor.O, "out": Tensor.O, "lse": Tensor.LSE,
    "scores": Tensor.S, "weights": Tensor.P, "row_max": Tensor.STATISTICS, "row_sum": Tensor.STATISTICS,
    "partial": Tensor.PARTIAL, "partial_lse": Tensor.PARTIAL_LSE, "d_out": Tensor.D_O, "d_q": Tensor.D_Q,
    "d_k": Tensor.D_K, "d_v": Tensor.D_V, "delta": Tensor.DELTA, "lse_log2": Tensor.LSE_LOG2,
}  # fmt: skip
MASK = ("ranges", "seers")  # what each query sees, 12 bytes of it: the schedule counts matrices
Pair = tuple[int, int]  # bytes: the kernel's, and the schedule's


@dataclass(frozen=True)
class RealTraffic:
    """One head's bytes, those of the real kernel beside the schedule's."""

    experiment: Experiment  # what was run
    # read, written: by tensor
    read: dict[Tensor, Pair]
    written: dict[Tensor, Pair]
    # bytes of Q, K and V that come for a visit, by query block and key block
    tiles: dict[tuple[int, int], Pair]
    date: str = field(default_factory=now)  # when, ISO 8601

    @property
    def equal(self) -> bool:
        """Whether every tile and tensor has the same bytes in both, but for the lse that `unasked` says."""
        pairs = [*self.read.values(), *self.tiles.values()]
        pairs += [pair for tensor, pair in self.written.items() if tensor != Tensor.LSE or pair[1]]
        return all(kernel == schedule for kernel, schedule in pairs)

    @property
    def unasked(self) -> int:
        """Bytes of lse that the kernel writes for whoever asks, where the algorithm keeps none."""
        kernel, schedule = self.written.get(Tensor.LSE, (0, 0))
        return 0 if schedule else kernel


def report(file: Path, experiment: Experiment, stretch: float = 1.0) -> dict[str, Any]:
    """The project's own kernel watched, in the place of a file's; in the process that is watched."""
    mask = experiment.problem.mask.arguments(experiment.problem.seq_kv)
    attention = partial(kernels.attention, algorithm=experiment.algorithm, **mask)
    return watched(attention, replace(experiment, asked=experiment.tiling), stretch, 0, str(file), [])


def count(payload: dict[str, Any]) -> Generator[Update, None, RealTraffic]:
    """The job behind the Agreement page's traffic; its payload is a small sibling's flat values."""
    experiment = Experiment.of(**payload)
    yield Update(0.2, "Running the kernel in Triton's interpreter, every access to memory watched")
    return beside(experiment, run(ROOT / "kernels" / "dense.py", experiment, Limits(), function=__name__))


def beside(experiment: Experiment, found: dict[str, Any]) -> RealTraffic:
    """What was watched beside the schedule of the same algorithm."""
    model, schedule = simulate(experiment).traffic.requested, schedule_of(experiment)
    own = tile_bytes(found["steps"]["rows"], found["steps"]["tensors"])
    counted = tile_bytes(of_schedule(schedule), [tensor.name for tensor in NAMED])
    tiles = {tile: (own[tile], counted[tile]) for tile in sorted(own | counted)}
    read = _pairs(found["read_bytes"], model.read)
    written = _pairs(found["written_bytes"], model.written)
    return RealTraffic(experiment, read, written, tiles)


def _pairs(watched_bytes: dict[str, int], model: dict[Tensor, int]) -> dict[Tensor, Pair]:
    """Bytes by tensor, the kernel's and the schedule's, of all that either moves."""
    own = dict.fromkeys(Tensor, 0)
    for name, amount in watched_bytes.items():
        if name not in MASK:
            own[NAMES[name]] += amount
    pairs = {tensor: (own[tensor], int(model.get(tensor, 0))) for tensor in Tensor}
    return {tensor: pair for tensor, pair in pairs.items() if any(pair)}

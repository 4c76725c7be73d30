"""Layers of models with random weights on this GPU, attention and the rest timed apart.

A layer is what a server runs: PyTorch's matrix products, its grouped ones for experts, this project's
attention, and between them kernels that read and write once. Weights have 16 bits, whatever a checkpoint has;
biases are left out. Several layers are one CUDA graph, each with weights that the one before it has put out
of L2. Imports torch and kernels when called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from engine.algorithms import FORWARD
from engine.layers.config import shipped
from engine.layers.model import Layer, Matrix, Model
from engine.layers.phase import Phase, experiment_of
from engine.measuring import clock
from engine.measuring.exact import options_of
from engine.measuring.implementations import own_kernel, sdpa_arguments
from engine.measuring.machine import Library, kernels, torch
from engine.measuring.recorder import Recorder, compile_all
from engine.measuring.sections import together
from engine.measuring.trial import attempt
from engine.problem.problem import Problem
from engine.recordings.timing import LayerTiming, Times
from engine.worker.jobs import JobError

between, functional = Library("kernels.between"), Library("torch.nn.functional")
REPEATS = clock.Repeats(5, 12, 0.05)
FEW, MOST_LAYERS, LAYERS = 1024, 8, 2  # tokens up to which the most layers are timed at once, and others
COMPILING = 90.0  # seconds


def record(recorder: Recorder) -> None:
    """Layers, with the attention's kernels compiled first; a kind's weights are made once."""
    cuda = torch.cuda.is_available()
    kinds = together("layers", "model", "kind")
    wanted = [[row for row in rows if not recorder.has("layers", row)] for rows in kinds]
    if cuda:
        auto = partial(own_kernel, "auto")
        calls = {each: (auto, each, FORWARD) for each in map(_problem, chain(*wanted))}
        compiled = len(list(compile_all(calls, COMPILING)))
        recorder.tell(f"compiled {compiled} of {len(calls)} calls of attention")

    def said(rows: list[LayerTiming]) -> str:
        share = ", ".join(row.skipped or f"{row.attention_share:.1%}" for row in rows)
        return f"{rows[0].model}, {rows[0].kind}: attention's share {share}"

    recorder.measure("layers", wanted, lambda rows: _timed(rows, cuda), said, False)


def _layer(row: LayerTiming) -> tuple[Model, Layer]:
    model = shipped(row.model)
    return model, next(layer for layer, _ in model.layers if layer.kind == row.kind)


def _problem(row: LayerTiming) -> Problem:
    model, layer = _layer(row)
    return experiment_of(model, Phase(row.phase, row.tokens, row.batch), layer.attention).problem


def _timed(rows: list[LayerTiming], cuda: bool) -> Iterator[LayerTiming]:
    """Rows of one kind of layer, whose weights are made once."""
    model, layer = _layer(rows[0])
    weights, why = attempt(lambda: [_weights(each, cuda) for each in layer.matrices(model.hidden)], cuda)
    for row in rows:
        found, reason = None, why
        if not why:
            found, reason = attempt(lambda row=row: _timed_row(row, layer, model, weights, cuda), cuda)
        yield found or replace(row, skipped=reason)
        if cuda:
            torch.cuda.empty_cache()


def _timed_row(row: LayerTiming, layer: Layer, model: Model, weights: list, cuda: bool) -> LayerTiming:
    made = Built(layer, _problem(row), model.hidden, weights, cuda)
    times = 1 if not cuda else MOST_LAYERS if made.rows <= FEW else LAYERS
    calls = made.attentions()
    _, refused = attempt(lambda: made.run(made.pytorch(), 1), cuda)
    if not refused:
        calls["pytorch"] = made.pytorch()
    graphs = {name: _captured(partial(made.run, call, times), cuda) for name, call in calls.items()}
    found = clock.in_turns(graphs, REPEATS, cuda)
    each = {
        name: Times(*(round(part / times, 10) for part in (all_.p20, all_.p50, all_.p80)), all_.repeats)
        for name, all_ in found.items()  # which timed so many at once
    }
    return replace(row, **each, refused=refused)


class Built:
    """One kind of layer over a batch: `run` puts tokens through it with an attention that is given."""

    def __init__(self, layer: Layer, problem: Problem, hidden: int, weights: list, cuda: bool):
        self.layer, self.problem, self.weights = layer, problem, weights
        self.rows = problem.batch * problem.seq_q  # tokens that go through it
        self.make = partial(_numbers, cuda=cuda)
        self.inputs = self.make(self.rows, hidden), self.make(self.rows, hidden)
        self.lots = self.make(MOST_LAYERS, self.rows, layer.mlp.experts)
        decoding, own = problem.seq_q < problem.seq_kv, layer.attention
        shape = problem.batch, problem.kv_heads, problem.seq_kv, problem.head_dim
        self.cache = self.make(1 if problem.latent else 2, *shape) if decoding else None
        self.mixed = partial(self._latent if own.latent else self._plain, decoding)

    def run(self, attend: Callable, times: int) -> Any:
        """The last of so many layers' outputs, one after another."""
        x, y = self.inputs
        for lots in self.lots[:times]:
            x, h = between.norm(x, y)
            y, weights = self.mixed(h, attend)
            y = between.norm(y)[1] if self.layer.norms > 2 else y
            x, h = between.norm(x, y)
            y = experts(h, weights, lots, self.layer.mlp.active) if lots.shape[1] > 1 else mlp(h, weights)
            y = between.norm(y)[1] if self.layer.norms > 2 else y
        return y

    def attentions(self) -> dict[str, Callable]:
        """This project's attention, by what it takes by itself, and numbers in place of it."""
        problem = self.problem
        out = self.make(problem.batch, problem.seq_q, problem.heads, problem.v_dim).transpose(1, 2)
        return {"times": partial(kernels.attention, **options_of(problem)), "rest": lambda q, k, v: out}

    def pytorch(self) -> Callable:
        """PyTorch's own, by the backend that it chooses; raises JobError where it has no such attention."""
        if self.problem.latent:
            raise JobError("it has no attention over a latent")
        how = sdpa_arguments(self.problem, self.inputs[0].device)
        return partial(functional.scaled_dot_product_attention, **how)

    def _plain(self, decoding: bool, h, attend: Callable) -> tuple[Any, list]:
        problem, (first, last, *others) = self.problem, self.weights
        d, heads, keys = problem.head_dim, problem.heads, problem.kv_heads
        qkv = functional.linear(h, first).view(self.rows, heads + 2 * keys, d)
        between.turn(qkv[:, : heads + keys], problem.seq_q)
        parts = qkv.view(problem.batch, problem.seq_q, -1, d).transpose(1, 2)
        q, k, v = parts.split((heads, keys, keys), 1)
        if decoding:  # the new ones are the last of the cache
            self.cache[:, :, :, -1] = qkv[:, heads:].view(problem.batch, 2, keys, d).transpose(0, 1)
            k, v = self.cache
        return self._out(attend(q, k, v), last), others

    def _latent(self, decoding: bool, h, attend: Callable) -> tuple[Any, list]:
        own, problem, linear = self.layer.attention, self.problem, functional.linear
        first, queries, keys, last, *others = self.weights
        sizes = own.q_latent, own.latent, own.rope_dim
        q, latent, turned = linear(h, first).split(sizes, 1)
        q, latent = between.norm(q)[1], between.norm(latent)[1]
        q = linear(q, queries).view(self.rows, own.heads, own.head_dim)
        between.turn(q[..., -own.rope_dim :], problem.seq_q)
        between.turn(turned[:, None], problem.seq_q)
        plain, v_dim = own.head_dim - own.rope_dim, own.head_dim_v
        if not decoding:
            made, v = linear(latent, keys).view(self.rows, own.heads, -1).split((plain, v_dim), -1)
            k = torch.empty_like(q)
            k[..., :plain], k[..., plain:] = made, turned[:, None]
            q, k, v = (each.view(problem.batch, problem.seq_q, *each.shape[1:]) for each in (q, k, v))
            return self._out(attend(*(each.transpose(1, 2) for each in (q, k, v))), last), others
        to_latent, from_latent = keys.view(own.heads, -1, own.latent).split((plain, v_dim), 1)
        q = q.transpose(0, 1)
        wide = torch.cat((torch.bmm(q[..., :plain], to_latent), q[..., plain:]), -1)
        self.cache[0, :, 0, -1] = torch.cat((latent, turned), -1)
        k = self.cache[0]
        out = attend(wide.transpose(0, 1)[:, :, None], k, k[..., : own.latent])
        out = torch.bmm(out[:, :, 0].transpose(0, 1), from_latent.mT).transpose(0, 1)
        return linear(out.reshape(self.rows, -1), last), others

    def _out(self, out, last) -> Any:
        return functional.linear(out.transpose(1, 2).reshape(self.rows, -1), last)


def mlp(h, weights: list) -> Any:
    """Two products with a gated activation between them."""
    up, down = weights
    return functional.linear(between.activate(functional.linear(h, up)), down)


def experts(h, weights: list, lots, active: int) -> Any:
    """Each token through experts that are chosen by lot, its router's product aside, and what all take."""
    router, up, down, *always = weights
    grouped = functional.grouped_mm
    functional.linear(h, router)
    chosen, order, ends = choose(lots, active)
    gathered = grouped(h[order // active], up.mT, offs=ends)  # a row for each of a token's experts, by expert
    rows = grouped(between.activate(gathered), down.mT, offs=ends)
    places = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    out = between.combine(rows, places.view_as(chosen), chosen)
    return out + mlp(h, always) if always else out


def choose(logits, active: int) -> tuple:
    """Weights of each token's experts, the order of their rows by expert, and where each one's rows end."""
    values, ids = logits.topk(active, -1)
    ordered, order = ids.flatten().to(torch.int16).sort()
    experts = torch.arange(logits.shape[-1], dtype=torch.int16, device=logits.device)
    ends = torch.searchsorted(ordered, experts, right=True, out_int32=True)
    return values.softmax(-1), order, ends


def _numbers(*sizes: int, cuda: bool) -> Any:
    return torch.randn(sizes, device="cuda" if cuda else "cpu", dtype=torch.bfloat16)


def _weights(matrix: Matrix, cuda: bool) -> Any:
    """Random ones that keep the scale of what they multiply."""
    copies = (matrix.copies,) * (matrix.copies > 1)
    return _numbers(*copies, matrix.rows, matrix.columns, cuda=cuda).mul_(matrix.columns**-0.5)


def _captured(call: Callable, cuda: bool) -> Callable:
    """The call as a graph, after one outside of it."""
    if not cuda:
        return call
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        call()
    return lambda held=call: graph.replay()  # whose tensors must stay

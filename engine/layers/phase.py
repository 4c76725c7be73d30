"""A phase of a model on a GPU: attention of each kind of layer as an experiment, the rest as a roofline.

All seconds are modelled. Attention's are those of the model of its kernel, at the clock that power leaves to
a model that runs on and on. `engine.layers.rest` has all else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from engine.algorithms import flash2, flash3, split_kv
from engine.experiment import PARAMETERS, Experiment, ExperimentError
from engine.layers.config import names, opened, shipped
from engine.layers.model import Attention, Layer, Matrix, Model
from engine.layers.rest import layer_seconds, product_seconds
from engine.model.cluster.kernel import BACKWARD
from engine.model.simulation import simulate
from engine.parser import Parser, whole
from engine.problem.hardware import GPUS

PREFILL, DECODE, TRAIN = PHASES = ("prefill", "decode", "train")
PARALLEL = (1, 2, 4, 8)
AUTO = "auto"


@dataclass(frozen=True)
class Phase:
    """What a model does: a prompt's tokens at once, one token for each of a batch, or a training step."""

    name: str = PREFILL  # one of PHASES
    tokens: int = 4096  # of each sequence; in decoding, those that it has
    batch: int = 1  # sequences
    parallel: int = 1  # GPUs that share out heads and widths
    hardware: str = "h200"  # the key of a preset
    algorithm: str = AUTO  # of attention: AUTO, what the kernels take by themselves, or a key

    def __post_init__(self):
        for field, value, allowed in (("phase", self.name, PHASES), ("parallel", self.parallel, PARALLEL)):
            if value not in allowed:
                raise ExperimentError(field, value, f"one of {', '.join(map(str, allowed))}")
        for field, name in (("tokens", "seq"), ("batch", "batch"), ("hardware", "hardware")):
            value, one = getattr(self, field), PARAMETERS[name]
            if not one.holds(value):
                raise ExperimentError(field, value, one.must)

    @property
    def passes(self) -> int:
        """Products of a training step for one of a forward pass: by inputs and by weights, too."""
        return 3 if self.name == TRAIN else 1

    @property
    def rows(self) -> int:
        """Tokens that pass through the layers."""
        return self.batch * (1 if self.name == DECODE else self.tokens)

    def of(self, model: Model) -> Evaluated:
        """What it takes of a model; raises ExperimentError where its heads cannot be shared out."""
        return _evaluated(model, self)


@dataclass(frozen=True)
class Part:
    layer: Layer  # the kind
    count: int  # how many there are
    experiment: Experiment | None  # its attention on one GPU; None: it has none
    # attention_seconds, other_seconds: of one of them
    attention_seconds: float
    other_seconds: float

    @property
    def seconds(self) -> float:
        return self.attention_seconds + self.other_seconds


@dataclass(frozen=True)
class Evaluated:
    """A model in a phase: bytes are of each GPU."""

    model: Model
    phase: Phase
    parts: tuple[Part, ...]  # its kinds of layers
    head_seconds: float  # of the matrix that turns tokens into words

    @cached_property
    def attention_seconds(self) -> float:
        return sum(part.count * part.attention_seconds for part in self.parts)

    @cached_property
    def seconds(self) -> float:
        return self.head_seconds + sum(part.count * part.seconds for part in self.parts)

    @property
    def attention_share(self) -> float:
        return self.attention_seconds / self.seconds

    @property
    def weight_bytes(self) -> int:
        return self.model.weight_bytes(self.phase.parallel)

    @property
    def sequence_bytes(self) -> int:
        return self.model.cache_bytes(self.phase.tokens, self.phase.parallel)

    @property
    def kv_cache_bytes(self) -> int:
        return self.phase.batch * self.sequence_bytes

    @property
    def memory_bytes(self) -> int:
        return GPUS[self.phase.hardware].memory_bytes

    @property
    def sequences(self) -> int | None:
        """How many sequences' K and V fit beside the weights; None where they take nothing."""
        left = self.memory_bytes - self.weight_bytes
        return max(0, left // self.sequence_bytes) if self.sequence_bytes else None

    @property
    def said(self) -> tuple[str, ...]:
        phase = self.phase
        parallel = "What GPUs send one another is left out."
        step = f"Attention's backward pass is taken as {BACKWARD} forward passes; the optimizer is left out."
        choice = "Every token is taken to choose its experts by lot."
        has_choice = any(part.layer.mlp and part.layer.mlp.experts > 1 for part in self.parts)
        found = (parallel,) * (phase.parallel > 1) + (step,) * (phase.name == TRAIN) + (choice,) * has_choice
        return *self.model.said, *found

    def summary(self) -> dict[str, Any]:
        phase = self.phase
        layers = [
            {"kind": part.layer.kind, "count": part.count}
            | {"experiment": part.experiment and part.experiment.flat()}
            | {"attention_seconds": part.attention_seconds, "other_seconds": part.other_seconds}
            for part in self.parts
        ]
        return {
            **{"model": self.model.name, "phase": phase.name, "tokens": phase.tokens, "batch": phase.batch},
            **{"hardware": phase.hardware, "parallel": phase.parallel, "layers": layers},
            **{"attention_share": self.attention_share, "parameters": self.model.parameters},
            **{"weight_bytes": self.weight_bytes, "kv_cache_bytes": self.kv_cache_bytes},
            **{"memory_bytes": self.memory_bytes, "sequences_that_fit": self.sequences},
            "seconds": self.seconds,
            "said": list(self.said),
        }


@lru_cache(maxsize=1024)
def _evaluated(model: Model, phase: Phase) -> Evaluated:
    own = model.shared(phase.parallel)
    parts = []
    for (layer, count), (unshared, _) in zip(own.layers, model.layers, strict=True):
        experiment = unshared.attention and experiment_of(model, phase, unshared.attention)
        seconds = _attention_seconds(experiment, phase) if experiment else 0.0
        rest = layer_seconds(own, layer, phase.hardware, phase.rows, phase.name == DECODE)
        parts.append(Part(unshared, count, experiment, seconds, rest * phase.passes))
    rows = phase.rows if phase.name == TRAIN else phase.batch
    words = product_seconds(own, Matrix("words", own.vocab, own.hidden), phase.hardware, rows)
    return Evaluated(model, phase, tuple(parts), words * phase.passes)


def _attention_seconds(experiment: Experiment, phase: Phase) -> float:
    """Of one layer's among many. Where power limits a call alone, prompts go on at the clock it sustains.

    In decoding all else waits for memory, which leaves attention the power.
    """
    found, reached = simulate(experiment).modelled, GPUS[phase.hardware].reached
    seconds = found.seconds
    if found.limited and phase.name != DECODE:
        seconds = reached.unsustained(seconds) / reached.sustained_clock
    return seconds * (BACKWARD + 1 if phase.name == TRAIN else 1)


def experiment_of(model: Model, phase: Phase, attention: Attention) -> Experiment:
    """The attention of one kind of layer in a phase, on one GPU; raises ExperimentError."""
    if attention.heads % phase.parallel or max(attention.kv_heads, phase.parallel) % phase.parallel:
        must = f"a number that divides the {attention.heads} heads and the {attention.kv_heads} key heads"
        raise ExperimentError("parallel", phase.parallel, must)
    own, tokens, decoding = attention.shared(phase.parallel), phase.tokens, phase.name == DECODE
    values: dict[str, Any] = {
        **{"batch": phase.batch, "heads": own.heads, "kv_heads": own.kv_heads, "head_dim": own.head_dim},
        **{"seq": 1 if decoding else tokens, "seq_kv": tokens, "causal": model.causal, "dtype": model.dtype},
        **{"head_dim_v": own.head_dim_v, "softcap": own.softcap, "sinks": own.sinks, "slopes": own.slopes},
        "hardware": phase.hardware,
    }
    if own.latent and decoding:
        dims = {"head_dim": own.latent + own.rope_dim, "head_dim_v": own.latent}
        values |= {"kv_heads": 1, "latent": True, **dims}
    if own.window and own.window < tokens:
        half = own.window // 2
        values["window"] = own.window if model.causal else (half, half)
    if own.chunk and own.chunk < tokens:
        lengths = [own.chunk] * (tokens // own.chunk) + [tokens % own.chunk] * bool(tokens % own.chunk)
        values |= {"window": own.chunk} if decoding else {"documents": lengths}
    return _with_algorithm(Experiment.of(**values), phase)


def _with_algorithm(experiment: Experiment, phase: Phase) -> Experiment:
    """The experiment as the kernels run it by themselves, or under the algorithm asked for."""
    problem = experiment.problem
    if phase.algorithm != AUTO:
        return experiment.changed(algorithm=phase.algorithm).in_own_tiling()
    if phase.name == DECODE:
        rows, keys = split_kv.own_blocks(problem, experiment.gpu)
        split = experiment.changed(algorithm=split_kv.ALGORITHM.key, block_q=rows, block_kv=keys)
        return split.changed(splits=split_kv.own_splits(problem, split.tiling, split.gpu.sms))
    served = flash3.ALGORITHM.unserved(problem, experiment.gpu) is None
    return experiment.changed(algorithm=(flash3 if served else flash2).ALGORITHM.key).in_own_tiling()


def main(arguments: list[str]) -> None:
    """Print what a model takes; raises SystemExit(2) on a bad value."""
    parser = Parser("engine model", __doc__)
    parser.add_argument("model", nargs="?", help="a config.json, or the name of a model that is shipped")
    parser.add_argument("--list", action="store_true", help="print the models that are shipped")
    parser.add_argument("--phase", choices=PHASES, default=PREFILL, help="default %(default)s")
    parser.add_argument("--tokens", type=whole, default=4096, help="of a sequence; default %(default)s")
    parser.add_argument("--batch", type=whole, default=1, help="sequences; default %(default)s")
    parser.add_argument("--hardware", choices=GPUS, default="h200", help="default %(default)s")
    parser.add_argument("--parallel", type=whole, default=1, help=f"GPUs, of {PARALLEL}; default %(default)s")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(arguments)
    if options.list:
        found = [shipped(name) for name in names()]
        listed = [{"name": each.name, "parameters": each.parameters, "source": each.source} for each in found]
        lines = (f"{each['name']:<20} {each['parameters']:>18,}  {each['source']}" for each in listed)
        print(json.dumps(listed) if options.json else "\n".join(lines))
        return
    if options.model is None:
        parser.error(f"model is missing; it must be a config.json, or one of {', '.join(names())}")
    phase = Phase(options.phase, options.tokens, options.batch, options.parallel, options.hardware)
    found = phase.of(opened(options.model))
    print(json.dumps(found.summary()) if options.json else table(found))


def table(found: Evaluated) -> str:
    lines = [f"{'layers':<52} {'count':>5} {'attention, us':>14} {'the rest, us':>14}"]
    for part in found.parts:
        seconds = (f"{each * 1e6:>14,.1f}" for each in (part.attention_seconds, part.other_seconds))
        lines.append(" ".join((f"{part.layer.kind:<52} {part.count:>5}", *seconds)))
    lines += [
        f"{'the whole, ms':<52} {found.seconds * 1e3:>35,.2f}  modelled",
        f"{'attention of it':<52} {found.attention_share:>35.1%}  modelled",
        f"{'weights, bytes':<52} {found.weight_bytes:>35,}  counted",
        f"{'K and V, bytes':<52} {found.kv_cache_bytes:>35,}  counted",
    ]
    return "\n".join([*lines, *found.said])
